"""API addresses of the inbox, with and without their slash."""

from rest_framework.routers import SimpleRouter

from webhooks.api import InboundEventViewSet

router = SimpleRouter()
router.trailing_slash = "/?"
router.register("inbound-events", InboundEventViewSet, basename="inboundevent")
urlpatterns = router.urls
