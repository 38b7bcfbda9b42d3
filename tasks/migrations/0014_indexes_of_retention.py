"""Indexes that retention asks, and what a follow-up has made, built while everybody goes on writing.

One that is interrupted leaves an invalid index behind: drop it (`DROP INDEX CONCURRENTLY name`) and migrate again.
"""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("tasks", "0013_plans"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="schedulerun",
            index=models.Index(
                condition=models.Q(("task__isnull", True)), fields=["created_at"], name="schedulerun_taskless"
            ),
        ),
        AddIndexConcurrently(
            model_name="task",
            index=models.Index(
                condition=models.Q(("batch__isnull", True), ("finished_at__isnull", False)),
                fields=["state", "finished_at"],
                name="task_ended",
            ),
        ),
        AddIndexConcurrently(
            model_name="batch",
            index=models.Index(
                condition=models.Q(("follow_up__isnull", False)), fields=["follow_up"], name="batch_follow_up"
            ),
        ),
        AddIndexConcurrently(
            model_name="batch",
            index=models.Index(
                condition=models.Q(("is_completed", True)), fields=["completed_at"], name="batch_completed"
            ),
        ),
    ]
