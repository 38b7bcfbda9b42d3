"""A websocket client for tests, on asgiref's communicator. (Channels' own needs a server that we lack.)"""

import contextlib
import json

from asgiref.testing import ApplicationCommunicator
from django.test import Client

from console.routing import websocket_application


class WebsocketCommunicator(ApplicationCommunicator):
    def __init__(self, application, path, headers=(), subprotocols=None):
        path, _, query = path.partition("?")
        scope = {
            "type": "websocket",
            "path": path,
            "query_string": query.encode(),
            "headers": list(headers),
            "subprotocols": subprotocols or [],
        }
        super().__init__(application, scope)

    async def connect(self, timeout=1):
        """(True, subprotocol) or (False, close code)."""
        await self.send_input({"type": "websocket.connect"})
        answer = await self.receive_output(timeout)
        if answer["type"] == "websocket.close":
            return False, answer.get("code", 1000)
        return True, answer.get("subprotocol")

    async def send_to(self, text_data):
        await self.send_input({"type": "websocket.receive", "text": text_data})

    async def send_json_to(self, data):
        await self.send_to(json.dumps(data))

    async def receive_json_from(self, timeout=1):
        answer = await self.receive_output(timeout)
        assert answer["type"] == "websocket.send", answer
        return json.loads(answer["text"])

    async def disconnect(self, code=1000, timeout=1):
        await self.send_input({"type": "websocket.disconnect", "code": code})
        await self.wait(timeout)


OWN = [(b"host", b"testserver"), (b"origin", b"http://testserver")]


def cookie_of(user):
    client = Client()
    client.force_login(user)
    return (b"cookie", f"sessionid={client.cookies['sessionid'].value}".encode())


def bearer(token):
    return (b"authorization", f"Bearer {token}".encode())


@contextlib.asynccontextmanager
async def socket(*headers, query="", subprotocols=None):
    path = f"/ws/live/{query}"
    communicator = WebsocketCommunicator(websocket_application, path, list(headers), subprotocols)
    connected, detail = await communicator.connect(timeout=3)
    try:
        yield communicator if connected else detail
    finally:
        await communicator.disconnect()


async def ask(communicator, topic):
    await communicator.send_json_to({"type": "subscribe", "topic": topic})
    return await communicator.receive_json_from(timeout=3)
