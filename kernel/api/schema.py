"""The OpenAPI document, made once for each process and form: making it takes a second of processor time."""

import hashlib
import threading
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from drf_spectacular.settings import patched_settings
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request

from kernel.api.problems import BadInput

VERSIONS = {"3.1": "3.1.1", "3.0": "3.0.3"}  # the first is given to whoever asks for none


@dataclass(frozen=True)
class _Made:
    text: bytes
    etag: str


_making = threading.Lock()
_forms: dict[tuple[type, str], _Made] = {}
_documents: dict[str, dict[str, Any]] = {}


class SchemaView(SpectacularAPIView):
    """The document as YAML or JSON, the same for everybody, with an ETag. Of the query `format` and `openapi` count.

    `?openapi=3.0` is for generators that do not know 3.1 yet; it has no `webhooks`, which 3.0 has no place for.
    """

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        renderer = request.accepted_renderer
        made = self._made(renderer, _version_of(request))
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

    def _made(self, renderer: Any, version: str) -> _Made:
        form = (type(renderer), version)
        with _making:
            if form not in _forms:
                if version not in _documents:
                    with patched_settings({"OAS_VERSION": version}):
                        _documents[version] = self.generator_class().get_schema(request=None, public=True)
                text = renderer.render(_documents[version], renderer_context={})
                text = text.encode() if isinstance(text, str) else text
                _forms[form] = _Made(text, f'"{hashlib.sha256(text).hexdigest()[:32]}"')
            return _forms[form]


def _version_of(request: Request) -> str:
    asked = request.query_params.get("openapi", next(iter(VERSIONS)))
    if asked not in VERSIONS:
        raise BadInput(f"openapi is one of {', '.join(VERSIONS)}.", code="unknown_version")
    return VERSIONS[asked]
