"""The audit line of one row is found without reading the whole trail: journeys ask for it."""

import django.contrib.postgres.indexes
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("console", "0002_seed_schedule")]

    operations = [
        migrations.AddIndex(
            model_name="auditentry",
            index=django.contrib.postgres.indexes.GinIndex(fields=["object_ids"], name="auditentry_objects"),
        ),
    ]
