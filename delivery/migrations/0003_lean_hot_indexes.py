"""Fewer index entries for each state a delivery passes through; replays can be found when an original is pruned."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("delivery", "0002_partition_attempts"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="delivery",
            name="delivery_once",
        ),
        migrations.RemoveIndex(
            model_name="delivery",
            name="delivery_in_flight",
        ),
        migrations.RemoveIndex(
            model_name="delivery",
            name="delivery_leased",
        ),
        migrations.RemoveIndex(
            model_name="delivery",
            name="delivery_state",
        ),
        migrations.AlterField(
            model_name="delivery",
            name="event",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="deliveries",
                to="delivery.event",
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("state", "in_flight")),
                fields=["endpoint", "leased_until"],
                name="delivery_in_flight",
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("state__in", ["pending", "failed", "dead_letter", "cancelled"])),
                fields=["state", "-id"],
                name="delivery_state",
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("replay_of__isnull", False)), fields=["replay_of"], name="delivery_replay"
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.UniqueConstraint(
                models.F("event"),
                models.F("endpoint"),
                models.Case(
                    models.When(is_replay=True, then=models.F("id")),
                    default=models.Value(0),
                    output_field=models.BigIntegerField(),
                ),
                name="delivery_once",
            ),
        ),
    ]
