"""API addresses of the app `tasks`."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
