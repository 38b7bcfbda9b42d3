"""Schedules by crontab expression, and follow-ups. New columns may be empty, so old rows are not written anew."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tasks", "0012_indexes_of_claims"),
    ]

    operations = [
        migrations.CreateModel(
            name="FollowUp",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(help_text="Which of its parent's wishes it is.", max_length=80)),
                ("kind", models.CharField(max_length=60)),
                (
                    "on",
                    models.CharField(
                        choices=[
                            ("succeeded", "once every task has succeeded"),
                            ("completed", "once every task has ended, from those that succeeded"),
                        ],
                        default="completed",
                        max_length=9,
                    ),
                ),
                ("then", models.JSONField(blank=True, help_text="What follows what it makes.", null=True)),
                ("subscriber", models.CharField(blank=True, max_length=100)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "about to be made"),
                            ("made", "made"),
                            ("empty", "nothing to make"),
                            ("unmet", "not everything succeeded"),
                            ("refused", "could not be made"),
                        ],
                        default="waiting",
                        max_length=8,
                    ),
                ),
                ("reason", models.CharField(blank=True, help_text="A reason word.", max_length=60)),
                ("detail", models.TextField(blank=True)),
                (
                    "revision",
                    models.PositiveIntegerField(default=0, help_text="Of its parent's completions, the last."),
                ),
                ("begun_revision", models.PositiveIntegerField(default=0, editable=False)),
                ("cursor", models.PositiveIntegerField(default=0, editable=False)),
                ("item_offset", models.PositiveIntegerField(default=0, editable=False)),
                (
                    "left_out",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), default=list, editable=False, size=None
                    ),
                ),
                (
                    "remaining",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), blank=True, editable=False, null=True, size=None
                    ),
                ),
                ("made_count", models.PositiveIntegerField(default=0, help_text="Tasks it has made.")),
                (
                    "refused_count",
                    models.PositiveIntegerField(default=0, help_text="Items that its kind did not take."),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ["-id"],
                "permissions": [("redrive_followup", "Can redrive a follow-up")],
            },
        ),
        migrations.RemoveConstraint(
            model_name="schedule",
            name="schedule_every_minute_at_most",
        ),
        migrations.AddField(
            model_name="batch",
            name="then",
            field=models.JSONField(blank=True, help_text="What follows once it is completed.", null=True),
        ),
        migrations.AddField(
            model_name="schedule",
            name="counts_from",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="schedule",
            name="crontab",
            field=models.CharField(
                blank=True, help_text="Minute, hour, day, month, weekday: 30 7 * * MON-FRI", max_length=100
            ),
        ),
        migrations.AddField(
            model_name="schedule",
            name="time_zone",
            field=models.CharField(default="UTC", help_text="The crontab expression's: Europe/Warsaw", max_length=60),
        ),
        migrations.AddField(
            model_name="schedulerun",
            name="is_by_hand",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="task",
            name="then",
            field=models.JSONField(blank=True, help_text="What follows; of a task without a batch.", null=True),
        ),
        migrations.AlterField(
            model_name="schedule",
            name="every_seconds",
            field=models.PositiveIntegerField(
                blank=True, help_text="At least 60. Empty where there is a crontab expression.", null=True
            ),
        ),
        migrations.AlterField(
            model_name="schedule",
            name="name",
            field=models.CharField(max_length=100),
        ),
        migrations.AlterField(
            model_name="transition",
            name="cause",
            field=models.CharField(
                choices=[
                    ("api", "API call"),
                    ("worker", "worker"),
                    ("webhook", "provider's webhook"),
                    ("poll", "poll"),
                    ("operator", "operator"),
                    ("schedule", "schedule"),
                    ("follow_up", "follow-up"),
                ],
                max_length=10,
            ),
        ),
        migrations.AddConstraint(
            model_name="schedule",
            constraint=models.UniqueConstraint(
                fields=("subscriber", "name"),
                name="schedule_name_once",
                violation_error_message="This subscriber has a schedule of this name already. Choose another.",
            ),
        ),
        migrations.AddConstraint(
            model_name="schedule",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("crontab", ""), ("every_seconds__gte", 60)),
                    models.Q(("every_seconds", None), models.Q(("crontab", ""), _negated=True)),
                    _connector="OR",
                ),
                name="schedule_has_one_rhythm",
                violation_error_message="It needs seconds or a crontab expression, and not both.",
            ),
        ),
        migrations.AddField(
            model_name="followup",
            name="parent_batch",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="follow_ups",
                to="tasks.batch",
            ),
        ),
        migrations.AddField(
            model_name="followup",
            name="parent_task",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="follow_ups",
                to="tasks.task",
            ),
        ),
        migrations.AddField(
            model_name="batch",
            name="follow_up",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="batches",
                to="tasks.followup",
            ),
        ),
        migrations.AddIndex(
            model_name="followup",
            index=models.Index(condition=models.Q(("state", "waiting")), fields=["id"], name="followup_waiting"),
        ),
        migrations.AddIndex(
            model_name="followup",
            index=models.Index(fields=["state", "-id"], name="followup_state"),
        ),
        migrations.AddIndex(
            model_name="followup",
            index=models.Index(fields=["subscriber", "-id"], name="followup_subscriber"),
        ),
        migrations.AddConstraint(
            model_name="followup",
            constraint=models.UniqueConstraint(
                condition=models.Q(("parent_batch__isnull", False)),
                fields=("parent_batch", "key"),
                name="followup_once_a_batch",
            ),
        ),
        migrations.AddConstraint(
            model_name="followup",
            constraint=models.UniqueConstraint(
                condition=models.Q(("parent_task__isnull", False)),
                fields=("parent_task", "key"),
                name="followup_once_a_task",
            ),
        ),
        migrations.AddConstraint(
            model_name="followup",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("parent_batch__isnull", True), ("parent_task__isnull", False)),
                    models.Q(("parent_batch__isnull", False), ("parent_task__isnull", True)),
                    _connector="OR",
                ),
                name="followup_one_parent",
            ),
        ),
        migrations.AddConstraint(
            model_name="followup",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["waiting", "made", "empty", "unmet", "refused"])),
                name="followup_state_known",
            ),
        ),
    ]
