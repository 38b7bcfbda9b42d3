"""API addresses of the app `delivery`."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
