"""The two parts of the sandbox, started and stopped together: on a port each, or behind one port with two prefixes."""

from __future__ import annotations

from collections.abc import Mapping

from sandbox.provider.api import Provider
from sandbox.receiver.app import Receiver
from sandbox.settings import Settings
from sandbox.web import Handler, Outcome, Request, Server, json_answer


class Sandbox:
    def __init__(self, settings: Settings, *, with_provider: bool = True, with_receiver: bool = True) -> None:
        self.provider = Provider(settings) if with_provider else None
        self.receiver = Receiver(settings) if with_receiver else None
        self._servers: list[Server] = []

    def _parts(self) -> dict[str, Handler]:
        parts = {"provider": self.provider, "receiver": self.receiver}
        return {name: part.handle for name, part in parts.items() if part is not None}

    async def start(self, host: str, ports: Mapping[str, int]) -> dict[str, str]:
        """Each part on its port of `ports`; 0 takes a free one. Returns the URLs. Raises OSError: the port is taken."""
        return {name: await self._listen(handle, host, ports[name]) for name, handle in self._parts().items()}

    async def start_behind_one_port(self, host: str, port: int) -> dict[str, str]:
        """Both at one port, at `/provider` and `/receiver`."""
        parts = self._parts()
        url = await self._listen(front({f"/{name}": handle for name, handle in parts.items()}), host, port)
        return {name: f"{url}/{name}" for name in parts}

    async def _listen(self, handler: Handler, host: str, port: int) -> str:
        server = Server(handler)
        url = await server.start(host, port)
        self._servers.append(server)
        return url

    async def stop(self) -> None:
        if self.provider is not None:
            self.provider.hooks.clear()
        for server in self._servers:
            await server.stop()


def front(parts: Mapping[str, Handler]) -> Handler:
    """Hands a request to the part whose prefix it has, and takes the prefix off its path."""

    def handle(request: Request) -> Outcome:
        first, _, rest = request.path[1:].partition("/")
        prefix = f"/{first}"
        if prefix in parts:
            request.prefix, request.path = prefix, f"/{rest}"
            return parts[prefix](request)
        if request.path in ("/", "/healthz"):
            return json_answer(200, {"status": "ok", "parts": list(parts)})
        return json_answer(404, {"error": {"code": "not_found", "message": f"Here are only {', '.join(parts)}."}})

    return handle
