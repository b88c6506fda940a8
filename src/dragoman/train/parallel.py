"""Many processes: who is who, sums over all, and an end within a minute when one of them dies or freezes."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import torch
import torch.distributed as dist
from torch import Tensor

BEAT: Final = 2.0  # seconds between two signs of life
SILENT: Final = 30.0  # seconds without one after which a process counts as lost
LOST: Final = 70  # the exit code of a process that ends because another one is lost


@dataclass(frozen=True)
class Ranks:
    """This process among all of one run; alone, all of it costs nothing."""

    rank: int = 0
    world: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def first(self) -> bool:
        """Whether this process writes the files and talks to the person."""
        return self.rank == 0

    def sum(self, *numbers: float) -> list[float]:
        """The sums over all processes, in float64 so that counts stay exact."""
        if self.world == 1:
            return list(numbers)
        together = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(together)
        return [float(x) for x in together]

    def share(self, tensor: Tensor) -> Tensor:
        """The first process's tensor, for all."""
        if self.world > 1:
            dist.broadcast(tensor, 0)
        return tensor

    def wait(self) -> None:
        """Wait for all."""
        if self.world > 1:
            dist.barrier()


def join(device: torch.device | None = None) -> Ranks:
    """Take the place that torchrun's environment gives this process; without one, be alone."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    cuda = torch.cuda.is_available() if device is None else device.type == "cuda"
    if world == 1:
        return Ranks(device=device if device is not None else torch.device("cuda" if cuda else "cpu"))
    rank, local = int(os.environ["RANK"]), int(os.environ.get("LOCAL_RANK", "0"))
    place = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(place)
    # Others wait while the first process evaluates or saves, so that a collective may take long: it is the pulse below,
    # not this limit, that finds the process that is gone.
    dist.init_process_group("nccl" if cuda else "gloo", timeout=timedelta(hours=2))
    Pulse(rank, world).start()
    return Ranks(rank, world, place)


class Pulse(threading.Thread):
    """Writes this process's signs of life, watches the others', and ends the process when one has fallen silent.

    A thread of its own with a connection of its own, because the main thread may be waiting inside a collective for the
    very process that is gone. A frozen process cannot write, so that its silence names it.
    """

    def __init__(self, rank: int, world: int) -> None:
        super().__init__(daemon=True, name="dragoman-pulse")
        self.rank, self.world = rank, world

    def run(self) -> None:
        """Beat and watch until the process ends."""
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        try:
            store = dist.TCPStore(  # type: ignore[attr-defined]  # it is documented, but not in the stubs
                host, port, is_master=False, timeout=timedelta(seconds=SILENT), wait_for_workers=False
            )
            store.set(f"dragoman/name/{self.rank}", f"{socket.gethostname()}, process {os.getpid()}")
        except (dist.DistError, RuntimeError):
            return
        heard: dict[int, tuple[int, float]] = {}
        beats = 0
        while True:
            beats += 1
            try:
                store.set(f"dragoman/beat/{self.rank}", str(beats))
                for other in range(self.world):
                    if other == self.rank or not store.check([f"dragoman/beat/{other}"]):
                        continue
                    count = int(store.get(f"dragoman/beat/{other}"))
                    if heard.get(other, (None, 0.0))[0] != count:
                        heard[other] = (count, time.monotonic())
                    elif time.monotonic() - heard[other][1] > SILENT and not store.check(["dragoman/done"]):
                        name = store.get(f"dragoman/name/{other}").decode()
                        self.end(f"rank {other} ({name}) has given no sign of life for {SILENT:.0f} s")
            except (dist.DistError, RuntimeError, ConnectionError):
                self.end("the process that holds the run together is gone")
            time.sleep(BEAT)

    def end(self, why: str) -> None:
        """Leave at once; the last checkpoint is whole, whatever this process was doing."""
        sys.stderr.write(
            f"dragoman: rank {self.rank} stops: {why}. The last checkpoint is safe; run the same command to go on.\n"
        )
        sys.stderr.flush()
        os._exit(LOST)
