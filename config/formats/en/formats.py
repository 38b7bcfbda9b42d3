"""ISO dates and the zone, in every admin list: a night operator compares them with logs."""

DATE_FORMAT = "Y-m-d"
DATETIME_FORMAT = "Y-m-d H:i:s e"
TIME_FORMAT = "H:i:s"
SHORT_DATE_FORMAT = DATE_FORMAT
SHORT_DATETIME_FORMAT = "Y-m-d H:i e"
