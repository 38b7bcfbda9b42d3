"""Sizes of inputs and results, so that lists need not read them, and a table for results that could not be used. SQL.

Both columns in one ALTER TABLE: it writes the table anew, once, and holds it locked meanwhile. The database fills them,
also for what the release before writes during a deploy.
"""

import django.db.models.deletion
from django.db import migrations, models

import kernel.json_fields

ADD = """
ALTER TABLE tasks_task
    ADD COLUMN input_bytes integer GENERATED ALWAYS AS (octet_length((input)::text)) STORED,
    ADD COLUMN result_bytes integer GENERATED ALWAYS AS (octet_length((result)::text)) STORED
"""
DROP = "ALTER TABLE tasks_task DROP COLUMN input_bytes, DROP COLUMN result_bytes"


def _bytes_of(column):
    return migrations.AddField(
        model_name="task",
        name=f"{column}_bytes",
        field=models.GeneratedField(
            expression=kernel.json_fields.TextBytes(column),
            output_field=models.IntegerField(null=True),
            db_persist=True,
        ),
    )


class Migration(migrations.Migration):
    dependencies = [
        ("tasks", "0002_one_open_job_and_held_kinds"),
    ]

    operations = [
        migrations.RunSQL(ADD, DROP, state_operations=[_bytes_of("input"), _bytes_of("result")]),
        migrations.CreateModel(
            name="KeptAnswer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("body", models.BinaryField()),
                ("body_bytes", models.PositiveIntegerField(help_text="How many came.")),
                ("is_cut", models.BooleanField(default=False, help_text="Whether more came than is kept.")),
                ("note", models.TextField(blank=True, help_text="What was wrong with it.")),
                ("received_at", models.DateTimeField(auto_now=True)),
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="kept_answer",
                        to="tasks.externaljob",
                    ),
                ),
            ],
        ),
    ]
