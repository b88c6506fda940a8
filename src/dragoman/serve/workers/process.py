"""A worker process: load the models, and answer the requests that come over the channel.

It ends when the channel is closed, that is, with the main process. Signals are for the main process: a terminal or
systemd sends them to both.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import traceback
import warnings
from dataclasses import replace
from functools import partial
from typing import Final

from dragoman.engines.native import default_threads
from dragoman.errors import DragomanError, shortage, warning_printer
from dragoman.serve.app import create_api
from dragoman.serve.file_store import FileStore
from dragoman.serve.http.access import Access
from dragoman.serve.models.reload import Reloader
from dragoman.serve.options import ServerOptions
from dragoman.serve.server import tune_interpreter
from dragoman.serve.service import Service
from dragoman.serve.workers.channel import Channel, Frame
from dragoman.serve.workers.exchange import RequestRunner

IGNORED_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class WorkerEnd:
    """The worker's end of the channel."""

    def __init__(self, channel: Channel) -> None:
        self.channel, self.loop = channel, asyncio.get_running_loop()
        self.service: Service | None = None
        self.reloader: Reloader | None = None
        self.runner: RequestRunner | None = None
        self.storing: dict[int, asyncio.Future[str]] = {}
        self.n_stored = 0

    async def run(self) -> None:
        """Handle frames until the channel is closed."""
        tasks = set[asyncio.Task[None]]()
        while (frame := await self.channel.receive()) is not None:
            match frame.fields["type"]:
                case "start":
                    tasks.add(asyncio.create_task(self.start(frame)))
                case "request" if self.runner is not None:
                    self.runner.start(frame)
                case "continue" | "cancel" as kind if self.runner is not None:
                    self.runner.notify(kind, frame.fields["id"])
                case "ping":
                    alive = self.service is not None and self.service.worker.alive
                    self.channel.send("pong", alive=alive)
                case "reload" if self.reloader is not None:
                    self.reloader.start()
                case "stored":
                    self.storing.pop(frame.fields["ref"]).set_result(frame.fields["key"])

    async def start(self, frame: Frame) -> None:
        """Load the models, and report that the worker is ready, or why it cannot be."""
        try:
            await self.load(frame)
        except Exception as error:
            if not isinstance(error, DragomanError | OSError) and shortage(error) is None:
                traceback.print_exc()
            code = error.code if isinstance(error, DragomanError) else "worker_failed"
            self.channel.send("failed", message=str(error) or type(error).__name__, code=code)

    async def load(self, frame: Frame) -> None:
        """Load the models, and report that the worker is ready."""
        fields = frame.fields
        options = ServerOptions.from_json(fields["options"])
        if options.threads is None:
            options = replace(options, threads=max(1, default_threads() // fields["workers"]))
        service = await asyncio.to_thread(options.create_service, self.note if fields["replacement"] else None)
        app, paths = create_api(service, FileStore(1), self.keep_file)
        self.service, self.reloader = service, options.create_reloader(service, self.note)
        self.runner = RequestRunner(self.channel, app, Access(tokens=fields["tokens"]))
        service.start()
        tune_interpreter()
        self.channel.send("ready", models=[one.summary for one in service.models.values()], paths=sorted(paths))

    async def keep_file(self, name: str, content: bytes, client: str) -> str:
        """Store a translated file in the main process: any worker's client may download it."""
        self.n_stored += 1
        ref, self.storing[self.n_stored] = self.n_stored, self.loop.create_future()
        self.channel.send("store", content, ref=ref, name=name, client=client)
        return await self.storing[ref]

    def note(self, text: str) -> None:
        """Have the main process print a note; may be called from any thread."""
        self.loop.call_soon_threadsafe(partial(self.channel.send, "note", text=text))


async def serve_channel(end: socket.socket) -> None:
    """Run a worker on its end of the channel."""
    worker = WorkerEnd(await Channel.open(end))
    warnings.showwarning = warning_printer(worker.note, sys.stderr.write)
    await worker.run()


def main(descriptor: int) -> None:
    """Run a worker on the given descriptor, then end the process at once: threads may still be translating."""
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    end = socket.socket(fileno=descriptor)
    end.set_inheritable(False)
    try:
        asyncio.run(serve_channel(end))
    finally:
        sys.stderr.flush()
        os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
