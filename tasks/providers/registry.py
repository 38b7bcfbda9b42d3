"""Which providers there are adapters for. Any installed app may bring some in its `providers.py`."""

from tasks.providers import discovery
from tasks.providers.base import Provider

_adapters: dict[str, type[Provider]] = {}


class AdapterTaken(Exception):
    """Two adapters of one name: whose jobs would it be?"""


def register(adapter: type[Provider]) -> type[Provider]:
    """Make an adapter known under its `adapter` name; also a decorator. Raises AdapterTaken."""
    other = _adapters.setdefault(adapter.adapter, adapter)
    if (other.__module__, other.__qualname__) != (adapter.__module__, adapter.__qualname__):
        raise AdapterTaken(
            f"{adapter.__module__} and {other.__module__} both call their provider {adapter.adapter!r}. Rename one."
        )
    _adapters[adapter.adapter] = adapter
    return adapter


def adapters() -> dict[str, type[Provider]]:
    """Every adapter by its name, ours and those of the installed apps."""
    return dict(sorted(_adapters.items()))


def adapter(name: str) -> type[Provider] | None:
    """The adapter of that name; None where the app that brought it is gone."""
    return _adapters.get(name)


def discover() -> None:
    """Import `providers.py` of every installed app, as the admin does with `admin.py`."""
    discovery.load("providers")
