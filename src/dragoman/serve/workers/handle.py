"""A worker process as the main process sees it: its channel, its requests, and its heartbeat."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from starlette.types import Scope

from dragoman.child_process import module_command
from dragoman.errors import DragomanError, describe_exit
from dragoman.serve.file_store import FileStore
from dragoman.serve.models.served_model import ModelSummary
from dragoman.serve.workers.channel import Channel, Frame
from dragoman.serve.workers.exchange import Exchange, request_fields

EXIT_SECONDS: Final = 2.0  # for a process to end after its channel
MODULE: Final = "dragoman.serve.workers.process"
PING_SECONDS: Final = 1.0
MAX_MISSED_PINGS: Final = 20  # a worker that has not answered so many is killed
REQUEST_WEIGHT: Final = 1_000  # bytes: the cost of a request besides its body, for the choice of a worker
METRICS_SCOPE: Final[dict[str, Any]] = {
    "method": "GET",
    "path": "/metrics",
    "scheme": "http",
    "http_version": "1.1",
    "root_path": "",
    "raw_path": b"/metrics",
    "query_string": b"",
    "headers": [],
}


class WorkerError(DragomanError):
    """A worker process that cannot be started."""

    default_code = "worker_failed"


class WorkerProcess:
    """A worker: starting, then ready, then dead."""

    def __init__(self, files: FileStore, note: Callable[[str], None]) -> None:
        self.number, self.files, self.note = 0, files, note
        self.ready = False
        self.used = 0.0  # when it got its last request
        self.ready_time: float | None = None
        self.models: list[ModelSummary] = []
        self.paths: list[str] = []
        self.error: WorkerError | None = None  # why it could not start
        self.exchanges: dict[int, Exchange] = {}
        self.n_exchanges = self.missed_pings = 0
        self.reload_on_ready = False
        self.ending = ""  # why it was killed

    async def spawn(self) -> None:
        """Start the process, which imports everything, then waits for `start`."""
        own, other = socket.socketpair()
        with other:
            descriptor = other.fileno()
            self.process = await asyncio.create_subprocess_exec(
                *worker_command(),
                str(descriptor),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(descriptor,),
                start_new_session=True,  # Ctrl-C is for the main process
            )
        self.channel = await Channel.open(own)

    def start(self, number: int, **options: Any) -> None:
        """Have the process load its models; it is worker `number` from now on."""
        self.number = number
        self.channel.send("start", **options)

    async def run(self, on_ready: Callable[[], None]) -> str:
        """Handle the frames of the worker until it ends; return how it ended."""
        while (frame := await self.channel.receive()) is not None:
            if frame.fields["type"] == "ready":
                self.ready, self.ready_time = True, time.monotonic()
                self.models = [ModelSummary(*one) for one in frame.fields["models"]]
                self.paths = frame.fields["paths"]
                if self.reload_on_ready:
                    self.channel.send("reload")
                on_ready()
            else:
                await self.handle(frame)
        self.ready = False
        for exchange in self.exchanges.values():
            exchange.add(None)
        self.channel.close()
        try:
            code = await asyncio.wait_for(self.process.wait(), EXIT_SECONDS)
        except TimeoutError:  # it is stuck
            self.kill()
            code = await self.process.wait()
        return self.ending or describe_exit(code)

    async def handle(self, frame: Frame) -> None:
        """Handle a frame of the worker."""
        fields = frame.fields
        match fields["type"]:
            case "reply":
                exchange = self.exchanges.get(fields["id"])
                if exchange is not None:
                    exchange.add(frame)
            case "pong":
                self.missed_pings = 0
                if not fields["alive"]:
                    self.kill("its translation thread ended")
            case "store":
                key = await self.files.keep(fields["name"], frame.body, fields["client"])
                self.channel.send("stored", ref=fields["ref"], key=key)
            case "note":
                self.note(f"worker {self.number}: {fields['text']}")
            case "failed":
                self.error = WorkerError(fields["message"], code=fields["code"])
                self.channel.close()

    @property
    def load(self) -> int:
        """What the worker has to do: the size of its open requests."""
        return sum(exchange.weight for exchange in self.exchanges.values())

    def open(self, scope: Scope, body: bytes, seconds: float) -> Exchange:
        """Send a request; `seconds` are left until its deadline."""
        self.n_exchanges += 1
        self.used = time.monotonic()
        exchange = self.exchanges[self.n_exchanges] = Exchange(self.n_exchanges, len(body) + REQUEST_WEIGHT)
        self.channel.send("request", body, id=exchange.number, **request_fields(scope, seconds))
        return exchange

    def close(self, exchange: Exchange, complete: bool) -> None:
        """Forget a request; the worker stops working for one that is not complete."""
        del self.exchanges[exchange.number]
        if not complete:
            self.channel.send("cancel", id=exchange.number)

    async def metrics(self, timeout: float) -> str:
        """The worker's metrics in the Prometheus text format; empty if it does not answer in time."""
        exchange = self.open(METRICS_SCOPE, b"", timeout)
        part: Frame | None = None
        try:
            with suppress(TimeoutError):
                part = await asyncio.wait_for(exchange.next(asyncio.get_running_loop().create_future()), timeout)
        finally:
            self.close(exchange, part is not None)
        return "" if part is None else part.body.decode()

    async def check_heartbeat(self) -> None:
        """Ping the worker for as long as it is ready; kill it if it does not answer."""
        while self.ready:
            self.channel.send("ping")
            self.missed_pings += 1
            await asyncio.sleep(PING_SECONDS)
            if self.missed_pings > MAX_MISSED_PINGS:
                self.kill(f"it did not answer for {MAX_MISSED_PINGS * PING_SECONDS:.0f} s")
                return

    def reload(self) -> None:
        """Reload models that have changed, at once or when the worker is ready."""
        if self.ready:
            self.channel.send("reload")
        else:
            self.reload_on_ready = True

    def end(self) -> None:
        """Let the process end by itself: it sees that the channel is closed."""
        self.ready = False
        self.channel.close()

    def kill(self, reason: str = "") -> None:
        """Kill the process, if it still runs."""
        self.ready = False
        if self.process.returncode is None:
            self.ending = self.ending or reason
            with suppress(ProcessLookupError):
                self.process.kill()


def worker_command() -> list[str]:
    """The command of a worker."""
    return module_command(MODULE)
