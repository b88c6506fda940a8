"""Overlap the work of an engine with the preparation of its input and the use of its output."""

from __future__ import annotations

import gc
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Item = TypeVar("Item")
Result = TypeVar("Result")
SWITCH_SECONDS: Final = 1e-4
GC_OBJECTS: Final = 1_000_000  # new objects between two collections


@dataclass(frozen=True)
class Blocks(Iterable[Item]):
    """Texts or pairs that arrive in blocks, such as the lines that a pipe has now.

    An empty block means that the next one may take long to arrive: the results of everything before it come first.
    """

    blocks: Iterable[Sequence[Item]]

    def __iter__(self) -> Iterator[Item]:
        return chain.from_iterable(self.blocks)


def blocks_of(items: Iterable[Item]) -> Iterable[Iterable[Item]]:
    """The blocks in which items arrive; one, unless they are `Blocks`."""
    return items.blocks if isinstance(items, Blocks) else [items]


def overlap(
    items: Iterator[Item | None],
    work: Callable[[Item], Result],
    interrupt: Callable[[], None],
    threads: int = 1,
) -> Iterator[tuple[Item, Result]]:
    """Each item and `work(item)`, in order.

    The work of an item is done in another thread, while the caller uses the previous result and the next item is
    prepared; at most three items exist at a time. A single item is worked on in the caller's thread. With two threads,
    the work of an item starts as soon as it is prepared.

    None among the items means that the next one may take long to arrive: all results are returned before it is taken.
    If preparing an item fails, the results of the items before it are returned before the error is raised. `interrupt`
    ends the work that runs when the caller stops early.
    """
    started: deque[tuple[Item, Future[Result]]] = deque()
    alone: list[Item] = []  # the first item, until there is a second
    pool: ThreadPoolExecutor | None = None
    failed: Exception | None = None
    finished: Any = object()
    with ExitStack() as cleanup:
        while True:
            try:
                item = next(items, finished)
            except Exception as error:
                item, failed = finished, error
            if item is None or item is finished:
                while alone:
                    yield alone[0], work(alone.pop())
                while started:
                    yield started[0][0], started.popleft()[1].result()
                if item is None:
                    continue
                break
            if pool is None and not alone:
                alone.append(item)
                continue
            if pool is None:
                from concurrent.futures import ThreadPoolExecutor

                cleanup.enter_context(interpreter_settings)
                pool = ThreadPoolExecutor(threads, "engine")
                cleanup.callback(pool.shutdown, cancel_futures=True)
                cleanup.callback(interrupt)
            for each in (*alone, item):
                started.append((each, pool.submit(work, each)))
            alone.clear()
            if len(started) > 1:
                yield started[0][0], started.popleft()[1].result()
    if failed is not None:
        raise failed


class InterpreterSettings:
    """Settings of the interpreter for long streams, while any of them is entered.

    A thread waits at most 0.1 ms for the interpreter, instead of 5 ms: an engine on a GPU needs it only for moments,
    but after every step. Garbage is collected less often: a window has many objects, and none of them is garbage.
    """

    def __init__(self) -> None:
        self.users, self.lock = 0, threading.Lock()
        self.before = sys.getswitchinterval(), gc.get_threshold()

    def __enter__(self) -> None:
        with self.lock:
            if not self.users:
                self.before = interval, (young, *older) = sys.getswitchinterval(), gc.get_threshold()
                sys.setswitchinterval(min(interval, SWITCH_SECONDS))
                gc.set_threshold(young and max(young, GC_OBJECTS), *older)  # 0 is disabled
            self.users += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.users -= 1
            if not self.users:
                sys.setswitchinterval(self.before[0])
                gc.set_threshold(*self.before[1])


interpreter_settings: Final = InterpreterSettings()
