"""The bare view: a DRF view that reads the body and answers 200, without a middleware, a database or a signature.

It is the ceiling of whoever answers webhooks with this framework on this machine. `bench/inbound.py` serves it.
"""

from django.conf import settings

settings.configure(
    SECRET_KEY="a bench has nothing to hide",
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=["rest_framework"],
    MIDDLEWARE=[],
    REST_FRAMEWORK={
        "DEFAULT_AUTHENTICATION_CLASSES": [],
        "DEFAULT_PERMISSION_CLASSES": [],
        "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
        "UNAUTHENTICATED_USER": None,
    },
)

from django.core.asgi import get_asgi_application  # noqa: E402

application = get_asgi_application()

from django.urls import path  # noqa: E402
from rest_framework.request import Request  # noqa: E402
from rest_framework.response import Response  # noqa: E402
from rest_framework.views import APIView  # noqa: E402


class Bare(APIView):
    """Reads, and answers."""

    def post(self, request: Request) -> Response:
        return Response({"read": len(request.body)})

    def get(self, request: Request) -> Response:
        return Response({})


urlpatterns = [path("webhooks/sandbox/", Bare.as_view())]
