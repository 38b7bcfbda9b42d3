"""The console's own records in the admin: alerts, operations, audit, heartbeats. To read; verbs have own pages."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from unfold.admin import TabularInline

from console.models import Alert, Heartbeat, Operation, OperationItem
from kernel.admin.bases import ListedFiltersAdmin
from kernel.admin.lists import RecentValuesFilter
from kernel.models import AuditEntry

ROWS_NAMED = 3


class ReadOnlyAdmin(ListedFiltersAdmin):
    """Nobody adds, changes or deletes these by form."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Alert)
class AlertAdmin(ReadOnlyAdmin):
    list_display = ["title", "rule", "state", "opened_at", "acknowledged_by", "resolved_at"]
    list_filter = ["state", ("rule", RecentValuesFilter)]
    search_fields = ["title", "subject"]


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    list_display = ["at", "actor", "verb", "rows", "count", "reason"]
    list_filter = [("verb", RecentValuesFilter), ("subject", RecentValuesFilter)]
    search_fields = ["actor", "reason"]

    @admin.display(description="Rows", ordering="subject")
    def rows(self, row: AuditEntry) -> str:
        """e.g. "endpoint 12", "delivery 7, 8, 9 …"."""
        named = ", ".join(str(pk) for pk in row.object_ids[:ROWS_NAMED])
        more = " …" if row.count > ROWS_NAMED else ""
        return f"{row.subject.replace('_', ' ')} {named}{more}".rstrip()


class OperationItems(TabularInline):
    """The first rows and what became of each; the API lists them all."""

    model = OperationItem
    fields = readonly_fields = ["object_id", "outcome", "detail", "at"]
    extra = 0
    per_page = 50
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Operation)
class OperationAdmin(ReadOnlyAdmin):
    list_display = [
        "__str__",
        "watch",
        "state",
        "target_count",
        "done_count",
        "skipped_count",
        "failed_count",
        "actor",
        "created_at",
    ]
    list_filter = ["state", "verb"]
    search_fields = ["reason", "actor"]
    inlines = [OperationItems]

    @admin.display(description="live")
    def watch(self, row: Operation) -> str:
        return format_html('<a href="{}">Watch</a>', reverse("operation", args=[row.pk]))


@admin.register(Heartbeat)
class HeartbeatAdmin(ReadOnlyAdmin):
    list_display = ["process", "role", "seen_at", "started_at"]
    list_filter = [("role", RecentValuesFilter)]
