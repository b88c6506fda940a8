"""Map a function over chunks in several processes: results in order, and a bounded number in flight."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any, TypeVar

from dragoman.errors import DataError

T = TypeVar("T")
WORKER_DIED = (
    "a worker process died. Memory may be full, or a script that uses workers does not guard its work with "
    "`if __name__ == '__main__':` (workers import the script). To avoid workers, use processes=1 and data.workers=1"
)


class Workers:
    """`processes` worker processes, started on first use; with 1, the work is done in this process."""

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self.pool: ProcessPoolExecutor | None = None
        self.lock = threading.Lock()

    def map(self, work: Callable[..., T], arguments: Iterable[tuple[Any, ...]]) -> Iterator[T]:
        """work(*a) for each a of `arguments`, in order."""
        if self.processes == 1:
            for each in arguments:
                yield work(*each)
            return
        pending: deque[Future[T]] = deque()
        try:
            for each in arguments:
                pending.append(self._submit(work, *each))
                if len(pending) > 2 * self.processes:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool:
            raise DataError(WORKER_DIED, code="worker_died") from None
        finally:
            for future in pending:
                future.cancel()

    def call(self, work: Callable[..., T], *arguments: Any) -> T:
        """work(*arguments), in a worker if there are any."""
        if self.processes == 1:
            return work(*arguments)
        try:
            return self._submit(work, *arguments).result()
        except BrokenProcessPool:
            raise DataError(WORKER_DIED, code="worker_died") from None

    def close(self) -> None:
        """Stop the workers."""
        if self.pool is not None:
            self.pool.shutdown(wait=True, cancel_futures=True)

    def _submit(self, work: Callable[..., T], *arguments: Any) -> Future[T]:
        with self.lock, block_interrupts():
            if self.pool is None:
                # Spawned, not forked: a fork copies locks held by running threads.
                spawn = multiprocessing.get_context("spawn")
                self.pool = ProcessPoolExecutor(self.processes, spawn, initializer=exit_with_parent)
            return self.pool.submit(work, *arguments)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def block_interrupts() -> Iterator[None]:
    """Delay Ctrl-C. Processes started inside never receive it: their parent does, and stops them."""
    resource_tracker.ensure_running()  # starting it unblocks the signal, so start it first
    caught: list[tuple[int, FrameType | None]] = []
    ours = threading.current_thread() is threading.main_thread()
    # New processes inherit the blocked signal; but it may still reach another thread of this process.
    handler = signal.signal(signal.SIGINT, lambda *signalled: caught.append(signalled)) if ours else None
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if ours:
            signal.signal(signal.SIGINT, handler)
        if caught and callable(handler):
            handler(*caught[0])


def exit_with_parent() -> None:
    """Exit when the parent process is gone; workers start with this."""
    parent = multiprocessing.parent_process()
    if parent is not None:

        def wait() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=wait, daemon=True).start()
