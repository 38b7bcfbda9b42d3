"""API addresses of the app `delivery`, each with and without its slash: a redirect would lose a body."""

from rest_framework.routers import SimpleRouter

from delivery.api.deliveries import DeliveryViews
from delivery.api.endpoints import EndpointViews
from delivery.api.events import EventViews

router = SimpleRouter()
router.trailing_slash = "/?"
router.register("endpoints", EndpointViews, basename="endpoint")
router.register("events", EventViews, basename="event")
router.register("deliveries", DeliveryViews, basename="delivery")

urlpatterns = router.urls
