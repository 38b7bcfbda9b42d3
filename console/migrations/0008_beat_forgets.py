"""Beat's entry for retention on the operators' and the task side, made where missing."""

from django.db import migrations
from django.utils import timezone

ENTRIES = (
    ("Forget finished work and old records", "console.prune", 600, "Tasks, batches, operations, alerts, audit trail."),
)


def seed(apps, schema_editor):
    interval_of = apps.get_model("django_celery_beat", "IntervalSchedule").objects
    task_of = apps.get_model("django_celery_beat", "PeriodicTask").objects
    for name, task, seconds, description in ENTRIES:
        interval, _ = interval_of.get_or_create(every=seconds, period="seconds")
        defaults = {"task": task, "interval": interval, "expire_seconds": 2 * seconds, "description": description}
        task_of.get_or_create(name=name, defaults=defaults)
    changed = apps.get_model("django_celery_beat", "PeriodicTasks").objects
    changed.update_or_create(ident=1, defaults={"last_update": timezone.now()})


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0007_heartbeats_tell_clocks"),
        ("django_celery_beat", "0019_alter_periodictasks_options"),
    ]

    operations = [migrations.RunPython(seed, migrations.RunPython.noop)]
