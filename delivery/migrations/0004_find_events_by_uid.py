"""The same unique constraint, with the uid in front: its index also finds an event by its uid alone."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("delivery", "0003_lean_hot_indexes"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="event",
            name="event_uid_once",
        ),
        migrations.AddConstraint(
            model_name="event",
            constraint=models.UniqueConstraint(fields=("uid", "subscriber"), name="event_uid_once"),
        ),
    ]
