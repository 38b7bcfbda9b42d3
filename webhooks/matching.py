"""The SQL that finds parked events whose job is known by now, among however many that wait for others."""

from django.db import connection

# Parked events are few and have an index of their own; each of their jobs is one look into the index of job ids.
_MATCHED = """
    SELECT DISTINCT event.id
      FROM webhooks_inboundevent AS event
     CROSS JOIN LATERAL jsonb_array_elements(event.results) AS result
      JOIN tasks_externaljob AS job
        ON job.provider = event.provider AND job.job_id = result ->> 'job_id' AND job.job_id <> ''
     WHERE event.parked_until IS NOT NULL AND result ->> 'reason' = 'parked'
     ORDER BY event.id
     LIMIT %s
"""


def whose_job_is_known(limit: int) -> list[int]:
    """Ids of parked events that a start's answer has been waiting for."""
    with connection.cursor() as cursor:
        cursor.execute(_MATCHED, [limit])
        return [row[0] for row in cursor.fetchall()]
