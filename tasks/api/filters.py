"""What lists of tasks and batches can be narrowed by."""

import django_filters
from django.db.models import QuerySet

from kernel.filters import TrueFalseFilter, WholeNumberFilter
from tasks.models import Batch, Task
from tasks.states import FINAL_STATES, OPEN_STATES, State


class TaskFilter(django_filters.FilterSet):
    state = django_filters.MultipleChoiceFilter(choices=State.choices, help_text="May be given several times.")
    final = TrueFalseFilter(method="by_final", label="Only finished, or only unfinished tasks")
    batch = WholeNumberFilter(field_name="batch_id")
    created_after = django_filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="gte")
    created_before = django_filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="lt")

    class Meta:
        model = Task
        fields = ("kind", "subscriber", "reference", "correlation_id", "error_code")

    def by_final(self, queryset: QuerySet, _name: str, value: bool) -> QuerySet:
        return queryset.filter(state__in=FINAL_STATES if value else OPEN_STATES)


class BatchFilter(django_filters.FilterSet):
    state = django_filters.ChoiceFilter(choices=[("running", "running"), ("completed", "completed")], method="by_state")
    created_after = django_filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="gte")
    created_before = django_filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="lt")

    class Meta:
        model = Batch
        fields = ("kind", "subscriber", "reference", "correlation_id", "outcome")

    def by_state(self, queryset: QuerySet, _name: str, value: str) -> QuerySet:
        return queryset.filter(is_completed=value == "completed")
