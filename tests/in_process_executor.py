"""An `Executor` in this process, for tests of jobs without Ray."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dragoman.cluster.executor import Block, Found, Item, Outcome


class InProcessExecutor:
    """Works on blocks in a random order, as a cluster may; everything is pickled, as on its way to another process.

    After `stop_after` blocks it raises, as when the driver is killed.
    """

    def __init__(self, seed: int = 0, stop_after: int | None = None) -> None:
        self.seed, self.stop_after = seed, stop_after
        self.loaded = 0

    def map(
        self,
        items: Sequence[Item],
        read: Callable[[Item], Iterator[Block]],
        load: Callable[[], Callable[[Block], Found]],
    ) -> Iterator[Outcome[Found]]:
        blocks = [block for item in items for block in read(copied(item))]
        random.Random(self.seed).shuffle(blocks)
        self.loaded += 1
        work = copied(load)()
        for number, block in enumerate(blocks):
            if number == self.stop_after:
                raise KeyboardInterrupt
            yield Outcome(copied(work(copied(block))), f"worker-{number % 2}", 0.5)

    def submit(self, work: Callable[..., Found], *arguments: Any) -> Callable[[], Found]:
        found = work(*copied(arguments))
        return lambda: found


def copied(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))
