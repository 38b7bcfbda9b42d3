"""Other packages' records in our admin's look: beat's schedule, users and groups. What we add is refusals.

Nobody may give rights that they do not have, or change who has more. A row of beat's schedule that beat could not run
is refused on saving, and the product's own rows can be switched off, but not deleted.
"""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django_celery_beat import models as beat
from django_celery_beat.admin import ClockedScheduleAdmin as BeatClockedScheduleAdmin
from django_celery_beat.admin import CrontabScheduleAdmin as BeatCrontabScheduleAdmin
from django_celery_beat.admin import PeriodicTaskAdmin as BeatPeriodicTaskAdmin
from unfold.decorators import display
from unfold.forms import AdminPasswordChangeForm, UserCreationForm

from console.admin.rights import GroupForm, UserForm, may_change_user
from console.admin.schedule_forms import CrontabForm, IntervalForm, PeriodicTaskForm
from console.health import schedule
from kernel import audit
from kernel.admin.bases import ListedFiltersAdmin
from kernel.admin.confirm import actor_of
from kernel.admin.forms import OnlyChangesAdmin

for model in (User, Group, beat.PeriodicTask, beat.IntervalSchedule, beat.CrontabSchedule, beat.SolarSchedule):
    admin.site.unregister(model)
admin.site.unregister(beat.ClockedSchedule)


class Audited:
    """Before the other bases: a change by form is a line of the audit trail, in the same transaction."""

    audited_as = ""

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        with transaction.atomic():
            super().save_model(request, obj, form, change)  # type: ignore[misc]
            verb, detail = ("update", {"fields": form.changed_data}) if change else ("create", {})
            audit.record(actor_of(request), verb, self.audited_as, [obj.pk], detail=detail)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        with transaction.atomic():
            audit.record(actor_of(request), "delete", self.audited_as, [obj.pk], detail={"name": str(obj)[:200]})
            super().delete_model(request, obj)  # type: ignore[misc]

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet) -> None:
        with transaction.atomic():
            audit.record(actor_of(request), "delete", self.audited_as, list(queryset.values_list("pk", flat=True)))
            super().delete_queryset(request, queryset)  # type: ignore[misc]


@admin.register(User)
class UserAdmin(Audited, OnlyChangesAdmin, DjangoUserAdmin, ListedFiltersAdmin):  # type: ignore[misc]
    audited_as = "user"
    form = UserForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        made = super().get_form(request, obj, change, **kwargs)
        made.maker = request.user  # the class is this request's own
        return made

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fields = super().get_readonly_fields(request, obj)
        return fields if request.user.is_superuser else (*fields, "is_superuser")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and may_change_user(request.user, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and may_change_user(request.user, obj)


@admin.register(Group)
class GroupAdmin(Audited, OnlyChangesAdmin, DjangoGroupAdmin, ListedFiltersAdmin):  # type: ignore[misc]
    audited_as = "group"
    form = GroupForm

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        made = super().get_form(request, obj, change, **kwargs)
        made.maker = request.user
        return made


@admin.register(beat.PeriodicTask)
class PeriodicTaskAdmin(Audited, OnlyChangesAdmin, BeatPeriodicTaskAdmin, ListedFiltersAdmin):  # type: ignore[misc]
    audited_as = "schedule_row"
    form = PeriodicTaskForm
    date_hierarchy = None

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Not the package's own, which translates every crontab there is, for a script that our pages do not have."""
        return super(BeatPeriodicTaskAdmin, self).changeform_view(request, *args, **kwargs)

    @display(description="Crontab in words")
    def crontab_translation(self, obj: Any) -> str:
        return schedule.in_words(obj.crontab) if obj.crontab else ""

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and not schedule.is_ours(obj)


@admin.register(beat.IntervalSchedule)
class IntervalScheduleAdmin(Audited, OnlyChangesAdmin, ListedFiltersAdmin):
    audited_as = "interval"
    form = IntervalForm


@admin.register(beat.CrontabSchedule)
class CrontabScheduleAdmin(Audited, OnlyChangesAdmin, BeatCrontabScheduleAdmin, ListedFiltersAdmin):
    audited_as = "crontab"
    form = CrontabForm

    @display(description="In words")
    def human_readable(self, obj: Any) -> str:
        return schedule.in_words(obj)


@admin.register(beat.ClockedSchedule)
class ClockedScheduleAdmin(Audited, OnlyChangesAdmin, BeatClockedScheduleAdmin, ListedFiltersAdmin):
    audited_as = "clocked"
