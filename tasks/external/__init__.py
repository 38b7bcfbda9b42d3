"""Work that runs at a provider: starting, its updates, fetching results, cancelling.

`apply` is the one way a provider's word reaches a task, whether it came by webhook, poll or as an answer.
"""

from tasks.external.updates import Applied, apply, apply_many

__all__ = ["Applied", "apply", "apply_many"]
