"""How a page of the console is made: who may open it, and the admin's frame (navigation, dark mode, login) round it."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import admin
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.cache import never_cache

from console.live import viewers
from console.live.viewers import Viewer
from console.pages.security import wears_admin_frame


def console_page(grant: str = "") -> Callable[[Callable[..., HttpResponse]], Callable[..., HttpResponse]]:
    """Only for active staff who may `grant`; the view gets the viewer as its second argument."""

    def decorate(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
        @wraps(view)
        @never_cache
        def handle(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            viewer = viewers.of_user(request.user, request.session.session_key or "")
            if viewer is None:
                return redirect_to_login(request.get_full_path(), reverse("admin:login"))
            if grant and not viewer.may(grant):
                raise PermissionDenied(f"You may not open this page; ask for the permission behind {grant}.")
            return view(request, viewer, *args, **kwargs)

        return handle

    return decorate


def render(request: HttpRequest, template: str, viewer: Viewer, title: str, **context: Any) -> HttpResponse:
    """The page in the admin's frame."""
    frame = admin.site.each_context(request)
    response = TemplateResponse(request, template, {**frame, "title": title, "viewer": viewer, **context})
    return wears_admin_frame(response)
