"""The kinds of work: what their input looks like, where they run, and when a result is acceptable.

Any installed app may bring kinds in its `kinds.py` (docs/kinds.md). Where an external kind runs is the operator's
choice (`KindPolicy.provider`) and may change while jobs are in flight: a running job's account stands on its own row.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import structlog

from kernel.network.http import MAX_BODY_BYTES
from tasks import accounts
from tasks.errors import InvalidInput, NoProvider, UnknownKind
from tasks.kinds import schemas
from tasks.models import KindPolicy
from tasks.providers import discovery
from tasks.providers.base import Provider

_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")

RESULT_BYTES = MAX_BODY_BYTES

Check = Callable[[Mapping[str, Any], Any], str]

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ResultRule:
    """What a result must keep. `check` gets input and result, and says in words what is wrong, or ""; it is pure."""

    name: str
    check: Check


@dataclass(frozen=True)
class Broken:
    """The first rule that a result breaks, and how."""

    rule: str
    words: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.words}"


@dataclass(frozen=True)
class Kind:
    """A sort of work.

    `rules` are asked in their order, and the first that is broken makes a dead letter of the task, under its name; the
    later ones may rely on the earlier. A new job is started instead only where `starts_again_when_rejected` says so:
    it is paid for again. `run` is set for an internal kind: it gets the task, and the run if it takes two
    (`tasks.kinds.running`), works in a process of our own worker, and returns the result. `processes`: how many run
    side by side in one worker. `on_succeeded` and `on_completed` name the kinds that follow by themselves.
    """

    name: str
    title: str
    schema: Mapping[str, Any]
    rules: tuple[ResultRule, ...] = ()
    run: Callable[..., Any] | None = None
    processes: int = 4
    result_bytes: int = RESULT_BYTES  # the largest result it takes from a provider
    starts_again_when_rejected: bool = False
    on_succeeded: tuple[str, ...] = ()
    on_completed: tuple[str, ...] = ()

    @cached_property
    def wants_run(self) -> bool:
        """Whether its function takes the run beside the task."""
        return self.run is not None and len(inspect.signature(self.run).parameters) > 1

    @property
    def is_external(self) -> bool:
        return self.run is None

    def checked(self, given: Any) -> dict[str, Any]:
        """The input as it is stored. Raises InvalidInput with a row for each wrong field."""
        found = schemas.problems(self.schema, given)
        if found:
            raise InvalidInput(f"{found[0]['field']}: {found[0]['detail']}", errors=found)
        return schemas.normalised(self.schema, given)

    def broken(self, given: Mapping[str, Any], result: Any) -> Broken | None:
        """The first rule that the result breaks; a rule that cannot judge a stranger's text counts as broken by it."""
        for rule in self.rules:
            try:
                words = rule.check(given, result)
            except Exception as error:
                log.exception("result_rule_broke", kind=self.name, rule=rule.name)
                words = f"The result has a form that this rule cannot judge ({type(error).__name__})."
            if words:
                return Broken(rule.name, words)
        return None

    def from_texts(self, row: Mapping[str, str | None]) -> dict[str, Any]:
        """An input made from a CSV row, unchecked."""
        return schemas.from_texts(self.schema, row)


KINDS: dict[str, Kind] = {}  # by name, in the order in which they were brought


class KindTaken(Exception):
    """Two kinds of one name: whose tasks would it be?"""


def register(kind: Kind) -> Kind:
    """Make a kind known. Raises KindTaken where another one has its name, ValueError for what cannot be one."""
    if not _NAME.fullmatch(kind.name):
        raise ValueError(f"The kind {kind.name!r} needs a name of small letters, digits and underscores.")
    _refuse_bad_rules(kind)
    other = KINDS.setdefault(kind.name, kind)
    if other is not kind:
        raise KindTaken(f"There are two kinds called {kind.name!r}. Rename one.")
    return kind


def _refuse_bad_rules(kind: Kind) -> None:
    if not isinstance(kind.rules, tuple) or not all(isinstance(rule, ResultRule) for rule in kind.rules):
        raise ValueError(f'The rules of {kind.name!r} must be a tuple: (ResultRule("name", check), …).')
    names = [rule.name for rule in kind.rules]
    if len(set(names)) < len(names) or not all(_NAME.fullmatch(name) for name in names):
        raise ValueError(f"The rules of {kind.name!r} need names of their own: small letters, digits, underscores.")


def discover() -> None:
    """Import `kinds.py` of every installed app, as the admin does with `admin.py`."""
    discovery.load("kinds")


def external() -> tuple[str, ...]:
    """Names of the kinds that run at a provider."""
    return tuple(name for name, kind in KINDS.items() if kind.is_external)


def internal() -> tuple[str, ...]:
    """Names of the kinds that run in our own workers."""
    return tuple(name for name, kind in KINDS.items() if not kind.is_external)


def get(name: str) -> Kind:
    """The kind of this name; hyphen and underscore are the same. Raises UnknownKind."""
    kind = find(name)
    if kind is None:
        raise UnknownKind(f"There is no kind {str(name)[:60]!r}; there are {', '.join(KINDS)}.")
    return kind


def find(name: str) -> Kind | None:
    """The kind of this name; None where there is none, or the app that brought it is gone."""
    return KINDS.get(str(name).replace("-", "_"))


def exists(name: str) -> bool:
    return find(name) is not None


def policy_for(name: str) -> KindPolicy:
    """The operator's settings of a kind; made with the defaults when it is first asked for."""
    policy = KindPolicy.objects.filter(kind=name).first()
    if policy is None:
        policy, _ = KindPolicy.objects.get_or_create(kind=name)
    return policy


def provider_for(policy: KindPolicy) -> Provider | None:
    """Where new work of a kind goes: the policy's provider, else the installation's default one."""
    return accounts.for_kind(policy)


def require_options(kind: Kind, policy: KindPolicy, provider: Provider) -> None:
    """Refuse work whose start could only be refused. Raises NoProvider with what to do."""
    if words := provider.lacks(kind.name, {**provider.account.options, **policy.options}):
        raise NoProvider(f"{kind.title} cannot be done at the account {provider.name!r}. {words} Nothing was stored.")


def require_provider(kind: Kind, policy: KindPolicy) -> None:
    """Refuse work that nobody could carry out. Raises NoProvider with what to do."""
    if not kind.is_external:
        return
    provider = require_account(kind, policy.provider) if policy.provider else provider_for(policy)
    if provider is None:
        raise NoProvider(
            f"No provider account can do {kind.title}. Make one and name it in the kind's policy (see "
            f"docs/adding-a-provider.md); nothing was stored."
        )
    require_options(kind, policy, provider)


def require_account(kind: Kind, name: str) -> Provider:
    """The account's adapter; NoProvider with what to do where it is not there, or cannot do this kind."""
    provider = accounts.get(name)
    if provider is None:
        raise NoProvider(
            f"{kind.title} is set to the account {name!r}, which there is not. "
            f"Make it, or choose another account in the kind's policy; nothing was stored."
        )
    if not provider.does(kind.name):
        raise NoProvider(
            f"{kind.title} is set to the account {name!r}, and {provider.title or provider.adapter} does no such work. "
            f"Choose another account in the kind's policy; nothing was stored."
        )
    return provider
