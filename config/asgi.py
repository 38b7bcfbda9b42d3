"""ASGI entry point: HTTP to Django, websockets to the console's live views, the server's start and end to the console."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from django.core.asgi import get_asgi_application

django_application = get_asgi_application()

from channels.routing import ProtocolTypeRouter  # noqa: E402

from console.routing import lifespan_application, websocket_application  # noqa: E402

application = ProtocolTypeRouter(
    {"http": django_application, "websocket": websocket_application, "lifespan": lifespan_application}
)
