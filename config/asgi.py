"""ASGI entry point: HTTP to Django, websockets to the console's live views, the server's start and end too."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from django.core.asgi import get_asgi_application

django_application = get_asgi_application()

from channels.routing import ProtocolTypeRouter  # noqa: E402
from django.conf import settings  # noqa: E402

from console.routing import lifespan_application, websocket_application  # noqa: E402
from kernel.bodies import CappedBodies  # noqa: E402

CAPS = {"/webhooks/": settings.INBOUND_MAX_BYTES, "/": settings.DATA_UPLOAD_MAX_MEMORY_SIZE}

application = ProtocolTypeRouter(
    {
        "http": CappedBodies(django_application, CAPS),
        "websocket": websocket_application,
        "lifespan": lifespan_application,
    }
)
