"""A heartbeat tells how far the clock of its host is off the database's."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0005_freeze_operations"),
    ]

    operations = [
        migrations.AddField(
            model_name="heartbeat",
            name="clock_ahead_ms",
            field=models.BigIntegerField(
                help_text="By how much its host's clock is ahead of the database's; negative: behind.", null=True
            ),
        ),
    ]
