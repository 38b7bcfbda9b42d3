"""A limit of zero meant none; attempts without end could not be redriven. Rows are put right before it is refused."""

import django.core.validators
from django.db import migrations, models


def put_right(apps, schema_editor):
    policies = apps.get_model("tasks", "KindPolicy").objects
    policies.filter(rate_per_minute=0).update(rate_per_minute=None)  # what it has meant until now
    policies.filter(attempt_limit__gt=100).update(attempt_limit=100)


class Migration(migrations.Migration):
    dependencies = [
        ("tasks", "0003_sizes_and_kept_answers"),
    ]

    operations = [
        migrations.RunPython(put_right, migrations.RunPython.noop),
        migrations.AlterField(
            model_name="kindpolicy",
            name="attempt_limit",
            field=models.PositiveSmallIntegerField(
                default=3,
                validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(100)],
            ),
        ),
        migrations.AlterField(
            model_name="kindpolicy",
            name="batch_size",
            field=models.PositiveIntegerField(
                default=50,
                help_text="Most tasks in one start call.",
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(10000),
                ],
            ),
        ),
        migrations.AlterField(
            model_name="kindpolicy",
            name="concurrency",
            field=models.PositiveIntegerField(
                default=500,
                help_text="Most tasks running at once.",
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(100000),
                ],
            ),
        ),
        migrations.AlterField(
            model_name="kindpolicy",
            name="rate_per_minute",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Most starts a minute; empty: no limit. To start none, pause the kind.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(1000000),
                ],
            ),
        ),
        migrations.AlterField(
            model_name="kindpolicy",
            name="timeout_seconds",
            field=models.PositiveIntegerField(
                default=3600,
                help_text="How long one attempt may take.",
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(2592000),
                ],
            ),
        ),
        migrations.AddConstraint(
            model_name="kindpolicy",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("attempt_limit__lte", 100), ("rate_per_minute__isnull", True)),
                    models.Q(("attempt_limit__lte", 100), ("rate_per_minute__gte", 1)),
                    _connector="OR",
                ),
                name="kindpolicy_says_what_it_means",
            ),
        ),
    ]
