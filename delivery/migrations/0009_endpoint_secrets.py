"""From one previous secret to a list of earlier ones, each with its own end. Secrets that no key opens are passed over.

Backwards, the newest of the earlier ones becomes the previous secret again; the others cannot be kept.
"""

from datetime import datetime

from django.db import migrations, models

import kernel.secrets

CHUNK = 500


def to_a_list(apps, schema_editor):
    endpoint = apps.get_model("delivery", "Endpoint")
    rows = endpoint.objects.exclude(previous_secret_until=None).only("previous_secret", "previous_secret_until")
    for row in rows.iterator(CHUNK):
        try:
            secret = row.previous_secret
        except kernel.secrets.UndecryptableSecret:
            continue
        if secret:
            one = {"secret": secret, "created_at": None, "ends_at": row.previous_secret_until.isoformat()}
            row.earlier_secrets = [one]
            row.save(update_fields=["earlier_secrets"])


def to_one(apps, schema_editor):
    endpoint = apps.get_model("delivery", "Endpoint")
    for row in endpoint.objects.exclude(earlier_secrets__isnull=True).only("earlier_secrets").iterator(CHUNK):
        try:
            newest = (row.earlier_secrets or [None])[0]
        except kernel.secrets.UndecryptableSecret:
            continue
        if newest:
            row.previous_secret = newest["secret"]
            row.previous_secret_until = datetime.fromisoformat(newest["ends_at"])
            row.save(update_fields=["previous_secret", "previous_secret_until"])


def count_up(apps, schema_editor):
    """Running workers read the settings again."""
    apps.get_model("delivery", "Endpoint").objects.update(version=models.F("version") + 1)


class Migration(migrations.Migration):
    dependencies = [("delivery", "0008_count_own_faults")]
    operations = [
        migrations.AddField(
            model_name="endpoint",
            name="earlier_secrets",
            field=kernel.secrets.EncryptedJSONField(
                blank=True,
                editable=False,
                help_text="Secrets that still sign beside it, newest first: see `delivery.endpoint_secrets`.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="endpoint",
            name="rotation_token",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                editable=False,
                help_text="Of the page that rotated it last.",
                max_length=32,
            ),
        ),
        migrations.RunPython(to_a_list, to_one),
        migrations.RunPython(count_up, count_up),
        migrations.RemoveField(model_name="endpoint", name="previous_secret"),
        migrations.RemoveField(model_name="endpoint", name="previous_secret_until"),
    ]
