"""Many processes: who is who, sums over all, and words from the first one to the others.

Nothing here waits in a collective for something slow. While the first process prepares, evaluates or writes, the others
ask a small store whether it is done; who is gone is found by the pulse, not by a time-out.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from dragoman.errors import DragomanError, TrainingError
from dragoman.training.distributed.heartbeat import LOST, Pulse, store_of

T = TypeVar("T")
ASK_EVERY: Final = 0.02  # seconds between two questions to the store
COLLECTIVE: Final = timedelta(minutes=30)  # the first step may compile for long, and nothing slower is waited for


class AgreedError(TrainingError):
    """An end that every process comes to by the same numbers: the first one speaks, the others leave in silence."""

    exit_code = 2


class Store(Protocol):
    """The part of PyTorch's stores that is used here."""

    def set(self, key: str, value: str) -> None:
        """Put a value."""

    def get(self, key: str) -> bytes:
        """The value, waited for."""

    def check(self, keys: list[str]) -> bool:
        """Whether all keys are there."""


@dataclass
class Ranks:
    """This process among all of one run; alone, all of it costs nothing."""

    rank: int = 0
    world: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    store: Store | None = None
    pulse: Pulse | None = None
    told: int = 0

    @property
    def first(self) -> bool:
        """Whether this process writes the files and talks to the person."""
        return self.rank == 0

    def sum(self, *numbers: float) -> list[float]:
        """The sums over all processes, in float64 so that counts stay exact; by the hosts, which need no GPU for it."""
        if self.world == 1:
            return list(numbers)
        together = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(together)
        return [float(x) for x in together]

    def share(self, tensor: Tensor) -> Tensor:
        """The first process's tensor, for all; it lies where collectives can reach it."""
        if self.world > 1:
            dist.broadcast(tensor, 0)
        return tensor

    def tell(self, make: Callable[[], T]) -> T:
        """What the first process makes, as JSON carries it, for all; the others wait for as long as it takes."""
        if self.world == 1 or self.store is None:
            return make()
        self.told += 1
        key = f"told/{self.told}"
        if self.first:
            made = make()
            self.store.set(key, json.dumps(made))
            return made
        while not self.store.check([key]):
            if self.store.check(["failed/0"]):
                raise SystemExit(AgreedError.exit_code)  # the first one has said why
            time.sleep(ASK_EVERY)
        heard: T = json.loads(self.store.get(key))
        return heard

    @contextmanager
    def together(self) -> Iterator[None]:
        """Leave the run together: an error of one process ends all, and one that is gone is named."""
        if self.world == 1 or self.store is None or self.pulse is None:
            yield
            return
        try:
            yield
        except AgreedError as error:
            self.leave()
            if not self.first:
                raise SystemExit(error.exit_code) from None
            raise
        except SystemExit:
            self.pulse.stop()
            raise
        except BaseException as error:
            if isinstance(error, RuntimeError) and not isinstance(error, DragomanError) and about_a_peer(error):
                self.pulse.name_the_lost(str(error))
            self.pulse.stop()
            with suppress(RuntimeError):  # the store itself may be what is gone
                self.store.set(f"failed/{self.rank}", f"{type(error).__name__}: {error}")
            if not self.first and isinstance(error, DragomanError):
                sys.stderr.write(f"dragoman: rank {self.rank}: {error}\n")
                raise SystemExit(AgreedError.exit_code) from None
            raise
        else:
            self.leave()

    def leave(self) -> None:
        """Say goodbye; the first process goes last, because the store may be its own."""
        if self.pulse is None or self.store is None:
            return
        self.pulse.stop()
        with suppress(RuntimeError):
            self.store.set(f"left/{self.rank}", "")
            others = [f"left/{rank}" for rank in range(self.world)]
            until = time.monotonic() + 10
            while self.first and time.monotonic() < until and not self.store.check(others):
                time.sleep(ASK_EVERY)
        dist.destroy_process_group()


def about_a_peer(error: RuntimeError) -> bool:
    """Whether a collective failed because another process is gone."""
    words = str(error).lower()
    return isinstance(error, dist.DistError) or any(word in words for word in ("gloo", "nccl", "connection"))


def join(device: torch.device | None = None) -> Ranks:
    """Take the place that torchrun's environment gives this process; without one, be alone."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    cuda = torch.cuda.is_available() if device is None else device.type == "cuda"
    if cuda and not torch.cuda.is_available():
        raise TrainingError("--device cuda was asked for, but PyTorch finds no GPU here; use --device cpu, or none")
    if world == 1:
        return Ranks(device=device if device is not None else torch.device("cuda" if cuda else "cpu"))
    rank, local = int(os.environ["RANK"]), int(os.environ.get("LOCAL_RANK", "0"))
    if cuda and local >= torch.cuda.device_count():
        raise TrainingError(
            f"process {local + 1} of this machine has no GPU to itself: there are {torch.cuda.device_count()}; use "
            "so many processes, or --device cpu"
        )
    place = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(place)
    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=COLLECTIVE)
    store: Any = store_of()
    pulse = Pulse(rank, world)
    pulse.start()
    return Ranks(rank, world, place, store, pulse)


__all__ = ["LOST", "AgreedError", "Ranks", "join"]
