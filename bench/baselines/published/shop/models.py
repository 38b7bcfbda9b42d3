"""What is sold."""

from django.db import models


class Order(models.Model):
    """Saved once for every event."""

    note = models.TextField()

    class Meta:
        app_label = "shop"

    def __str__(self) -> str:
        return f"Order {self.pk}"
