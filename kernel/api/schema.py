"""The OpenAPI document, made once for each process and form: making it takes a second of processor time."""

import hashlib
import threading
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request


@dataclass(frozen=True)
class _Made:
    text: bytes
    etag: str


_making = threading.Lock()
_document: dict[str, Any] = {}
_forms: dict[type, _Made] = {}


class SchemaView(SpectacularAPIView):
    """The document as YAML or JSON, the same for everybody, with an ETag. No query parameter but `format` counts."""

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        renderer = request.accepted_renderer
        made = self._made(renderer)
        asked = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
        if asked & {made.etag, "*"}:
            response = HttpResponse(status=304)
        else:
            response = HttpResponse(made.text, content_type=renderer.media_type)
            name = self._get_filename(request, None)
            response.headers["Content-Disposition"] = f'inline; filename="{name}"'
        response.headers["ETag"] = made.etag
        response.headers["Cache-Control"] = "no-cache"
        response.headers["Vary"] = "Accept"
        return response

    def _made(self, renderer: Any) -> _Made:
        form = type(renderer)
        with _making:
            if form not in _forms:
                if not _document:
                    _document.update(self.generator_class().get_schema(request=None, public=True))
                text = renderer.render(_document, renderer_context={})
                text = text.encode() if isinstance(text, str) else text
                _forms[form] = _Made(text, f'"{hashlib.sha256(text).hexdigest()[:32]}"')
            return _forms[form]
