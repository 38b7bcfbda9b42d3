"""API addresses of the app `console`."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
