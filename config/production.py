"""What production refuses to start with. Pure: told the values, it says in words what is unsafe about them."""

from collections.abc import Callable, Iterable, Sequence

from cryptography.fernet import Fernet
from django.core.exceptions import ImproperlyConfigured

LEAST_SECRET_LENGTH = 50  # Django's own measure (security.W009)
LEAST_DIFFERENT_CHARACTERS = 5
NOT_SECRET = ("demo-", "test-only-", "django-insecure-")  # bin/up makes keys that begin with the first


def faults_of_secret_key(key: str) -> list[str]:
    if not key:
        return []
    if key.startswith(NOT_SECRET):
        return ["SECRET_KEY is a demo key"]
    if len(key) < LEAST_SECRET_LENGTH or len(set(key)) < LEAST_DIFFERENT_CHARACTERS:
        return [
            f"SECRET_KEY is too weak ({len(key)} characters, {len(set(key))} of them different; at least"
            f" {LEAST_SECRET_LENGTH} random ones are needed)"
        ]
    return []


def faults_of_master_keys(keys: Sequence[str], published: Iterable[str]) -> list[str]:
    faults = []
    for number, key in enumerate(keys, start=1):
        if key in published:
            faults.append(f"MASTER_KEYS holds a published key (number {number})")
        elif not _is_fernet_key(key):
            faults.append(
                f"MASTER_KEYS holds something that is no Fernet key (number {number};"
                " deploy/roundtrip.env.example says how to make one)"
            )
    return faults


def _is_fernet_key(key: str) -> bool:
    try:
        Fernet(key)
    except ValueError:
        return False
    return True


def faults_of_hosts(hosts: Iterable[str]) -> list[str]:
    """Django takes `*`, and a pattern such as `.` or `.com`, for whole worlds of names."""
    open_ones = [host for host in hosts if "*" in host or ("." not in host.strip(".") and host.startswith("."))]
    if not open_ones:
        return []
    return [f"ALLOWED_HOSTS lets any name in ({', '.join(open_ones)}); list the names that this site answers to"]


def faults_of_proxies(networks: Iterable[str]) -> list[str]:
    if any(network.endswith("/0") for network in networks):
        return ["TRUSTED_PROXIES trusts everybody's X-Forwarded headers; list only the networks of your proxies"]
    return []


def faults_in_form(readers: Iterable[Callable[[], object]]) -> list[str]:
    """What each reader of a variable says is wrong with its form: all of it, not the first one only."""
    faults = []
    for read in readers:
        try:
            read()
        except ImproperlyConfigured as error:
            faults.append(str(error).rstrip("."))
    return faults
