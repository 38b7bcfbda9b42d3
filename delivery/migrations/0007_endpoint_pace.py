"""What was learned of how fast an endpoint may be sent to, and why it waits; refusals of several sorts in a row.

The columns have defaults in the database, so that workers of the version before go on while this one comes up.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("delivery", "0006_attempt_cycle"),
    ]

    operations = [
        migrations.AddField(
            model_name="delivery",
            name="throttled_at",
            field=models.DateTimeField(blank=True, help_text="When it was first told to, of those times.", null=True),
        ),
        migrations.AddField(
            model_name="endpointhealth",
            name="pace_ceiling",
            field=models.FloatField(blank=True, help_text="The pace at which it last answered 429.", null=True),
        ),
        migrations.AddField(
            model_name="endpointhealth",
            name="pace_clock",
            field=models.FloatField(
                db_default=0, default=0, help_text="Seconds of sending since the pace was lowered."
            ),
        ),
        migrations.AddField(
            model_name="endpointhealth",
            name="pace_lowered_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="endpointhealth",
            name="pace_per_second",
            field=models.FloatField(blank=True, help_text="Learned from answers of 429; none: no limit.", null=True),
        ),
        migrations.AddField(
            model_name="endpointhealth",
            name="pace_probe_until",
            field=models.DateTimeField(blank=True, help_text="After a wait one goes first; until then.", null=True),
        ),
        migrations.AddField(
            model_name="endpointhealth",
            name="pace_sent",
            field=models.PositiveIntegerField(db_default=0, default=0, help_text="Sent since then."),
        ),
        migrations.AddField(
            model_name="endpointhealth",
            name="test_id",
            field=models.BigIntegerField(
                blank=True, help_text="A test delivery that goes out whatever holds.", null=True
            ),
        ),
        migrations.AddField(
            model_name="endpointhealth",
            name="throttle_status",
            field=models.PositiveSmallIntegerField(
                db_default=0, default=0, help_text="The code that lowered the pace."
            ),
        ),
        migrations.AddField(
            model_name="endpointhealth",
            name="throttle_streak",
            field=models.PositiveIntegerField(
                db_default=0, default=0, help_text="Waits in a row without a delivery let pass."
            ),
        ),
        migrations.AddField(
            model_name="endpointhealth",
            name="wait_reason",
            field=models.CharField(
                blank=True,
                choices=[
                    ("throttled", "the receiver asked us to wait"),
                    ("unusable", "its settings cannot be used"),
                    ("own_fault", "a fault on our side"),
                ],
                db_default="",
                max_length=10,
            ),
        ),
        migrations.AlterField(
            model_name="endpointhealth",
            name="refusal_kind",
            field=models.CharField(
                blank=True,
                help_text="Outcomes and codes of the first refusals in a row, commas between.",
                max_length=200,
            ),
        ),
        migrations.AlterField(
            model_name="endpointhealth",
            name="throttled_until",
            field=models.DateTimeField(blank=True, help_text="Nothing goes before; see wait_reason.", null=True),
        ),
    ]
