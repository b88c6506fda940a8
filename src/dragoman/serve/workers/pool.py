"""The workers of a server: start them, choose one for each request, and replace those that die."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from dragoman.serve.errors import RequestError
from dragoman.serve.file_store import FileStore
from dragoman.serve.limits import MAX_LARGE_BODIES
from dragoman.serve.metrics import RequestMetrics
from dragoman.serve.models.served_model import ModelSummary
from dragoman.serve.options import ServerOptions
from dragoman.serve.workers.handle import EXIT_SECONDS, WorkerError, WorkerProcess

STABLE_SECONDS: Final = 5.0  # a worker that was ready for so long is replaced at once
FIRST_DELAY, MAX_DELAY = 0.5, 30.0  # seconds until the next attempt, doubled each time
START_POLL_SECONDS: Final = 0.1


class WorkerPool:
    """The worker processes, each replaced when it dies."""

    def __init__(
        self, count: int, options: ServerOptions, tokens: tuple[str, ...] = (), note: Callable[[str], None] = print
    ) -> None:
        self.count, self.limits, self.note = count, options.limits, note
        self.first_frame: dict[str, Any] = {"options": options.to_json(), "workers": count, "tokens": tokens}
        self.files = FileStore(MAX_LARGE_BODIES * options.limits.max_bytes)
        self.workers: dict[int, WorkerProcess] = {}  # by number, from 1; the running ones
        self.spare: WorkerProcess | None = None  # has imported everything, so that a dead worker is replaced sooner
        self.spare_task: asyncio.Task[None] | None = None
        self.tasks: list[asyncio.Task[None]] = []
        self.changed = asyncio.Event()  # a worker became ready
        self.closing = asyncio.Event()
        self.shutting_down = False
        self.paths: set[str] = set()  # of the workers' application
        self.models: list[ModelSummary] = []
        self.started = False  # all workers have been ready once
        self.metrics = RequestMetrics()
        self.restarts = self.metrics.counter("worker_restarts", "Workers replaced, by worker.", "worker")
        self.metrics.add_gauge("dragoman_workers_ready", "Workers that are ready.", lambda: len(self.ready_workers))

    @property
    def ready_workers(self) -> list[WorkerProcess]:
        """The workers that take requests."""
        return [worker for worker in self.workers.values() if worker.ready]

    async def start(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Start all workers, and wait until they are ready; raise if one cannot be started."""
        self.tasks = [asyncio.create_task(self.keep(number)) for number in range(1, self.count + 1)]
        while len(self.ready_workers) < self.count and not stopped():
            done, _ = await asyncio.wait(self.tasks, timeout=START_POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # a task ends only with an error
        self.started = True
        for worker in self.ready_workers:
            self.models = worker.models
            self.paths |= set(worker.paths)

    async def keep(self, number: int) -> None:
        """Run a worker, and replace it when it dies; raise if it cannot be started in the first place."""
        delay = 0.0
        while not self.closing.is_set():
            try:
                worker = self.workers[number] = await self.take_spare()
            except OSError as error:  # the system allows no more processes
                if not self.started:
                    raise
                delay = next_delay(delay)
                self.note(f"worker {number} cannot be started: {error}; trying again in {delay:g} s")
            else:
                delay = await self.run_once(worker, number, delay)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.closing.wait(), delay)

    async def run_once(self, worker: WorkerProcess, number: int, delay: float) -> float:
        """Run a worker until it ends; return the delay until the next attempt, given that of the last one."""
        if self.closing.is_set():
            worker.end()
        worker.start(number, replacement=self.started, **self.first_frame)
        ending = await self.run(worker)
        del self.workers[number]
        if self.closing.is_set():
            return 0.0
        was_ready = worker.ready_time is not None
        if not self.started and not was_ready:
            raise worker.error or WorkerError(f"worker {number} ended while it loaded the models: {ending}")
        stable = worker.ready_time is not None and time.monotonic() - worker.ready_time >= STABLE_SECONDS
        delay = 0.0 if stable else next_delay(delay)
        what = "died" if was_ready else "cannot be started"
        when = f"in {delay:g} s" if delay else "now"
        name = f"worker {number} (process {worker.process.pid})"
        self.note(f"{name} {what}: {worker.error or ending}; restarting it {when}")
        self.restarts.labels(number).inc()
        return delay

    async def take_spare(self) -> WorkerProcess:
        """A process for a new worker: the spare one if it is alive."""
        worker, self.spare = self.spare, None
        return worker if worker is not None and worker.process.returncode is None else await self.spawn()

    async def spawn(self) -> WorkerProcess:
        """Start a process that waits to become a worker."""
        worker = WorkerProcess(self.files, self.note)
        await worker.spawn()
        return worker

    async def prepare_spare(self) -> None:
        """Keep a spare process ready; started once all workers run, so that it does not slow them down."""
        if self.spare is None and not self.closing.is_set():
            with suppress(OSError):  # the next worker is then started from scratch
                self.spare = await self.spawn()

    async def run(self, worker: WorkerProcess) -> str:
        """Run one worker until it ends; return how it ended."""
        heartbeat: list[asyncio.Task[None]] = []

        def on_ready() -> None:
            heartbeat.append(asyncio.create_task(worker.check_heartbeat()))
            self.changed.set()
            self.note(f"worker {worker.number} (process {worker.process.pid}) is ready")
            if len(self.ready_workers) == self.count:
                self.spare_task = asyncio.create_task(self.prepare_spare())

        try:
            return await worker.run(on_ready)
        finally:
            for task in heartbeat:
                task.cancel()

    def choose(self) -> WorkerProcess | None:
        """The worker with the least to do; None if no worker is ready."""
        return min(self.ready_workers, key=lambda worker: (worker.load, worker.used), default=None)

    async def wait(self, deadline: float) -> WorkerProcess:
        """Wait for a worker until the deadline, in the event loop's time."""
        while (worker := self.choose()) is None:
            self.changed.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self.changed.wait()
            except TimeoutError:
                message = "no worker is ready; the server is restarting its workers; try again in a moment"
                raise RequestError(503, "no_worker", message, 5) from None
        return worker

    def reload(self) -> None:
        """Have all workers reload models that have changed."""
        for worker in self.workers.values():
            worker.reload()

    async def close(self) -> None:
        """End all workers."""
        self.closing.set()
        if self.spare_task is not None:
            await asyncio.wait({self.spare_task})
        if self.spare is not None:
            self.spare.end()
            self.spare.kill()  # it may still be importing
            await self.spare.process.wait()
        for worker in self.workers.values():
            worker.end()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=2 * EXIT_SECONDS)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for worker in self.workers.values():
            worker.kill()


def next_delay(delay: float) -> float:
    """The delay after a failed attempt, given the last one."""
    return min(MAX_DELAY, max(FIRST_DELAY, 2 * delay))
