"""The ranks of one run: sums over all of them, broadcasts from rank 0, and a coordinated end.

No rank waits in a collective for a slow operation: while rank 0 prepares, evaluates or writes, the others poll a small
store for its result. The heartbeat detects a lost rank, not a timeout.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Timer
from typing import Any, Final, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from dragoman.errors import DragomanError, TrainingError
from dragoman.training.distributed.heartbeat import EXIT_CODE, Heartbeat, connect_store, seconds_from
from dragoman.training.distributed.peers import GLOO_INTERFACE, choose_gloo_interface

T = TypeVar("T")
POLL_SECONDS: Final = 0.02  # between two looks into the store
JOIN_TIMEOUT_SECONDS: Final = 300.0  # until all ranks have started; DRAGOMAN_JOIN_TIMEOUT changes it
COLLECTIVE_TIMEOUT: Final = timedelta(
    minutes=30
)  # the first step may compile for long, and nothing slower is waited for


class CollectiveError(TrainingError):
    """An error that all ranks raise from the same numbers: rank 0 reports it, the others exit silently."""

    exit_code = 2


class Store(Protocol):
    """The methods of PyTorch's stores used here."""

    def set(self, key: str, value: str) -> None:
        """Store a value."""

    def get(self, key: str) -> bytes:
        """The value; blocks until it is set."""

    def check(self, keys: list[str]) -> bool:
        """Whether all keys are set."""


@dataclass
class Ranks:
    """This process among the ranks of a run; in a single process, every method is a no-op."""

    rank: int = 0
    world: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    store: Store | None = None
    heartbeat: Heartbeat | None = None
    broadcasts: int = 0

    @property
    def first(self) -> bool:
        """Whether this is rank 0, which writes files and reports."""
        return self.rank == 0

    def sum(self, *numbers: float) -> list[float]:
        """Sums over all ranks, in float64 (counts stay exact), on the CPU."""
        if self.world == 1:
            return list(numbers)
        sums = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(sums)
        return [float(x) for x in sums]

    def broadcast_tensor(self, tensor: Tensor) -> Tensor:
        """Rank 0's tensor on every rank, in place; it must be on this rank's device."""
        if self.world > 1:
            dist.broadcast(tensor, 0)
        return tensor

    def broadcast(self, compute: Callable[[], T]) -> T:
        """Run `compute` on rank 0 and return its result, which must be JSON, on every rank; there is no time limit."""
        if self.world == 1 or self.store is None:
            return compute()
        self.broadcasts += 1
        key = f"broadcast/{self.broadcasts}"
        if self.first:
            value = compute()
            self.store.set(key, json.dumps(value))
            return value
        received: T = json.loads(self._wait_for(self.store, key))
        return received

    def gather(self, value: T) -> list[T]:
        """The values of all ranks, which must be JSON, on every rank."""
        if self.world == 1 or self.store is None:
            return [value]
        self.broadcasts += 1
        self.store.set(f"gather/{self.broadcasts}/{self.rank}", json.dumps(value))
        keys = [f"gather/{self.broadcasts}/{rank}" for rank in range(self.world)]
        return [json.loads(self._wait_for(self.store, key)) for key in keys]

    def _wait_for(self, store: Store, key: str) -> bytes:
        """A value in the store, once it is there; exit if rank 0 has failed."""
        while not store.check([key]):
            if not self.first and store.check(["failed/0"]):
                if self.heartbeat is not None and not self.heartbeat.same_node(0):
                    self.heartbeat.abort_after(store, 0)
                raise SystemExit(CollectiveError.exit_code)  # rank 0 has reported the reason
            time.sleep(POLL_SECONDS)
        return store.get(key)

    def describe(self, *ranks: int) -> str:
        """Ranks with their processes and hosts."""
        return "this process" if self.heartbeat is None else self.heartbeat.describe(ranks)

    @contextmanager
    def guard(self) -> Iterator[None]:
        """End the run on all ranks when one fails, and name a rank that is lost."""
        if self.world == 1 or self.store is None or self.heartbeat is None:
            yield
            return
        try:
            yield
        except CollectiveError as error:
            self.leave()
            if not self.first:
                if self.heartbeat.reports():  # on a node that does not see the output of rank 0
                    sys.stderr.write(f"dragoman: {error}\n")
                raise SystemExit(error.exit_code) from None
            raise
        except SystemExit:
            self.heartbeat.stop()
            raise
        except BaseException as error:
            if isinstance(error, RuntimeError) and not isinstance(error, DragomanError) and is_peer_failure(error):
                self.heartbeat.abort_lost_peer(str(error))
            self.heartbeat.stop()
            with suppress(RuntimeError):  # the store itself may be gone
                self.heartbeat.publish_failure(self.store, error)
            if not self.first and isinstance(error, DragomanError):
                sys.stderr.write(f"dragoman: {self.heartbeat.own}: {error}\n")
                raise SystemExit(CollectiveError.exit_code) from None
            raise
        else:
            self.leave()

    def leave(self) -> None:
        """Leave the process group; rank 0 goes last, because it may hold the store."""
        if self.heartbeat is None or self.store is None:
            return
        self.heartbeat.stop()
        with suppress(RuntimeError):
            self.store.set(f"left/{self.rank}", "")
            others = [f"left/{rank}" for rank in range(self.world)]
            until = time.monotonic() + 10
            while self.first and time.monotonic() < until and not self.store.check(others):
                time.sleep(POLL_SECONDS)
        dist.destroy_process_group()


def is_peer_failure(error: RuntimeError) -> bool:
    """Whether a collective failed because another rank is gone."""
    message = str(error).lower()
    return isinstance(error, dist.DistError) or any(word in message for word in ("gloo", "nccl", "connection"))


@contextmanager
def join_limit(rank: int) -> Iterator[None]:
    """End this process if joining the run takes too long.

    Joining waits in C++ for as long as a collective may take, even for ranks and stores that are gone.
    """
    seconds = seconds_from("DRAGOMAN_JOIN_TIMEOUT", JOIN_TIMEOUT_SECONDS)
    place = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"

    def abort() -> None:
        reason = f"rank {rank}: not all ranks joined the run within {seconds:g} s; the run stops"
        advice = f"Check that all of them started and can reach {place}, then run the same command again"
        os.write(2, f"dragoman: {reason}. {advice} (DRAGOMAN_JOIN_TIMEOUT changes the seconds).\n".encode())
        os._exit(EXIT_CODE)

    timer = Timer(seconds, abort)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def join(device: torch.device | None = None) -> Ranks:
    """Join the run given by torchrun's environment variables; without them, this is the only rank."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    cuda = torch.cuda.is_available() if device is None else device.type == "cuda"
    if cuda and not torch.cuda.is_available():
        raise TrainingError(
            "device 'cuda' is not available: PyTorch finds no GPU here; use device 'cpu', or install a driver and a "
            "PyTorch build for this GPU",
            code="device_unavailable",
        )
    if world == 1:
        return Ranks(device=device if device is not None else torch.device("cuda" if cuda else "cpu"))
    rank, local = int(os.environ["RANK"]), int(os.environ.get("LOCAL_RANK", "0"))
    if cuda and local >= torch.cuda.device_count():
        raise TrainingError(
            f"no GPU is left for process {local + 1} on this machine, which has {torch.cuda.device_count()}; start "
            "that many processes, or use --device cpu",
            code="device_unavailable",
        )
    own = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(own)
    choose_gloo_interface()
    heartbeat = Heartbeat(rank, world)
    with join_limit(rank):
        try:
            dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=COLLECTIVE_TIMEOUT)
            store: Any = connect_store()
            heartbeat.meet(store)
        except RuntimeError as error:
            raise TrainingError(
                f"rank {rank} on {socket.gethostname()} cannot connect to the other ranks "
                f"({str(error).splitlines()[0]}); check that all nodes can reach each other, and set "
                f"{GLOO_INTERFACE} to the network interface that connects them",
                code="ranks_unreachable",
            ) from None
    heartbeat.start()
    return Ranks(rank, world, own, store, heartbeat)
