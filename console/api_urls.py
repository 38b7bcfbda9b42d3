"""API addresses of the app `console`, each with and without its slash."""

from django.urls import URLPattern
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from console.api_live import LiveTokensView, LiveView
from console.api_operations import OperationViewSet
from console.api_overview import AlertViewSet, DeadLetterGroupsView, DeadLettersView, StatsView
from console.urls import both

urlpatterns: list[URLPattern] = [
    *both("schema", SpectacularAPIView.as_view(), "schema"),
    *both("docs", SpectacularSwaggerSplitView.as_view(url_name="schema"), "docs"),
    *both("stats", StatsView.as_view(), "api-stats"),
    *both("live", LiveView.as_view(), "api-live"),
    *both("live-tokens", LiveTokensView.as_view(), "api-live-tokens"),
    *both("dead-letters", DeadLettersView.as_view(), "api-dead-letters"),
    *both("dead-letters/groups", DeadLetterGroupsView.as_view(), "api-dead-letter-groups"),
    *both("alerts", AlertViewSet.as_view({"get": "list"}), "api-alerts"),
    *both("alerts/<int:pk>", AlertViewSet.as_view({"get": "retrieve"}), "api-alert"),
    *both("alerts/<int:pk>/acknowledge", AlertViewSet.as_view({"post": "acknowledge"}), "api-alert-acknowledge"),
    *both("alerts/<int:pk>/resolve", AlertViewSet.as_view({"post": "resolve"}), "api-alert-resolve"),
    *both("operations", OperationViewSet.as_view({"get": "list", "post": "create"}), "api-operations"),
    *both("operations/<int:pk>", OperationViewSet.as_view({"get": "retrieve"}), "api-operation"),
    *both("operations/<int:pk>/items", OperationViewSet.as_view({"get": "items"}), "api-operation-items"),
    *both("operations/<int:pk>/pause", OperationViewSet.as_view({"post": "pause"}), "api-operation-pause"),
    *both("operations/<int:pk>/resume", OperationViewSet.as_view({"post": "resume"}), "api-operation-resume"),
    *both("operations/<int:pk>/cancel", OperationViewSet.as_view({"post": "cancel"}), "api-operation-cancel"),
]
