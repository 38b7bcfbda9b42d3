"""placeholder while the rules are written"""

from datetime import datetime
from console import heartbeat


def evaluate(now: datetime) -> None:
    heartbeat.beat_once(heartbeat.EVALUATOR, process="evaluator")
