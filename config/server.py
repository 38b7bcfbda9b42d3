"""The HTTP protocol of the web server we ship: uvicorn's, with an end to long heads, silence, drips and not reading,
and to connections without number.

Started by `uvicorn --http config.server:BoundedProtocol`. uvicorn on httptools has no such limits itself: it keeps a
head of any length in memory, and a socket that says nothing for ever.
"""

from asyncio import TimerHandle
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from config.connections import Connections

TICK_SECONDS = 1.0


class TooMuch(Exception):
    """More head than we read; ends the parser, whose error becomes the answer."""


class BoundedProtocol(HttpToolsProtocol):
    MAX_HEAD_BYTES = 64 * 1024  # address, header fields and trailers of one request, without their punctuation
    MAX_HEADERS = 128
    HEAD_SECONDS = 15.0  # from the connection, or the first byte of a later request, to the end of the head
    BODY_SECONDS = 20.0  # a body may take so long, and a second more for each
    BODY_BYTES_PER_SECOND = 1024
    CONNECTIONS = Connections()
    STALL_SECONDS = 60.0  # in which a reader who keeps us waiting takes at least as much

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._has_head = False
        self._timer: TimerHandle | None = None
        self._stall: TimerHandle | None = None
        self._unframed = 0  # bytes read of which the parser has told nothing yet: it keeps them
        self._head_bytes = self._head_fields = 0
        self._body_bytes = 0
        self._body_seconds = 0.0
        self._is_too_much = False
        self._peer = ""

    # The line

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._peer = (transport.get_extra_info("peername") or [""])[0]
        if self.CONNECTIONS.come(self._peer):
            self._await_head()
        else:
            self._refuse(503, "Too many connections.")

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        self._reads_again()
        self.CONNECTIONS.go(self._peer)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._has_head and self._timer is None:
            self._await_head()
        self._unframed += len(data)
        super().data_received(data)
        if self._unframed > self.MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(431, "The head of the request is too large.")

    def handle_websocket_upgrade(self) -> None:
        """From here on the connection is another protocol's, which has bounds of its own and tells us of no end."""
        self._rest()
        self.CONNECTIONS.go(self._peer)
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        if self._is_too_much:
            self._refuse(431, "The head of the request is too large.")
        else:
            super().send_400_response(msg)

    # The parser's words

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = self._head_fields = 0

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Trailers come here too."""
        self._head_fields += 1
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._unframed = 0
        self._has_head = True
        self._rest()
        self._body_bytes, self._body_seconds = 0, 0.0
        self._timer = self.loop.call_later(TICK_SECONDS, self._look_at_body)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unframed = 0
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unframed = 0
        self._has_head = False
        self._rest()
        super().on_message_complete()

    def _count(self, length: int) -> None:
        self._head_bytes += length
        if self._head_bytes > self.MAX_HEAD_BYTES or self._head_fields > self.MAX_HEADERS:
            self._is_too_much = True
            raise TooMuch

    # The clock

    def _await_head(self) -> None:
        self._timer = self.loop.call_later(self.HEAD_SECONDS, self._head_is_late)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _head_is_late(self) -> None:
        if self._is_answering():  # the head of a next request may wait for the answer to this one
            self._await_head()
        else:
            self._refuse(408, "The request did not come in time.")

    def _look_at_body(self) -> None:
        """Time in which we do not read is not the sender's."""
        if not self.flow.read_paused:
            self._body_seconds += TICK_SECONDS
        if self._body_seconds > self.BODY_SECONDS + self._body_bytes / self.BODY_BYTES_PER_SECOND:
            self._refuse(408, "The body did not come in time.")
        else:
            self._timer = self.loop.call_later(TICK_SECONDS, self._look_at_body)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, status: int, words: str) -> None:
        """An answer where none has begun, and the end of the connection."""
        self._rest()
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            head = (
                f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(words)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(STATUS_LINE[status] + head.encode() + words.encode())
        self.transport.close()

    # The reader

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._reads_again()

    def _watch_reader(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        self._stall = self.loop.call_later(self.STALL_SECONDS, self._look_at_reader, waiting)

    def _look_at_reader(self, before: int) -> None:
        taken = before - self.transport.get_write_buffer_size()
        if taken < self.STALL_SECONDS * self.BODY_BYTES_PER_SECOND:
            self.transport.abort()
        else:
            self._watch_reader()

    def _reads_again(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
