"""What the task side refuses, and how providers fail.

TaskError ─┬─ UnknownKind       no such kind
           ├─ InvalidInput      a field of the input is wrong; `errors` names each
           │   └─ BadSteps      what is to follow is wrong
           ├─ BadBatch          empty or too large
           ├─ NoProvider        the kind needs a job provider and none is set up
           ├─ UniqueTaken       another task holds the unique key; `errors` names it
           ├─ InvalidSetting    a field of an account's or a kind's settings is wrong; `errors` names each
           ├─ NotFound          no such task, batch or account for this caller
           ├─ AccountRefused    the verb makes no sense for the account as it is; `code` says why
           ├─ WrongState        the verb is not allowed in the state the task is in
           ├─ NotAdopted        the job that a person names cannot be taken for a task's; the words say why
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


class InvalidTerms(InvalidInput):
    """What is wrong is no field of the input, but one beside it: `priority`, `expires_at`, `reference`."""


class BadSteps(InvalidInput):
    """What is to follow is wrong, not the input itself; fields start with `then`."""


def wrong_field(field: str, code: str, detail: str) -> InvalidInput:
    """One field that is wrong, and how to put it right."""
    return InvalidInput(f"{field}: {detail}", errors=[{"field": field, "code": code, "detail": detail}])


class BadBatch(TaskError):
    code = "bad_batch"


class NoProvider(TaskError):
    code = "no_provider"


class UniqueTaken(TaskError):
    """`errors`: `{field, code, detail, task?}`, where `task` is the id of the one that holds the key."""

    code = "unique_taken"


class InvalidSetting(TaskError):
    """`errors`: `{field, code, detail}`."""

    code = "invalid"

    def __init__(self, errors: list[dict[str, str]]) -> None:
        super().__init__(f"{errors[0]['field']}: {errors[0]['detail']}", errors=errors)


class NotFound(TaskError):
    code = "not_found"


class AccountRefused(TaskError):
    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class WrongState(TaskError):
    code = "wrong_state"


class NotAdopted(TaskError):
    code = "not_adopted"


class RunFailed(TaskError):
    """Raised by an internal kind's run. `code` ends up on the task."""

    def __init__(self, code: str, detail: str, *, permanent: bool = False) -> None:
        super().__init__(detail)
        self.code = code
        self.permanent = permanent
