"""The kinds that come with Roundtrip."""

from tasks.kinds import acceptance, reports, schemas
from tasks.kinds.registry import Kind, register

register(Kind("map_search", "Map search", schemas.MAP_SEARCH, acceptance.map_search))
register(Kind("email_generation", "E-mail generation", schemas.EMAIL_GENERATION, acceptance.email_generation))
register(Kind("scoring", "Scoring", schemas.SCORING, acceptance.scoring))
register(Kind("batch_report", "Batch report", schemas.BATCH_REPORT, acceptance.report, run=reports.batch_report))
