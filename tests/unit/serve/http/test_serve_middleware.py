"""The middleware: oversized bodies are rejected while being read, and logs contain no user text."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Sequence
from typing import Any

import pytest
from fake_translator import fake_service
from starlette.types import Message, Receive, Scope, Send

from dragoman.serve.http import middleware as module
from dragoman.serve.http.middleware import DEADLINE, Middleware
from dragoman.serve.limits import SMALL_BODY_BYTES, Limits
from dragoman.serve.metrics import ServerMetrics
from serving import served

LIMITS = Limits(max_characters=1000, max_queue=2, timeout=30)


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the length of the body it was given."""
    message = await receive()
    assert not message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": str(len(message["body"])).encode()})


class Client:
    """One request by hand: what it sends, and what it was answered."""

    def __init__(
        self,
        middleware: Middleware,
        *chunks: bytes,
        length: int | None = None,
        path: str = "/v1/translate",
        address: str = "",
    ) -> None:
        headers = [] if length is None else [(b"content-length", str(length).encode())]
        self.middleware, self.read = middleware, 0
        self.read_before = 0  # how much of the body was read before the answer
        self.scope: Scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "root_path": ""}
        self.scope["client"] = (address, 4711) if address else None
        self.incoming: list[Message] = [
            {"type": "http.request", "body": chunk, "more_body": number < len(chunks)}
            for number, chunk in enumerate(chunks, 1)
        ]
        self.answered: list[Message] = []

    async def receive(self) -> Message:
        if self.read == len(self.incoming):
            await asyncio.Event().wait()  # nothing more ever comes
        self.read += 1
        return self.incoming[self.read - 1]

    async def send(self, message: Message) -> None:
        if not self.answered:
            self.read_before = self.read
        self.answered.append(message)

    async def ask(self) -> Client:
        await self.middleware(self.scope, self.receive, self.send)
        return self

    @property
    def status(self) -> int:
        return int(self.answered[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.answered[0]["headers"])

    @property
    def error(self) -> Any:
        return json.loads(self.answered[1]["body"])["error"]


def middleware(limits: Limits = LIMITS, app: Any = echo, **options: Any) -> Middleware:
    return Middleware(app, limits, ServerMetrics(), {"/v1/translate", "/health"}, **options)


def ask(client: Client) -> Client:
    return asyncio.run(client.ask())


def test_a_body_in_parts_arrives_whole_and_the_answer_has_the_headers() -> None:
    client = ask(Client(middleware(), b"abc", b"", b"defg"))
    assert (client.status, client.answered[1]["body"]) == (200, b"7")
    assert client.headers[b"content-security-policy"].startswith(b"default-src 'self'")
    assert client.headers[b"x-content-type-options"] == b"nosniff"
    assert client.scope[DEADLINE] > 0


def test_a_body_that_says_it_is_too_long_is_refused_unread() -> None:
    client = ask(Client(middleware(), b"dropped", length=LIMITS.max_bytes + 1))
    assert (client.status, client.read_before) == (413, 0)
    assert client.error["code"] == "too_large"
    assert "1,000 characters per request" in client.error["message"]
    assert client.headers[b"connection"] == b"close"


@pytest.mark.parametrize("path", ["/v1/documents", "/translate_file"])
def test_a_document_that_is_too_large_is_told_the_limit_in_bytes(path: str) -> None:
    client = ask(Client(middleware(), b"dropped", length=LIMITS.max_bytes + 1, path=path))
    assert client.status == 413
    message = client.error if path == "/translate_file" else client.error["message"]
    assert f"{LIMITS.max_bytes:,} bytes (0.1 MB" in message and "split it" in message


def test_a_body_that_turns_out_too_long_is_refused_while_it_is_read() -> None:
    chunk = b"x" * (LIMITS.max_bytes // 2)
    client = ask(Client(middleware(), chunk, chunk, chunk, chunk))
    assert (client.status, client.read_before, client.read) == (413, 3, 4)
    assert [message.get("more_body", False) for message in client.answered] == [False, True, False]


def test_the_rest_of_a_refused_body_is_dropped_for_a_bounded_time() -> None:
    client = Client(middleware(drain_seconds=0.01), b"a", b"b", b"c", length=LIMITS.max_bytes + 1)
    client.incoming[-1]["more_body"] = True  # and nothing more
    assert (ask(client).status, client.read) == (413, 3)
    assert not client.answered[-1]["more_body"]


def test_the_rest_of_a_refused_body_is_dropped_up_to_a_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DRAIN_BYTES", 10)
    client = Client(middleware(), *[b"12345"] * 5, length=LIMITS.max_bytes + 1)
    assert (ask(client).status, client.read) == (413, 2)


def test_a_client_that_sends_too_much_gets_the_reply() -> None:
    body = bytes(13_000_000)
    assert len(body) > Limits().max_bytes
    with served(fake_service()) as address:
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)
        connection.request("POST", "/v1/translate", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["error"]["code"]) == (413, "too_large")
        connection.close()


def test_a_body_of_the_longest_text_is_let_in_however_it_is_escaped() -> None:
    body = json.dumps({"text": "😀" * LIMITS.max_characters}).encode()
    assert len(body) > 12 * LIMITS.max_characters
    assert ask(Client(middleware(), body, length=len(body))).status == 200


def test_a_body_that_never_ends_is_given_up() -> None:
    client = Client(middleware(Limits(timeout=0.01)), b"a")
    client.incoming[0]["more_body"] = True
    assert ask(client).status == 408
    assert client.error["code"] == "body_timeout"


def test_a_body_that_comes_in_drops_is_given_up_long_before_the_deadline() -> None:
    client = Client(middleware(body_seconds=0.01), b"abc")
    client.incoming[0]["more_body"] = True
    assert ask(client).status == 408
    assert client.headers[b"connection"] == b"close"


def test_one_client_cannot_take_all_places() -> None:
    async def scene() -> None:
        here = middleware(Limits(max_queue=8, max_client_requests=2, timeout=30), body_seconds=30)
        half_sent = [Client(here, b"{", address="10.0.0.1") for _ in range(5)]
        for client in half_sent:
            client.incoming[0]["more_body"] = True
        tasks = [asyncio.create_task(client.ask()) for client in half_sent]
        await asyncio.sleep(0)
        refused = [client for client in half_sent if client.answered]
        assert [client.status for client in refused] == [429] * 3
        assert {client.error["code"] for client in refused} == {"too_many_requests"}
        assert (await Client(here, b"a", address="10.0.0.2").ask()).status == 200
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (here.open_requests, dict(here.open_by_client)) == (0, {})
        assert (await Client(here, b"a", address="10.0.0.1").ask()).status == 200

    asyncio.run(scene())


def test_a_body_of_two_lengths_is_rejected() -> None:
    client = Client(middleware(), b"dropped", length=10)
    client.scope["headers"].append((b"transfer-encoding", b"chunked"))
    assert (ask(client).status, client.read_before, client.error["code"]) == (400, 0, "conflicting_headers")


def test_a_client_that_leaves_while_it_sends_is_forgotten() -> None:
    here = middleware()
    client = Client(here, b"a")
    client.incoming = [{"type": "http.disconnect"}]
    assert ask(client).answered == []
    assert (here.open_requests, here.metrics.value("dragoman_dropped_total", reason="gone")) == (0, 1)
    assert here.metrics.value("dragoman_requests_total", path="/v1/translate", status="499") == 1


def test_more_requests_than_places_are_turned_away_before_they_are_read() -> None:
    async def scene() -> tuple[list[int], Client, Client]:
        inside, leave = asyncio.Semaphore(0), asyncio.Event()

        async def slow(scope: Scope, receive: Receive, send: Send) -> None:
            inside.release()
            await leave.wait()
            await echo(scope, receive, send)

        here = middleware(app=slow)
        tasks = [asyncio.create_task(Client(here, b"a").ask()) for _ in range(2)]
        await inside.acquire()
        await inside.acquire()
        refused = await Client(here, b"dropped").ask()
        leave.set()
        first = [client.status for client in await asyncio.gather(*tasks)]
        assert here.open_requests == 0
        return first, refused, await Client(here, b"a").ask()

    first, refused, later = asyncio.run(scene())
    assert (first, refused.status, refused.read_before, later.status) == ([200, 200], 429, 0, 200)
    assert refused.headers[b"retry-after"] == b"1"
    assert refused.error["code"] == "too_many_requests"


@pytest.mark.parametrize(("size", "status"), [(LIMITS.max_bytes, 429), (SMALL_BODY_BYTES, 200)])
def test_large_bodies_share_the_memory_and_small_ones_need_none_of_it(size: int, status: int) -> None:
    here = middleware()
    here.large_body_bytes = 4 * LIMITS.max_bytes - 100  # as if others held it
    assert ask(Client(here, b"x" * size)).status == status
    assert here.large_body_bytes == 4 * LIMITS.max_bytes - 100
    here.large_body_bytes = 0
    assert ask(Client(here, b"x" * size, length=size)).status == 200
    assert here.large_body_bytes == 0


def test_the_log_has_only_paths_that_are_ours() -> None:
    told: list[Sequence[Any]] = []
    here = middleware(log=lambda *words: told.append(words))
    ask(Client(here, b"secret"))
    ask(Client(here, b"secret", path="/my secret"))
    assert [words[:3] for words in told] == [("POST", "/v1/translate", 200), ("?", "other", 200)]
    assert "secret" not in here.metrics.text()


def test_an_error_that_nobody_expected_counts_as_500() -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise ZeroDivisionError

    here = middleware(app=broken)
    client = ask(Client(here, b"a"))
    assert (client.status, client.error["code"]) == (500, "internal_error")
    assert here.metrics.value("dragoman_requests_total", path="/v1/translate", status="500") == 1
    assert here.open_requests == 0
