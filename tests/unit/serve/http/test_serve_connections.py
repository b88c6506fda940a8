"""Connections on real sockets: late heads, slow readers, half-closed clients and the cap on their number."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from dragoman.serve.http.connections import Connection, ShortageHandler

GUARD = 10.0  # seconds after which a test fails: what it waits for comes in milliseconds
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST_REQUEST = REQUEST[:-2] + b"Connection: close\r\n\r\n"
UNREAD = 50_000  # bytes of a reply: over the socket's buffers, below the limit at which the transport pauses writing


class Host:
    """A server of `Connection`s in the test's own event loop."""

    def __init__(self, size: int = 2, **limits: float) -> None:
        self.size, self.state = size, ServerState()
        self.waiting = asyncio.Event()  # a request is being answered
        self.go = asyncio.Event()  # cleared, requests wait
        self.go.set()
        self.gone = asyncio.Event()  # the application was told that the client has left
        config = uvicorn.Config(self.app, log_config=None, lifespan="off", interface="asgi3")
        self.kind = type("Limited", (Connection,), {"head_seconds": GUARD, "write_seconds": GUARD, **limits})
        config.load()
        self.config = config

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.waiting.set()
        leaving = asyncio.ensure_future(self.watch(receive))
        await self.go.wait()
        leaving.cancel()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % self.size)]})
        await send({"type": "http.response.body", "body": b"x" * self.size})

    async def watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.gone.set()

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # accepted sockets inherit it
        self.server = await loop.create_server(lambda: self.kind(self.config, self.state, {}), sock=listening)
        self.address = listening.getsockname()

    async def connect(self, local: str = "127.0.0.1", content: bytes = b"") -> socket.socket:
        """A client that reads nothing by itself."""
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        client.bind((local, 0))
        before = len(self.state.connections)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, self.address)
        if before < self.kind.max_connections:
            await reached(lambda: len(self.state.connections) > before)
        await loop.sock_sendall(client, content)
        return client


async def reached(truth: Callable[[], bool]) -> None:
    while not truth():
        await asyncio.sleep(0)


async def ended(client: socket.socket) -> bytes:
    """All that a client can still read, until the server has closed the connection."""
    received = b""
    with suppress(ConnectionResetError):
        while chunk := await asyncio.get_running_loop().sock_recv(client, 65536):
            received += chunk
    client.close()
    return received


def play(scene: Callable[[Host], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        host = Host(**options)
        await host.open()
        async with asyncio.timeout(GUARD / 2):
            await scene(host)
        host.server.close()

    asyncio.run(run())


def test_a_head_that_never_ends_is_not_waited_for() -> None:
    async def scene(host: Host) -> None:
        client = await host.connect(content=REQUEST[:20])
        assert await ended(client) == b""
        assert not host.state.connections

    play(scene, head_seconds=0.01)


def test_a_client_that_sends_nothing_is_not_waited_for() -> None:
    async def scene(host: Host) -> None:
        assert await ended(await host.connect()) == b""

    play(scene, head_seconds=0.01)


def test_a_request_in_time_is_answered_and_the_next_one_too() -> None:
    async def scene(host: Host) -> None:
        client = await host.connect(content=REQUEST)
        loop = asyncio.get_running_loop()
        for _ in range(2):
            received = b""
            while not received.endswith(b"xx"):
                chunk = await loop.sock_recv(client, 4096)
                assert chunk, received
                received += chunk
            await loop.sock_sendall(client, REQUEST)
        client.close()

    play(scene)


def test_a_client_that_never_reads_its_reply_is_disconnected() -> None:
    async def scene(host: Host) -> None:
        client = await host.connect(content=REQUEST)
        await reached(lambda: host.waiting.is_set() and not host.state.connections)
        assert len(await ended(client)) < host.size

    play(scene, size=5_000_000, write_seconds=0.01)


def test_a_client_that_reads_again_has_time_again() -> None:
    async def scene(host: Host) -> None:
        client = await host.connect()
        (connection,) = host.state.connections
        connection.pause_writing()
        timer = connection.write_timer
        connection.resume_writing()
        assert timer.cancelled() and connection.write_timer is None
        client.close()

    play(scene)


def test_a_closing_connection_does_not_wait_for_its_client_to_read() -> None:
    async def scene(host: Host) -> None:
        client = await host.connect(content=LAST_REQUEST)
        await reached(lambda: host.waiting.is_set() and not host.state.connections)
        assert len(await ended(client)) < host.size

    play(scene, size=UNREAD, write_seconds=0.01)


def test_a_kept_alive_connection_does_not_wait_for_its_client_to_read() -> None:
    async def scene(host: Host) -> None:
        host.config.timeout_keep_alive = 0
        client = await host.connect(content=REQUEST)
        await reached(lambda: host.waiting.is_set() and not host.state.connections)
        assert len(await ended(client)) < host.size

    play(scene, size=UNREAD)


def test_a_reply_that_is_read_in_time_arrives_whole() -> None:
    async def scene(host: Host) -> None:
        client = await host.connect(content=LAST_REQUEST)
        assert (await ended(client)).endswith(b"x" * host.size)

    play(scene, size=500_000)


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
@pytest.mark.parametrize("request_", [REQUEST, LAST_REQUEST])
def test_a_half_closed_client_is_answered(version: bytes, request_: bytes) -> None:
    async def scene(host: Host) -> None:
        host.go.clear()
        client = await host.connect(content=request_.replace(b"1.1", version))
        await host.waiting.wait()
        client.shutdown(socket.SHUT_WR)
        await reached(lambda: any(one.half_closed for one in host.state.connections))
        host.go.set()
        interim, _, reply = (await ended(client)).rpartition(b"HTTP/1.1 200")
        assert reply.endswith(b"\r\n\r\nxx") and interim.split(b"\r\n")[0] in (b"", b"HTTP/1.1 100 ")
        assert bool(interim) == (version == b"1.1")
        await reached(lambda: not host.state.connections)

    play(scene)


def test_pipelined_requests_of_a_half_closed_client_are_all_answered() -> None:
    async def scene(host: Host) -> None:
        host.go.clear()
        client = await host.connect(content=REQUEST * 3)
        await host.waiting.wait()
        client.shutdown(socket.SHUT_WR)
        await reached(lambda: any(one.half_closed for one in host.state.connections))
        host.go.set()
        assert (await ended(client)).count(b"HTTP/1.1 200") == 3

    play(scene)


def test_a_client_that_left_is_noticed_and_its_request_dropped() -> None:
    async def scene(host: Host) -> None:
        host.go.clear()
        client = await host.connect(content=REQUEST)
        await host.waiting.wait()
        client.close()
        await host.gone.wait()
        assert not host.state.connections
        host.go.set()

    play(scene, probe_seconds=0.01)


def test_half_a_request_and_a_closed_side_end_the_connection() -> None:
    async def scene(host: Host) -> None:
        client = await host.connect(content=REQUEST[:-2])
        client.shutdown(socket.SHUT_WR)
        assert await ended(client) == b"" and not host.waiting.is_set()

    play(scene)


def test_a_half_closed_client_that_does_not_read_is_disconnected() -> None:
    async def scene(host: Host) -> None:
        client = await host.connect(content=REQUEST)
        await reached(lambda: any(one.cycle and one.cycle.response_complete for one in host.state.connections))
        client.shutdown(socket.SHUT_WR)  # the reply is still in the server's buffer
        await reached(lambda: not host.state.connections)
        assert len(await ended(client)) < host.size

    play(scene, size=UNREAD, write_seconds=0.01)


def test_at_the_cap_the_client_with_most_idle_connections_loses_one() -> None:
    async def scene(host: Host) -> None:
        greedy = [await host.connect("127.0.0.2") for _ in range(2)]
        modest = await host.connect("127.0.0.3")
        late = await host.connect("127.0.0.4", REQUEST)
        assert (await asyncio.get_running_loop().sock_recv(late, 4096)).startswith(b"HTTP/1.1 200")
        await reached(lambda: len(host.state.connections) == 3)
        assert sorted(one.address for one in host.state.connections) == ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
        for client in (*greedy, modest, late):
            client.close()

    play(scene, max_connections=3)


def test_at_the_cap_a_kept_alive_connection_makes_room() -> None:
    async def scene(host: Host) -> None:
        loop = asyncio.get_running_loop()
        first = await host.connect(content=REQUEST)
        assert (await loop.sock_recv(first, 4096)).startswith(b"HTTP/1.1 200")
        second = await host.connect(content=REQUEST)
        assert (await loop.sock_recv(second, 4096)).startswith(b"HTTP/1.1 200")
        await ended(first)
        second.close()

    play(scene, max_connections=1)


def test_at_the_cap_connections_with_a_request_stay_and_a_new_one_is_refused() -> None:
    async def scene(host: Host) -> None:
        host.go.clear()
        busy = await host.connect(content=REQUEST)
        await host.waiting.wait()
        assert await ended(await host.connect("127.0.0.2")) == b""
        host.go.set()
        assert (await asyncio.get_running_loop().sock_recv(busy, 4096)).startswith(b"HTTP/1.1 200")
        busy.close()

    play(scene, max_connections=1)


def test_a_shortage_of_descriptors_is_one_line_and_closes_connections_without_a_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene(host: Host) -> None:
        handle = ShortageHandler(host.state.connections)
        idle = await host.connect()
        loop = asyncio.get_running_loop()
        with caplog.at_level(logging.ERROR, "dragoman.serve"):
            for _ in range(3):
                handle(loop, {"exception": OSError(errno.EMFILE, "Too many open files")})
        assert await ended(idle) == b""
        assert len(caplog.records) == 1

    play(scene)
