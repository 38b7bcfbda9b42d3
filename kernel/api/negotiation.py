"""What a client accepts: whoever names a JSON type of some sort gets JSON, as RFC 9457 has them ask for problems."""

from typing import Any

from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request


class JsonForJson(DefaultContentNegotiation):
    """DRF's own, which knows `application/json` only, and `application/problem+json` and its like too."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        try:
            return super().select_renderer(request, renderers, format_suffix)
        except NotAcceptable:
            accepted = (text.partition(";")[0].strip().lower() for text in self.get_accept_list(request))
            if not any(text.startswith("application/") and text.endswith("+json") for text in accepted):
                raise
            return renderers[0], renderers[0].media_type
