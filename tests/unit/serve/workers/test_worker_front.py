"""The main process's application, with workers in the test's own event loop: what clients get, whoever dies."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.serve.http.access import Access
from dragoman.serve.http.middleware import CLIENT, DEADLINE
from dragoman.serve.limits import Limits
from dragoman.serve.options import ServerOptions
from dragoman.serve.workers.channel import Channel
from dragoman.serve.workers.exchange import RequestRunner
from dragoman.serve.workers.front import Front
from dragoman.serve.workers.handle import WorkerProcess
from dragoman.serve.workers.pool import WorkerPool

GUARD = 10.0  # seconds after which a test fails: what it waits for comes in milliseconds
LINES = [(b"content-type", b"application/x-ndjson")]


class DeadProcess:
    """A process that has been killed."""

    pid, returncode = 4711, -9

    async def wait(self) -> int:
        return self.returncode


class LocalWorker:
    """A worker in this process: an ASGI application behind a real channel."""

    def __init__(self, pool: WorkerPool, number: int, app: ASGIApp) -> None:
        self.pool, self.number, self.app = pool, number, app
        self.started = asyncio.Event()  # it has got a request

    async def open(self) -> LocalWorker:
        own, other = socket.socketpair()
        self.handle = WorkerProcess(self.pool.files, self.pool.note)
        self.handle.process = DeadProcess()  # type: ignore[assignment]
        self.handle.number, self.handle.channel = self.number, await Channel.open(own)
        self.channel = await Channel.open(other)
        self.pool.workers[self.number] = self.handle
        self.handle.ready = True
        self.tasks = [asyncio.ensure_future(self.handle.run(lambda: None)), asyncio.ensure_future(self.run())]
        return self

    async def run(self) -> str:
        runner = RequestRunner(self.channel, self.app, Access(tokens=["secret"]))
        while (frame := await self.channel.receive()) is not None:
            if frame.fields["type"] == "request":
                runner.start(frame)
                self.started.set()
            else:
                runner.notify(frame.fields["type"], frame.fields["id"])
        return ""

    async def die(self) -> None:
        self.channel.close()
        await self.tasks[0]


class Client:
    """One request by hand."""

    def __init__(self, body: bytes = b"", method: str = "POST", path: str = "/v1/translate") -> None:
        self.scope: Scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "root_path": ""}
        self.scope |= {"scheme": "http", "http_version": "1.1", "query_string": b"a=%C3%A9", "client": ("10.0.0.7", 99)}
        self.scope |= {"server": ("127.0.0.1", 8000), "headers": [(b"x-name", b"caf\xe9")], CLIENT: "token 1"}
        self.scope[DEADLINE] = asyncio.get_running_loop().time() + GUARD
        self.body, self.received = body, False
        self.left, self.answered = asyncio.Event(), list[Message]()
        self.reads = asyncio.Event()  # cleared, it does not read its reply
        self.reads.set()

    async def receive(self) -> Message:
        if not self.received:
            self.received = True
            return {"type": "http.request", "body": self.body, "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.answered.append(message)
        await self.reads.wait()

    async def ask(self, app: ASGIApp) -> tuple[int, bytes]:
        await app(self.scope, self.receive, self.send)
        return self.answered[0]["status"], b"".join(message.get("body", b"") for message in self.answered[1:])


def with_workers(test: Callable[[Front, list[LocalWorker]], Awaitable[None]], *apps: ASGIApp) -> None:
    """Run a test with one worker for each application."""

    async def run() -> None:
        options = ServerOptions({"m": Path("m")}, limits=Limits(timeout=GUARD))
        pool = WorkerPool(len(apps), options, note=lambda _: None)
        workers = [await LocalWorker(pool, number, app).open() for number, app in enumerate(apps, 1)]
        async with asyncio.timeout(GUARD):
            await test(Front(pool), workers)
        for worker in workers:
            await worker.die()
            await worker.tasks[1]

    asyncio.run(run())


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with what it was asked."""
    body = (await receive())["body"]
    told = {name: str(scope[name]) for name in ("method", "path", "query_string", "headers", "client", CLIENT)}
    told["left"] = str(0 < scope[DEADLINE] - asyncio.get_running_loop().time() <= GUARD)
    await send({"type": "http.response.start", "status": 207, "headers": [(b"x-reply", b"\xe9")]})
    await send({"type": "http.response.body", "body": json.dumps(told).encode() + body})


async def never(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers nothing."""
    await asyncio.Event().wait()


def parts(*bodies: bytes, headers: list[tuple[bytes, bytes]]) -> ASGIApp:
    """An application that answers in parts, and never ends."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for body in bodies:
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await asyncio.Event().wait()

    return app


def test_a_request_and_its_reply_pass_unchanged() -> None:
    async def test(front: Front, workers: list[LocalWorker]) -> None:
        client = Client(b"\x00body")
        status, body = await client.ask(front)
        assert status == 207
        assert client.answered[0]["headers"] == [(b"x-reply", b"\xe9")]
        assert body.endswith(b"\x00body")
        assert json.loads(body.removesuffix(b"\x00body")) == {
            "method": "POST",
            "path": "/v1/translate",
            "query_string": "b'a=%C3%A9'",
            "headers": r"[(b'x-name', b'caf\xe9')]",
            "client": "('10.0.0.7', 99)",
            CLIENT: "token 1",
            "left": "True",
        }
        assert not workers[0].handle.exchanges

    with_workers(test, echo)


def test_a_worker_that_dies_answers_with_an_error_and_the_others_go_on() -> None:
    async def test(front: Front, workers: list[LocalWorker]) -> None:
        lost = asyncio.ensure_future(Client().ask(front))
        await workers[0].started.wait()
        status, _ = await Client().ask(front)  # the other worker has less to do
        assert status == 207
        await workers[0].die()
        status, body = await lost
        assert (status, json.loads(body)["error"]["code"]) == (503, "worker_died")
        assert [(await Client().ask(front))[0] for _ in range(3)] == [207] * 3

    with_workers(test, never, echo)


def test_without_a_worker_requests_wait_for_one_until_their_deadline() -> None:
    async def test(front: Front, workers: list[LocalWorker]) -> None:
        workers[0].handle.ready = False
        late = Client()
        late.scope[DEADLINE] = asyncio.get_running_loop().time() + 0.01
        status, body = await late.ask(front)
        assert (status, json.loads(body)["error"]["code"]) == (503, "no_worker")
        status, _ = await Client(method="GET", path="/ready").ask(front)
        assert status == 503
        waiting = asyncio.ensure_future(Client().ask(front))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done()
        workers[0].handle.ready = True
        front.pool.changed.set()
        assert (await waiting)[0] == 207
        for method in ("GET", "HEAD"):
            assert (await Client(method=method, path="/ready").ask(front))[0] == 200
            assert (await Client(method=method, path="/health").ask(front))[0] == 200

    with_workers(test, echo)


def test_a_worker_that_dies_within_a_reply_leaves_it_incomplete_or_ends_it_with_an_error() -> None:
    async def test(front: Front, workers: list[LocalWorker]) -> None:
        progress, plain = Client(), Client()
        replies = [asyncio.ensure_future(progress.ask(front)), asyncio.ensure_future(plain.ask(front))]
        while len(progress.answered) < 2 or len(plain.answered) < 2:
            await asyncio.sleep(0)
        for worker in workers:
            await worker.die()
        await asyncio.gather(*replies)
        first, last = (await replies[0])[1].splitlines()
        assert first == b'{"progress": 1}'
        assert json.loads(last)["error"]["code"] == "worker_died"
        assert not progress.answered[-1].get("more_body")
        assert plain.answered[-1]["more_body"]  # uvicorn closes the connection

    with_workers(test, parts(b'{"progress": 1}\n', headers=LINES), parts(b"half", headers=[]))


def test_a_slow_client_holds_the_worker_not_the_memory_of_the_main_process() -> None:
    async def test(front: Front, workers: list[LocalWorker]) -> None:
        client = Client()
        client.reads.clear()
        asking = asyncio.ensure_future(client.ask(front))
        while not client.answered:
            await asyncio.sleep(0)
        (exchange,) = workers[0].handle.exchanges.values()
        for _ in range(200):
            await asyncio.sleep(0)
        assert len(exchange.parts) == 0  # one part was passed on; the worker waits with the next
        client.reads.set()
        while len(client.answered) < 5:
            await asyncio.sleep(0)
        assert [message["body"] for message in client.answered[1:]] == [b"a", b"b", b"c", b"d"]
        client.left.set()
        await asking

    with_workers(test, parts(b"a", b"b", b"c", b"d", headers=[]))


def test_a_client_that_leaves_cancels_its_request() -> None:
    left = asyncio.Event()

    async def waits(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        assert (await receive())["type"] == "http.disconnect"
        left.set()

    async def test(front: Front, workers: list[LocalWorker]) -> None:
        client = Client()
        asking = asyncio.ensure_future(client.ask(front))
        await workers[0].started.wait()
        client.left.set()
        await left.wait()
        await asyncio.wait({asking})
        assert client.answered == []
        assert not workers[0].handle.exchanges

    with_workers(test, waits)


def test_an_unexpected_error_in_a_worker_is_its_reply() -> None:
    async def fails(*_: Any) -> None:
        raise ZeroDivisionError("secret")

    async def test(front: Front, workers: list[LocalWorker]) -> None:
        status, body = await Client().ask(front)
        assert (status, json.loads(body)["error"]["code"]) == (500, "internal_error")
        assert b"secret" not in body

    with_workers(test, fails)


def test_the_worker_with_the_least_to_do_is_chosen_then_the_one_that_rested_longest() -> None:
    async def test(front: Front, workers: list[LocalWorker]) -> None:
        large = asyncio.ensure_future(Client(bytes(5000)).ask(front))
        while not any(worker.handle.exchanges for worker in workers):
            await asyncio.sleep(0)
        small = [asyncio.ensure_future(Client().ask(front)) for _ in range(4)]
        while sum(len(worker.handle.exchanges) for worker in workers) < 5:
            await asyncio.sleep(0)
        assert [len(worker.handle.exchanges) for worker in workers] == [1, 4]  # four small ones weigh less
        for task in (large, *small):
            task.cancel()
        await asyncio.gather(large, *small, return_exceptions=True)
        assert [worker.handle.load for worker in workers] == [0, 0]
        assert front.pool.choose() is workers[0].handle

    with_workers(test, never, never)


def test_a_file_of_any_worker_can_be_downloaded_after_its_death() -> None:
    async def test(front: Front, workers: list[LocalWorker]) -> None:
        workers[0].channel.send("store", b"translated", ref=1, name="page.de.html", client="10.0.0.7")
        while not front.pool.files.files:
            await asyncio.sleep(0)
        await workers[0].die()
        (key,) = front.pool.files.files
        status, body = await Client(method="GET", path=f"/download_file/{key}.page.de.html").ask(front)
        assert (status, body) == (200, b"translated")
        assert (await Client(method="GET", path="/download_file/nothing").ask(front))[0] == 404

    with_workers(test, never)
