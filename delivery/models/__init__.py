"""Events out: endpoints, events, deliveries, attempts and what is known of each endpoint's health.

State columns are written only by `delivery.lifecycle` and `delivery.engine.claims`. Hot rows (Delivery, EndpointHealth)
carry no wide columns: payloads live on Event, response heads on Attempt.
"""

from delivery.models.attempts import Attempt
from delivery.models.deliveries import Delivery
from delivery.models.endpoints import Endpoint, endpoint_label, lean
from delivery.models.events import Event
from delivery.models.figures import DailyTotal, LatencyBucket, StatsMinute
from delivery.models.health import EndpointHealth

__all__ = [
    "Attempt",
    "DailyTotal",
    "Delivery",
    "Endpoint",
    "EndpointHealth",
    "Event",
    "LatencyBucket",
    "StatsMinute",
    "endpoint_label",
    "lean",
]
