"""API addresses of the app `console`, each with and without its slash: a redirect would lose a body."""

from django.urls import URLPattern, URLResolver, re_path
from drf_spectacular.views import SpectacularSwaggerSplitView
from rest_framework.routers import SimpleRouter

from console.api.live import LiveTokensView, LiveView
from console.api.operations import OperationViewSet
from console.api.overview import AlertViewSet, DeadLetterGroupsView, DeadLettersView, StatsView
from kernel.api.schema import SchemaView

router = SimpleRouter()
router.trailing_slash = "/?"
router.register("alerts", AlertViewSet, basename="alert")
router.register("operations", OperationViewSet, basename="operation")

urlpatterns: list[URLPattern | URLResolver] = [
    re_path(r"^schema/?$", SchemaView.as_view(), name="schema"),
    re_path(r"^docs/?$", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="docs"),
    re_path(r"^stats/?$", StatsView.as_view(), name="api-stats"),
    re_path(r"^live/?$", LiveView.as_view(), name="api-live"),
    re_path(r"^live-tokens/?$", LiveTokensView.as_view(), name="api-live-tokens"),
    re_path(r"^dead-letters/?$", DeadLettersView.as_view(), name="api-dead-letters"),
    re_path(r"^dead-letters/groups/?$", DeadLetterGroupsView.as_view(), name="api-dead-letter-groups"),
    *router.urls,
]
