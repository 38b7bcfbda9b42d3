"""Addresses of the console's pages and of the checks that anybody may ask. Each with and without its slash."""

from collections.abc import Callable
from typing import Any

from django.urls import URLPattern, path

from console import health


def both(route: str, view: Callable[..., Any], name: str) -> list[URLPattern]:
    """A page at `route` and `route/`: no redirect is needed between them."""
    return [path(f"{route}/", view, name=name), path(route, view)]


urlpatterns: list[URLPattern] = [
    *both("healthz", health.healthz, "healthz"),
    *both("readyz", health.readyz, "readyz"),
]
