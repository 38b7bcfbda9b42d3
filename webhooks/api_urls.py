"""API addresses of the app `webhooks`."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
