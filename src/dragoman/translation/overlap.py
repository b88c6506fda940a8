"""Overlap the work of an engine with the preparation of its input and the use of its output."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Item = TypeVar("Item")
Result = TypeVar("Result")


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
    interrupt: Callable[[], None] | None = None,
) -> Iterator[tuple[Item, Result]]:
    """Each item and `work(item)`, in order.

    The work of an item is done in another thread, while the caller uses the previous result and the next item is
    prepared; at most three items exist at a time. A single item is worked on in the caller's thread.

    None among the items means that the next one may take long to arrive: all results are returned before it is taken.
    If preparing an item fails, the results of the items before it are returned before the error is raised. `interrupt`
    ends the work that runs when the caller stops early.
    """
    started: deque[tuple[Item, Future[Result]]] = deque()
    alone: list[Item] = []  # the first item, until there is a second
    pool: ThreadPoolExecutor | None = None
    failed: Exception | None = None
    finished: Any = object()
    try:
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

                pool = ThreadPoolExecutor(1, "engine")
            for each in (*alone, item):
                started.append((each, pool.submit(work, each)))
            alone.clear()
            if len(started) > 1:
                yield started[0][0], started.popleft()[1].result()
        if failed is not None:
            raise failed
    finally:
        if pool is not None:
            if started and interrupt is not None:
                interrupt()
            pool.shutdown(cancel_futures=True)
