"""The CUDA engine in a process of its own, so that its host code does not share an interpreter with anything else.

A step of a small model takes the device less time than the host code around it. In one process, that code waits for
the interpreter while texts are split, tokenized and assembled, and the device waits for both.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import weakref
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final

from dragoman.arrays import concatenate
from dragoman.child_process import module_command
from dragoman.engines.base import Capabilities, SearchCall, check_batch, check_supported
from dragoman.engines.cuda.messages import Answer, Cancel, EngineOptions, Failure, Ready, Request, receive, send
from dragoman.engines.specs import CUDA
from dragoman.errors import DragomanError, describe_exit
from dragoman.search.hypotheses import HypothesisTable
from dragoman.search.types import Ids, RecordedHead, Search, StopFlag

if TYPE_CHECKING:
    from dragoman.search.constraints.tables import BatchConstraints

MODULE: Final = "dragoman.engines.cuda.worker"
POLL_SECONDS: Final = 0.05  # between two looks at a stop flag
EXIT_SECONDS: Final = 5.0  # for a process to end after its socket


class EngineProcessError(DragomanError, RuntimeError):
    """An engine process that ended while it was needed."""

    default_code = "engine_died"


class Child:
    """The child process, its socket, and the requests that it has not answered.

    Nothing here refers to the `EngineProcess`, which ends the child when it is no longer used.
    """

    def __init__(self, options: EngineOptions) -> None:
        own, other = socket.socketpair()
        with other:
            self.process = subprocess.Popen(
                [*module_command(MODULE), str(other.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # translations may go to this process's
                pass_fds=(other.fileno(),),
                start_new_session=True,  # Ctrl-C is for this process
            )
        self.end, self.owner = own, os.getpid()
        self.lock = threading.Lock()  # of what is sent, and of `waiting`
        self.loaded: Future[Ready] = Future()
        self.waiting: dict[int, Future[HypothesisTable]] = {}
        self.died: EngineProcessError | None = None
        self.numbers = count(1)
        with suppress(OSError):  # it is dead already, as the thread will find
            send(self.end, options)
        self.thread = threading.Thread(target=self._read, daemon=True, name="engine-process")
        self.thread.start()

    def submit(
        self, sources: Ids, search: Search, prefixes: Ids | None, record: Sequence[RecordedHead]
    ) -> tuple[int, Future[HypothesisTable]]:
        """Send a request without waiting for its result."""
        rows = concatenate(sources), None if prefixes is None else concatenate(prefixes)
        future: Future[HypothesisTable] = Future()
        with self.lock:
            if self.died is not None:
                raise self.died
            number = next(self.numbers)
            self.waiting[number] = future
            with suppress(OSError):  # it has died, as `_read` reports
                send(self.end, Request(number, rows[0], search, rows[1], tuple(record)))
        return number, future

    def cancel(self, numbers: Iterable[int]) -> None:
        """Forget requests; the child stops working for those that it still has."""
        with self.lock, suppress(OSError):
            for number in numbers:
                if self.waiting.pop(number, None) is not None:
                    send(self.end, Cancel(number))

    def close(self) -> None:
        """End the child; it has nothing to save."""
        if os.getpid() != self.owner:  # a fork of the owner has the socket too
            return
        with suppress(OSError):
            self.end.shutdown(socket.SHUT_RDWR)  # the thread that reads ends as well
        self.process.kill()
        self.process.wait()

    def _read(self) -> None:
        """Hand over results until the child ends."""
        while (message := receive(self.end)) is not None:
            match message:
                case Ready():
                    self.loaded.set_result(message)
                case Answer(number=0, found=Failure() as failure):
                    self.loaded.set_exception(failure.to_error())
                case Answer(number, found):
                    with self.lock:
                        future = self.waiting.pop(number, None)
                    if future is None:
                        continue  # canceled
                    if isinstance(found, Failure):
                        future.set_exception(found.to_error())
                    else:
                        future.set_result(found.table())
        try:
            code = self.process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:  # it is stuck
            self.process.kill()
            code = self.process.wait()
        with self.lock:
            self.died = EngineProcessError(
                f"the process of the engine 'cuda' ended unexpectedly: {describe_exit(code)}; memory may be full: "
                "translate again with a smaller batch"
            )
            lost, self.waiting = [*self.waiting.values()], {}
            self.end.close()
        if not self.loaded.done():
            self.loaded.set_exception(self.died)
        for future in lost:
            future.set_exception(self.died)


class EngineProcess:
    """A `CudaEngine` in a child process: the same hypotheses, but no lexical constraints.

    Several searches can be queued (`search_all`), and several threads can search at once: the child takes requests in
    order, and never waits for this process while there are any. The child ends with this object, or this process.
    """

    name = "cuda"
    threads = None
    batch = CUDA.preferred_batch

    def __init__(self, options: EngineOptions) -> None:
        """Start the child; `wait` until it has loaded the model."""
        self.precision = options.precision
        self.child = Child(options)
        self.end = weakref.finalize(self, self.child.close)

    @property
    def ready(self) -> bool:
        """Whether the model is loaded, or could not be."""
        return self.child.loaded.done()

    @property
    def alive(self) -> bool:
        """Whether the child still runs, or nobody has noticed yet that it does not."""
        return self.child.died is None

    def wait(self) -> Ready:
        """Wait for the model; raise the child's error if it cannot be loaded."""
        return self.child.loaded.result()

    def close(self) -> None:
        """End the child."""
        self.end()

    @property
    def capabilities(self) -> Capabilities:
        """Those of the engine, without constraints."""
        return replace(CUDA, max_beam=self.wait().max_beam, constraints=False, concurrent=True)

    def search(
        self,
        sources: Ids,
        search: Search,
        prefixes: Ids | None = None,
        constraints: BatchConstraints | None = None,
        stop: StopFlag | None = None,
        record: Sequence[RecordedHead] = (),
    ) -> HypothesisTable:
        """Return the best hypotheses for each source, best first."""
        (found,) = self.search_all([SearchCall(sources, search, prefixes, constraints, stop, record)])
        return found

    def search_all(self, calls: Iterable[SearchCall]) -> list[HypothesisTable]:
        """The results of several calls of `search`; all are queued at once."""
        vocabulary = self.wait().vocabulary
        queued: dict[int, tuple[SearchCall, Future[HypothesisTable]]] = {}
        try:
            for call in calls:
                check_supported(self, call.search, call.prefixes, call.constraints)
                check_batch(call.sources, call.prefixes, call.constraints, vocabulary)
                number, future = self.child.submit(call.sources, call.search, call.prefixes, call.record)
                queued[number] = call, future
            return [wait_for(future, call.stop) for call, future in queued.values()]
        finally:
            self.child.cancel(queued)  # those that are left after an error


def wait_for(future: Future[HypothesisTable], stop: StopFlag | None) -> HypothesisTable:
    """The result of a request; raise SearchInterruptedError soon after `stop` is set."""
    while stop is not None:
        stop.check()
        with suppress(TimeoutError):
            return future.result(POLL_SECONDS)
    return future.result()
