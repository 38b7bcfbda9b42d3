"""The kinds that come with Roundtrip."""

from tasks.kinds import acceptance, reports, schemas
from tasks.kinds.registry import Kind, register

register(Kind("map_search", "Map search", schemas.MAP_SEARCH, acceptance.MAP_SEARCH))
register(Kind("email_generation", "E-mail generation", schemas.EMAIL_GENERATION, acceptance.EMAIL_GENERATION))
register(Kind("scoring", "Scoring", schemas.SCORING, acceptance.SCORING))
register(Kind("batch_report", "Batch report", schemas.BATCH_REPORT, acceptance.BATCH_REPORT, run=reports.batch_report))
