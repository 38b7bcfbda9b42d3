"""The audit trail is the ground floor's, so that every floor's verbs can write it. Its table stays as it is.

Whoever may see it keeps that right: the permissions hang on the content type, which changes its app and nothing else.
"""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


def _move(apps, old, new):
    types = apps.get_model("contenttypes", "ContentType").objects
    if not types.filter(app_label=new, model="auditentry").exists():
        types.filter(app_label=old, model="auditentry").update(app_label=new)


def to_kernel(apps, schema_editor):
    _move(apps, "console", "kernel")


def to_console(apps, schema_editor):
    _move(apps, "kernel", "console")


class Migration(migrations.Migration):
    dependencies = [
        ("kernel", "0001_initial"),
        ("console", "0003_audit_found_by_object"),
        ("contenttypes", "0002_remove_content_type_name"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name="AuditEntry",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("actor", models.CharField(max_length=100)),
                        ("verb", models.CharField(max_length=60)),
                        ("subject", models.CharField(help_text="e.g. delivery, endpoint", max_length=60)),
                        (
                            "object_ids",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.BigIntegerField(),
                                default=list,
                                help_text="The first 1,000.",
                                size=None,
                            ),
                        ),
                        ("count", models.PositiveIntegerField(default=1)),
                        ("reason", models.CharField(blank=True, max_length=300)),
                        ("detail", models.JSONField(blank=True, default=dict)),
                        ("at", models.DateTimeField(auto_now_add=True)),
                        (
                            "user",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "db_table": "console_auditentry",
                        "ordering": ["-id"],
                        "verbose_name_plural": "audit entries",
                        "indexes": [
                            django.contrib.postgres.indexes.GinIndex(fields=["object_ids"], name="auditentry_objects")
                        ],
                    },
                ),
            ],
        ),
        migrations.RunPython(to_kernel, to_console),
    ]
