"""A websocket client for tests, on asgiref's communicator. (Channels' own needs a server that we lack.)"""

import json

from asgiref.testing import ApplicationCommunicator


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
