"""The schedule that beat runs, once: made where missing, then an operator's to edit; no restart overwrites it."""

from django.db import migrations
from django.utils import timezone

# name, worker function, every so many seconds, what it is for
ENTRIES = (
    ("Ask providers about open jobs", "tasks.poll", 60, "The minute poll: repairs what provider webhooks missed."),
    ("Start tasks that are due, rescue expired leases", "tasks.sweep", 5, "Finds work whose wake-up got lost."),
    ("Submit scheduled tasks", "tasks.tick_schedules", 30, "Inserts every slot that fell due since the last tick."),
    ("Judge inbound events left over", "webhooks.sweep_inbox", 15, "Stored but unjudged or parked provider callbacks."),
    ("Deliver events that are due", "delivery.drain", 5, "Finds deliveries whose wake-up got lost."),
    ("Rescue deliveries of dead workers", "delivery.rescue", 15, "Returns deliveries whose lease expired."),
    ("Measure endpoint latency", "delivery.refresh_latency", 60, "Percentiles and slow endpoints."),
    ("Make partitions and prune old rows", "delivery.maintain", 3600, "Attempt partitions ahead, retention behind."),
    ("Evaluate alerts", "console.evaluate_alerts", 30, "Opens, keeps and resolves alerts."),
    ("Show that the schedule runs", "console.beat_heartbeat", 10, "Proves beat, broker and worker together."),
    ("Advance bulk operations", "console.run_operations", 10, "Wakes running operations; resumes after a crash."),
)


def seed(apps, schema_editor):
    interval_of = apps.get_model("django_celery_beat", "IntervalSchedule").objects
    task_of = apps.get_model("django_celery_beat", "PeriodicTask").objects
    for name, task, seconds, description in ENTRIES:
        interval, _ = interval_of.get_or_create(every=seconds, period="seconds")
        # A tick that waited longer than the next two is stale: it expires instead of piling up behind a stopped worker.
        defaults = {
            "task": task,
            "interval": interval,
            "expire_seconds": max(2 * seconds, 10),
            "description": description,
        }
        task_of.get_or_create(name=name, defaults=defaults)
    changed = apps.get_model("django_celery_beat", "PeriodicTasks").objects
    changed.update_or_create(ident=1, defaults={"last_update": timezone.now()})


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0001_initial"),
        ("django_celery_beat", "0019_alter_periodictasks_options"),
    ]

    operations = [migrations.RunPython(seed, migrations.RunPython.noop)]
