"""A function over many chunks on all cores, results in order, with a bounded number of chunks under way."""

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
from types import FrameType, TracebackType
from typing import Any, TypeVar

from dragoman.errors import DataError

T = TypeVar("T")
DIED = (
    "a helper process died. A script that uses helpers must keep its work under `if __name__ == '__main__':`, because "
    "they load the script; or the memory may be full. With one process (--processes 1, data.workers=1) there are none"
)


class Workers:
    """`processes` helpers, started when first needed; with one, the work is done here."""

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self.pool: ProcessPoolExecutor | None = None
        self.lock = threading.Lock()

    def map(self, work: Callable[..., T], arguments: Iterable[tuple[Any, ...]]) -> Iterator[T]:
        """work(*a) for each a, in order."""
        if self.processes == 1:
            for given in arguments:
                yield work(*given)
            return
        waiting: deque[Future[T]] = deque()
        try:
            for given in arguments:
                waiting.append(self._submit(work, *given))
                if len(waiting) > 2 * self.processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise DataError(DIED, code="worker_died") from None
        finally:
            for future in waiting:
                future.cancel()

    def call(self, work: Callable[..., T], *arguments: Any) -> T:
        """work(*arguments), in a helper where there are any."""
        if self.processes == 1:
            return work(*arguments)
        try:
            return self._submit(work, *arguments).result()
        except BrokenProcessPool:
            raise DataError(DIED, code="worker_died") from None

    def close(self) -> None:
        """End the helpers."""
        if self.pool is not None:
            self.pool.shutdown(wait=True, cancel_futures=True)

    def _submit(self, work: Callable[..., T], *arguments: Any) -> Future[T]:
        with self.lock, interrupts_held():
            if self.pool is None:
                # Spawned and not forked: a fork copies the locks of the threads that happen to run.
                spawn = multiprocessing.get_context("spawn")
                self.pool = ProcessPoolExecutor(self.processes, spawn, initializer=begin)
            return self.pool.submit(work, *arguments)

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Let Ctrl-C wait. Processes that are started meanwhile never see it: it is for their parent, who ends them."""
    resource_tracker.ensure_running()  # it unblocks the signal when it starts, so let it start before
    caught: list[tuple[int, FrameType | None]] = []
    ours = threading.current_thread() is threading.main_thread()
    # Blocking is what new processes inherit; but the signal may still reach another thread of this one.
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


def begin() -> None:
    """What a helper does first: see to it that it ends when its parent is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:

        def follow() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=follow, daemon=True).start()
