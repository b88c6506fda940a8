"""What a job needs of a cluster; Ray has it in `ray_data.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

Item = TypeVar("Item")
Block = TypeVar("Block")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Outcome(Generic[Found]):
    """What a worker returned for a block, its name, and the seconds that it worked."""

    value: Found
    worker: str
    seconds: float


class Executor(Protocol):
    """Runs work on many machines; a block whose worker dies is given to another one."""

    def map(
        self,
        items: Sequence[Item],
        read: Callable[[Item], Iterator[Block]],
        load: Callable[[], Callable[[Block], Found]],
    ) -> Iterator[Outcome[Found]]:
        """Work on the blocks that `read` finds in the items, in any order.

        `load` is called once in each worker, for the function that works on blocks. A bounded number of blocks is in
        memory at a time.
        """

    def submit(self, work: Callable[..., Found], *arguments: Any) -> Callable[[], Found]:
        """Start a call elsewhere; the result waits for it."""
