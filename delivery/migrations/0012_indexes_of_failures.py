"""Indexes for what lists ask by after a failure, built while deliveries go on. Nothing that arrives at once is in them.

One that is interrupted leaves an invalid index behind: drop it (`DROP INDEX CONCURRENTLY name`) and migrate again.
"""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("delivery", "0011_settle_dead_letters"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("last_outcome__in", ["", "delivered", "duplicate"]), _negated=True),
                fields=["last_outcome", "-id"],
                name="delivery_outcome",
            ),
        ),
        AddIndexConcurrently(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("fingerprint", ""), _negated=True),
                fields=["fingerprint", "-id"],
                name="delivery_fingerprint",
            ),
        ),
    ]
