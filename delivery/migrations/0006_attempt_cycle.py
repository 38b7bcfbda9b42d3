"""One rising number for all attempts of a delivery, the redrive each belongs to, and why a delivery was given up.

The numbers of a delivery that stands go on after the attempts that are still on record.
"""

from django.db import migrations, models

NUMBERED = """
UPDATE delivery_delivery d SET try_count = LEAST(32767, a.tries)
FROM (SELECT delivery_id, count(*) AS tries FROM delivery_attempt GROUP BY delivery_id) a
WHERE a.delivery_id = d.id AND d.state IN ('pending', 'failed', 'in_flight', 'dead_letter')
"""


class Migration(migrations.Migration):
    dependencies = [
        ("delivery", "0005_what_the_wire_said"),
    ]

    operations = [
        migrations.AddField(
            model_name="delivery",
            name="try_count",
            field=models.PositiveSmallIntegerField(
                db_default=0,
                default=0,
                help_text=(
                    "Attempts in its whole life: throttled ones, probes, rescues and those before a redrive included."
                ),
            ),
        ),
        migrations.AddField(
            model_name="delivery",
            name="cancel_reason",
            field=models.CharField(
                blank=True, db_default="", default="", help_text="Why it was given up on purpose.", max_length=200
            ),
        ),
        migrations.AddField(
            model_name="attempt",
            name="cycle",
            field=models.PositiveSmallIntegerField(
                db_default=0, default=0, help_text="0; one more after each redrive."
            ),
        ),
        migrations.AlterField(
            model_name="attempt",
            name="number",
            field=models.PositiveSmallIntegerField(
                help_text=(
                    "1, 2, 3 … over the delivery's whole life, whatever came of each and whether it cost an attempt."
                )
            ),
        ),
        migrations.RunSQL(NUMBERED, migrations.RunSQL.noop),
    ]
