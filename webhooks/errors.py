"""What the inbox refuses to do.

InboxError ── CannotReplay   a stored event that must not be judged again
"""


class InboxError(Exception):
    """`code` is stable; `detail` says what to do."""

    code = "inbox_error"

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class CannotReplay(InboxError):
    code = "cannot_replay"
