"""Inbound addresses. Each answers with and without its slash; none redirects."""

from django.urls import re_path

from webhooks.views import receive

PART = "[A-Za-z0-9_-]{1,60}"

urlpatterns = [
    re_path(rf"^(?P<first>{PART})/?$", receive, name="inbound"),
    re_path(rf"^(?P<first>{PART})/(?P<second>{PART})/?$", receive, name="inbound-provider"),
]
