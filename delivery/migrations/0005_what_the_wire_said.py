"""What an attempt knows of the wire: was the request sent, was the answer cut by us, was its wrapping flawed.

Columns of a partitioned table reach its partitions with it, and those made later are made like it. The defaults are the
database's, so that workers of the version before go on writing attempts while this one is rolled out.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("delivery", "0004_find_events_by_uid"),
    ]

    operations = [
        migrations.AddField(
            model_name="attempt",
            name="note",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="What was odd about an answer that counts.",
                max_length=200,
            ),
        ),
        migrations.AddField(
            model_name="attempt",
            name="request_sent",
            field=models.BooleanField(blank=True, help_text="Whether the receiver may have it.", null=True),
        ),
        migrations.AddField(
            model_name="attempt",
            name="response_truncated",
            field=models.BooleanField(db_default=False, default=False, help_text="There was more than is kept."),
        ),
    ]
