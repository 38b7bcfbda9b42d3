"""The roof of the house: settings, Celery, ASGI and URLs. No domain code lives here."""

from config.celery import app as celery_app

__all__ = ["celery_app"]
__version__ = "0.1.0"
