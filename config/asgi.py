"""ASGI entry point: HTTP to Django, websockets to the console's live views, the server's start and end too."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from django.core.asgi import get_asgi_application

django_application = get_asgi_application()

from channels.routing import ProtocolTypeRouter  # noqa: E402
from django.conf import settings  # noqa: E402

from console.routing import lifespan_application, websocket_application  # noqa: E402
from kernel.web.bodies import CappedBodies  # noqa: E402
from kernel.web.forwarded import ForwardedByProxies  # noqa: E402
from kernel.web.lanes import Lane, Lanes  # noqa: E402
from kernel.web.weights import HeavyBodies  # noqa: E402

LOG_IN_PLACES = 2
LOG_INS_WAITING, REST_WAITING = 30, 1_000  # beyond them the answer is 503 at once
KEPT_FREE = 2  # connections for inbound webhooks, whatever else goes on


def _lanes() -> dict[str, Lane | None]:
    """Inbound webhooks and health have no limit but the pool's, of which the others together leave a part free."""
    pool = settings.DATABASES["default"]["OPTIONS"].get("pool", {}).get("max_size", 0)
    rest = Lane(max(1, pool - LOG_IN_PLACES - KEPT_FREE), REST_WAITING) if pool else None
    free: dict[str, Lane | None] = dict.fromkeys(("/webhooks/", "/healthz", "/readyz", "/static/"))
    return {**free, "/admin/login": Lane(LOG_IN_PLACES, LOG_INS_WAITING), "/": rest}


bodies = HeavyBodies(Lanes(django_application, _lanes()), settings.INBOUND_MAX_BYTES, apart=("/webhooks/",))
application = ForwardedByProxies(
    ProtocolTypeRouter(
        {
            "http": CappedBodies(bodies, settings.BODY_CAPS),
            "websocket": websocket_application,
            "lifespan": lifespan_application,
        }
    )
)
