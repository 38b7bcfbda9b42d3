"""How the admin site looks and what its sidebar lists (django-unfold). Addresses are resolved when a page is made."""

from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse, reverse_lazy


def _may(permission: str) -> Any:
    return lambda request: request.user.has_perm(permission)


def _item(title: str, icon: str, page: str, permission: str = "", badge: str = "") -> dict[str, Any]:
    item: dict[str, Any] = {"title": title, "icon": icon, "link": reverse_lazy(page)}
    if permission:
        item["permission"] = _may(permission)
    if badge:
        item["badge"] = badge
    return item


def dead_letter_badge(request: HttpRequest) -> str | None:
    from console.pages.badges import dead_letters

    return dead_letters(request.user)


def _may_see_dead_letters(request: HttpRequest) -> bool:
    from console.pages.badges import may_see_dead_letters

    return may_see_dead_letters(request.user)


def alert_badge(request: HttpRequest) -> str | None:
    from console.pages.badges import open_alerts

    return open_alerts()


NAVIGATION: list[dict[str, Any]] = [
    {
        "title": "Now",
        "items": [
            {**_item("Overview", "monitoring", "start"), "active": lambda request: request.path == reverse("start")},
            _item("Batches", "stacks", "batches", "tasks.view_task"),
            {
                **_item("Dead letters", "inbox_customize", "dead-letters", "", "config.unfold.dead_letter_badge"),
                "permission": _may_see_dead_letters,
            },
            _item(
                "Alerts",
                "notifications",
                "admin:console_alert_changelist",
                "console.view_alert",
                "config.unfold.alert_badge",
            ),
        ],
    },
    {
        "title": "Work",
        "separator": True,
        "items": [
            _item("Tasks", "task_alt", "admin:tasks_task_changelist", "tasks.view_task"),
            _item("Kind policies", "tune", "admin:tasks_kindpolicy_changelist", "tasks.view_kindpolicy"),
            _item("Schedules", "event_repeat", "admin:tasks_schedule_changelist", "tasks.view_schedule"),
            _item(
                "Inbound events",
                "call_received",
                "admin:webhooks_inboundevent_changelist",
                "webhooks.view_inboundevent",
            ),
        ],
    },
    {
        "title": "Events out",
        "separator": True,
        "items": [
            _item("Deliveries", "call_made", "admin:delivery_delivery_changelist", "delivery.view_delivery"),
            _item("Endpoints", "webhook", "admin:delivery_endpoint_changelist", "delivery.view_endpoint"),
            _item("Events", "bolt", "admin:delivery_event_changelist", "delivery.view_event"),
        ],
    },
    {
        "title": "House",
        "separator": True,
        "items": [
            _item("Operations", "playlist_play", "admin:console_operation_changelist", "console.view_operation"),
            _item("Audit", "history_edu", "admin:kernel_auditentry_changelist", "kernel.view_auditentry"),
            _item("API keys", "key", "admin:kernel_apikey_changelist", "kernel.view_apikey"),
            _item(
                "Beat schedule",
                "schedule",
                "admin:django_celery_beat_periodictask_changelist",
                "django_celery_beat.view_periodictask",
            ),
            _item("Users", "group", "admin:auth_user_changelist", "auth.view_user"),
            _item("API documentation", "api", "docs"),
        ],
    },
]

UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Roundtrip",
    "SITE_HEADER": "Roundtrip",
    "SITE_SYMBOL": "sync_alt",
    "SITE_URL": reverse_lazy("start"),
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("favicon.svg")}],
    "LOGIN": {"form": "kernel.web.log_in_form.LogInForm"},
    "STYLES": [lambda request: static("admin.css")],
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "SIDEBAR": {"show_search": False, "show_all_applications": False, "navigation": NAVIGATION},
}
