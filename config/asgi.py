"""ASGI entry point: HTTP to Django, websockets to the console's live views."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from django.core.asgi import get_asgi_application

django_application = get_asgi_application()

from channels.routing import ProtocolTypeRouter  # noqa: E402

from console.routing import websocket_application  # noqa: E402

application = ProtocolTypeRouter({"http": django_application, "websocket": websocket_application})
