"""What the task side refuses, and how providers fail.

TaskError ─┬─ UnknownKind       no such kind
           ├─ InvalidInput      a field of the input is wrong; `errors` names each
           ├─ BadBatch          empty or too large
           ├─ NoProvider        the kind needs a job provider and none is set up
           ├─ NotFound          no such task or batch for this caller
           ├─ WrongState        the verb is not allowed in the state the task is in
           └─ RunFailed         an internal kind's run failed; `permanent` says whether to try again

Each carries a stable `code` and words that say what to do; nothing here knows HTTP. The provider's side has its own
tree in `tasks.providers.base`.
"""


class TaskError(Exception):
    code = "task_error"

    def __init__(self, detail: str, *, errors: list[dict[str, str]] | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = errors or []


class UnknownKind(TaskError):
    code = "unknown_kind"


class InvalidInput(TaskError):
    """`errors`: `{field, code, detail}`; in a batch `field` starts with `tasks.<index>.`."""

    code = "invalid"


class BadBatch(TaskError):
    code = "bad_batch"


class NoProvider(TaskError):
    code = "no_provider"


class NotFound(TaskError):
    code = "not_found"


class WrongState(TaskError):
    code = "wrong_state"


class RunFailed(TaskError):
    """Raised by an internal kind's run. `code` ends up on the task."""

    def __init__(self, code: str, detail: str, *, permanent: bool = False) -> None:
        super().__init__(detail)
        self.code = code
        self.permanent = permanent
