"""Faults of our own in a row at an endpoint: what it is, how many, since when."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("delivery", "0007_endpoint_pace"),
    ]

    operations = [
        migrations.AddField(
            model_name="endpointhealth",
            name="own_fault_kind",
            # The database's own default: processes of the release before go on inserting during a deploy.
            field=models.CharField(
                blank=True, default="", db_default="", help_text="What of ours failed here last.", max_length=30
            ),
        ),
        migrations.AddField(
            model_name="endpointhealth",
            name="own_fault_count",
            field=models.PositiveIntegerField(db_default=0, default=0, help_text="Faults of ours in a row."),
        ),
        migrations.AddField(
            model_name="endpointhealth",
            name="own_fault_since",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
