"""Indexes for what lists are asked by, built while everybody goes on writing.

One that is interrupted leaves an invalid index behind: drop it (`DROP INDEX CONCURRENTLY name`) and migrate again.
"""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("tasks", "0006_batch_of_a_transition"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="transition",
            index=models.Index(
                condition=models.Q(("batch__isnull", False)), fields=["batch", "-id"], name="transition_batch"
            ),
        ),
        AddIndexConcurrently(
            model_name="task",
            index=models.Index(fields=["kind", "-id"], name="task_kind"),
        ),
        AddIndexConcurrently(
            model_name="task",
            index=models.Index(
                condition=models.Q(("reference", ""), _negated=True), fields=["reference", "-id"], name="task_named"
            ),
        ),
        RemoveIndexConcurrently(
            model_name="task",
            name="task_reference",
        ),
        AddIndexConcurrently(
            model_name="batch",
            index=models.Index(
                condition=models.Q(("reference", ""), _negated=True), fields=["reference", "-id"], name="batch_named"
            ),
        ),
        AddIndexConcurrently(
            model_name="externaljob",
            index=models.Index(
                condition=models.Q(("provider_batch_id", ""), _negated=True),
                fields=["provider_batch_id"],
                name="externaljob_batch",
            ),
        ),
    ]
