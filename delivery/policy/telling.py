"""What a caller with an API key is told of where its requests went: nothing of our own networks. Pure.

Operators' pages show everything. A customer's key must not learn what a name leads to inside, nor read what answers
there: whoever may name a URL could otherwise look around behind the guard.
"""

from __future__ import annotations

from delivery.policy.outcomes import Outcome
from delivery.policy.postback import is_refusal_of_ours
from kernel.network.addresses import BLOCKED_PORT, is_public

BLOCKED = "This address may not be called. Correct the URL; the operators' pages say more."
_OF_THE_URL_ALONE = (f"{BLOCKED_PORT}: ", "unsendable: ")


def error_for_keys(outcome: str, error: str) -> str:
    """A stored error without what the guard has found out."""
    if outcome != Outcome.BLOCKED or is_refusal_of_ours(error) or error.startswith(_OF_THE_URL_ALONE):
        return error
    return BLOCKED


def answer_for_keys(address: str) -> bool:
    """Whether what came back from this address ("": nowhere) may be shown to a key."""
    return not address or is_public(address)


def address_for_keys(address: str) -> str:
    return address if answer_for_keys(address) else ""
