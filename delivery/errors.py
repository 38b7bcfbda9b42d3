"""What the delivery side refuses, each with a stable `code` and words that say what to do.

DeliveryError                    code, detail, field
├── InvalidEvent                 the event itself is wrong: its type, uid, subscriber or data (API: 400)
├── UidTaken                     this uid was recorded with another body (API: 409)
└── WrongState                   the thing is not in a state that allows this verb (API: 409)
"""

from __future__ import annotations


class DeliveryError(Exception):
    """A refusal of the delivery side. `field` names what was wrong, where it was one field."""

    code = "delivery_error"

    def __init__(self, detail: str, *, code: str = "", field: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code or self.code
        self.field = field


class InvalidEvent(DeliveryError):
    code = "invalid_event"


class UidTaken(DeliveryError):
    code = "uid_taken"


class WrongState(DeliveryError):
    code = "wrong_state"
