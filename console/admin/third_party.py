"""Other packages' records in our admin's look: beat's schedule, users and groups. Behaviour stays theirs."""

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from django_celery_beat import models as beat
from django_celery_beat.admin import ClockedScheduleAdmin as BeatClockedScheduleAdmin
from django_celery_beat.admin import CrontabScheduleAdmin as BeatCrontabScheduleAdmin
from django_celery_beat.admin import PeriodicTaskAdmin as BeatPeriodicTaskAdmin
from django_celery_beat.admin import PeriodicTaskForm, TaskSelectWidget
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from kernel.admin.forms import OnlyChangesAdmin

for model in (User, Group, beat.PeriodicTask, beat.IntervalSchedule, beat.CrontabSchedule, beat.SolarSchedule):
    admin.site.unregister(model)
admin.site.unregister(beat.ClockedSchedule)


@admin.register(User)
class UserAdmin(OnlyChangesAdmin, DjangoUserAdmin, ModelAdmin):
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm


@admin.register(Group)
class GroupAdmin(OnlyChangesAdmin, DjangoGroupAdmin, ModelAdmin):
    pass


class TaskSelect(UnfoldAdminSelectWidget, TaskSelectWidget):
    """The list of worker functions, in our look."""


class ScheduleForm(PeriodicTaskForm):
    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.fields["task"].widget = UnfoldAdminTextInputWidget()
        self.fields["regtask"].widget = TaskSelect()


@admin.register(beat.PeriodicTask)
class PeriodicTaskAdmin(OnlyChangesAdmin, BeatPeriodicTaskAdmin, ModelAdmin):
    form = ScheduleForm


@admin.register(beat.IntervalSchedule)
class IntervalScheduleAdmin(OnlyChangesAdmin, ModelAdmin):
    pass


@admin.register(beat.CrontabSchedule)
class CrontabScheduleAdmin(OnlyChangesAdmin, BeatCrontabScheduleAdmin, ModelAdmin):
    pass


@admin.register(beat.ClockedSchedule)
class ClockedScheduleAdmin(OnlyChangesAdmin, BeatClockedScheduleAdmin, ModelAdmin):
    pass
