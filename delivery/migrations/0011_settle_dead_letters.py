"""What becomes of the dead letters of a deleted endpoint: kept, discarded, or moved to another one."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("delivery", "0009_endpoint_secrets"),
    ]

    operations = [
        migrations.AddField(
            model_name="endpoint",
            name="dead_letters",
            # The database's own default: processes of the release before go on inserting during a deploy.
            field=models.CharField(
                choices=[("keep", "keep them"), ("discard", "discard them"), ("move", "move them to another endpoint")],
                db_default="keep",
                default="keep",
                editable=False,
                help_text="Once it is deleted.",
                max_length=7,
            ),
        ),
        migrations.AddField(
            model_name="endpoint",
            name="dead_letters_to",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="delivery.endpoint",
            ),
        ),
    ]
