"""An operation's set is written down as ids when it begins; its items are written together with their effect.

Items that an interrupted runner of the release before left as planned are told as failed: nobody can say any more
whether they were done.
"""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models
from django.db.models import F

UNKNOWN = "Interrupted while the program was replaced: look whether it was done, and do it again if it was not."


def close_planned_items(apps, schema_editor):
    items = apps.get_model("console", "OperationItem").objects.filter(outcome="planned")
    counts = items.order_by().values_list("operation_id").annotate(n=models.Count("pk"))
    for operation_id, number in list(counts):
        rows = apps.get_model("console", "Operation").objects.filter(pk=operation_id)
        rows.update(failed_count=F("failed_count") + number)
    items.update(outcome="failed", detail=UNKNOWN)


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0004_audit_moves_to_kernel"),
    ]

    operations = [
        migrations.AddField(
            model_name="operation",
            name="is_frozen",
            field=models.BooleanField(default=False, editable=False, help_text="Its rows are written down as parts."),
        ),
        migrations.CreateModel(
            name="OperationPart",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("last_id", models.BigIntegerField(help_text="The highest of them.")),
                ("ids", django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None)),
                (
                    "operation",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="parts",
                        to="console.operation",
                    ),
                ),
            ],
            options={
                "ordering": ["last_id"],
                "constraints": [models.UniqueConstraint(fields=("operation", "last_id"), name="operationpart_once")],
            },
        ),
        migrations.RunPython(close_planned_items, migrations.RunPython.noop),
    ]
