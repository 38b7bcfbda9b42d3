"""A transition names its batch, so that the newest of a batch are found without its tasks.

Rows of before stay without one: they are many, and pages find them by their tasks (`console.live.snapshots.changes`).
"""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tasks", "0005_what_a_kind_policy_may_say"),
    ]

    operations = [
        migrations.AddField(
            model_name="transition",
            name="batch",
            field=models.ForeignKey(
                blank=True,
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="tasks.batch",
            ),
        ),
    ]
