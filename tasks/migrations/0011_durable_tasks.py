"""Priority, expiry, unique keys, notes of progress, and a share of a kind for each subscriber."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tasks", "0010_polls_fetches_and_cancels"),
    ]

    operations = [
        migrations.CreateModel(
            name="SubscriberShare",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=60)),
                ("subscriber", models.CharField(blank=True, max_length=100)),
                ("tokens", models.FloatField(null=True)),
                ("tokens_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.AddField(
            model_name="kindpolicy",
            name="memory_mb",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Most memory that one run in our own workers may take, in MB; empty: 1,024.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(1000000),
                ],
            ),
        ),
        migrations.AddField(
            model_name="kindpolicy",
            name="subscriber_concurrency",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Most tasks of one subscriber running at once; empty: as many as of all.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(100000),
                ],
            ),
        ),
        migrations.AddField(
            model_name="kindpolicy",
            name="subscriber_rate_per_minute",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Most starts a minute for one subscriber; empty: no limit.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(1000000),
                ],
            ),
        ),
        migrations.AddField(
            model_name="schedule",
            name="expires_after_seconds",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="A task not started by then is cancelled.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(2592000),
                ],
            ),
        ),
        migrations.AddField(
            model_name="schedule",
            name="priority",
            field=models.PositiveSmallIntegerField(choices=[(0, "high"), (1, "normal"), (2, "low")], default=1),
        ),
        migrations.AddField(
            model_name="schedule",
            name="unique_key",
            field=models.CharField(
                blank=True, help_text="A slot makes no task while an earlier one with this key is open.", max_length=200
            ),
        ),
        migrations.AddField(
            model_name="task",
            name="expires_at",
            field=models.DateTimeField(blank=True, help_text="Not started after it: then it is cancelled.", null=True),
        ),
        migrations.AddField(
            model_name="task",
            name="priority",
            field=models.PositiveSmallIntegerField(choices=[(0, "high"), (1, "normal"), (2, "low")], default=1),
        ),
        migrations.AddField(
            model_name="task",
            name="progress_note",
            field=models.CharField(blank=True, help_text="What the run says it is at.", max_length=200),
        ),
        migrations.AddField(
            model_name="task",
            name="unique_key",
            field=models.CharField(blank=True, help_text="No other of its kind and subscriber has it.", max_length=200),
        ),
        migrations.AddField(
            model_name="task",
            name="unique_while",
            field=models.CharField(
                choices=[
                    ("open", "until it has ended"),
                    ("succeeded", "until it has ended without success"),
                    ("ever", "for as long as its row is kept"),
                ],
                default="open",
                help_text="How long it holds its unique key.",
                max_length=10,
            ),
        ),
        migrations.AddConstraint(
            model_name="kindpolicy",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("subscriber_concurrency", 0), _negated=True),
                    models.Q(("subscriber_rate_per_minute", 0), _negated=True),
                    models.Q(("memory_mb", 0), _negated=True),
                ),
                name="kindpolicy_shares_say_what_they_mean",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(("priority__in", [0, 1, 2])), name="task_priority_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.UniqueConstraint(
                condition=models.Q(
                    models.Q(("unique_key", ""), _negated=True),
                    models.Q(
                        ("state__in", ("scheduled", "queued", "running", "fetching", "retrying")),
                        ("unique_while", "ever"),
                        models.Q(("state", "succeeded"), ("unique_while", "succeeded")),
                        _connector="OR",
                    ),
                ),
                fields=("kind", "subscriber", "unique_key"),
                name="task_unique_key",
            ),
        ),
        migrations.AddConstraint(
            model_name="subscribershare",
            constraint=models.UniqueConstraint(fields=("kind", "subscriber"), name="subscribershare_once"),
        ),
    ]
