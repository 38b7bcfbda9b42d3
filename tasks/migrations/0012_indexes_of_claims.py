"""Indexes for claims by urgency and subscriber, for what becomes due, and for what expires, built while all go on writing.

One that is interrupted leaves an invalid index behind: drop it (`DROP INDEX CONCURRENTLY name`) and migrate again.
"""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("tasks", "0011_durable_tasks"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="task",
            index=models.Index(
                condition=models.Q(("state__in", ["queued", "retrying"])),
                fields=["kind", "priority", "next_attempt_at"],
                name="task_claim",
            ),
        ),
        AddIndexConcurrently(
            model_name="task",
            index=models.Index(
                condition=models.Q(("state__in", ["queued", "retrying"])),
                fields=["kind", "subscriber", "priority", "next_attempt_at"],
                name="task_claim_subscriber",
            ),
        ),
        AddIndexConcurrently(
            model_name="task",
            index=models.Index(
                condition=models.Q(("state", "scheduled")), fields=["next_attempt_at"], name="task_scheduled"
            ),
        ),
        AddIndexConcurrently(
            model_name="task",
            index=models.Index(
                condition=models.Q(("expires_at__isnull", False), ("state__in", ["scheduled", "queued", "retrying"])),
                fields=["expires_at"],
                name="task_expiry",
            ),
        ),
    ]
