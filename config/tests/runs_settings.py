"""The product's settings with one more app, for the children that the tests of runs make."""

from config.settings import *  # noqa: F403
from config.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tasks.tests.runs.extra"]
