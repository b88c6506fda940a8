"""Signs of life: a process that dies or freezes ends the run within a minute, with its name."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from datetime import timedelta
from typing import Any, Final, NoReturn

import torch.distributed as dist

BEAT: Final = 2.0  # seconds between two signs of life; the environment's DRAGOMAN_BEAT changes it
# Seconds without one after which a process counts as lost (DRAGOMAN_SILENT). With torchrun's own 30 seconds of patience
# for what does not end by itself, the whole is under a minute.
SILENT: Final = 20.0
LOST: Final = 70  # the exit code of a process that ends because another one is lost


def store_of() -> Any:
    """A connection of one's own to the run's store; a restart by torchrun begins with an empty one."""
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    patience = timedelta(seconds=setting("SILENT", SILENT))
    store = dist.TCPStore(host, port, is_master=False, timeout=patience, wait_for_workers=False)  # type: ignore[attr-defined]
    prefix = f"dragoman/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/"
    return dist.PrefixStore(prefix, store)  # type: ignore[attr-defined]  # both are documented, but not in the stubs


def setting(name: str, default: float) -> float:
    """Seconds, as the environment has them."""
    return float(os.environ.get(f"DRAGOMAN_{name}", default))


class Pulse(threading.Thread):
    """Writes this process's signs of life, watches the others', and ends the process when one has fallen silent.

    A thread of its own with a connection of its own, because the main thread may be waiting inside a collective for the
    very process that is gone. A frozen process cannot write, so that its silence names it. Evaluating and saving leave
    this thread its turn, so that they may take as long as they like.
    """

    def __init__(self, rank: int, world: int) -> None:
        super().__init__(daemon=True, name="dragoman-pulse")
        self.rank, self.world = rank, world
        self.beat, self.silent = setting("BEAT", BEAT), setting("SILENT", SILENT)
        self.heard: dict[int, tuple[int, float]] = {}
        self.stopped = threading.Event()

    def run(self) -> None:
        """Beat and watch until told to stop."""
        try:
            store = store_of()
            store.set(f"name/{self.rank}", f"process {os.getpid()} on {socket.gethostname()}")
            beats, last = 0, time.monotonic()
            while not self.stopped.is_set():
                beats, now = beats + 1, time.monotonic()
                store.set(f"beat/{self.rank}", str(beats))
                if now - last > max(3 * self.beat, self.silent / 2):
                    self.heard.clear()  # it was this process that slept, with all others perhaps: judge nobody yet
                last = now
                for other in range(self.world):
                    if other != self.rank:
                        self._listen(store, other, now)
                lost = [rank for rank in self.heard if self.silence_of(rank) > self.silent]
                if lost:
                    self.end(f"{self.names(store, lost)} gave no sign of life for {self.silent:.0f} s", lost)
                self.stopped.wait(self.beat)
        except (dist.DistError, RuntimeError, ConnectionError, ValueError):
            if not self.stopped.is_set():
                self.end("the process that holds the run together is gone", None)

    def _listen(self, store: Any, other: int, now: float) -> None:
        if store.check([f"failed/{other}"]) and not self.stopped.is_set():
            self.follow(store, other)
        count = int(store.get(f"beat/{other}")) if store.check([f"beat/{other}"]) else 0
        if other not in self.heard or self.heard[other][0] != count:
            self.heard[other] = (count, now)

    def follow(self, store: Any, failed: int) -> NoReturn:
        """End because another process did, with an error that it has shown itself."""
        if failed == 0:
            os._exit(LOST)  # the first process speaks to the person, and has done so
        self.end(f"{self.names(store, [failed])} ended with {store.get(f'failed/{failed}').decode()}", [failed])

    def silence_of(self, rank: int) -> float:
        """Seconds since a rank was last heard."""
        return time.monotonic() - self.heard[rank][1]

    def names(self, store: Any, ranks: list[int]) -> str:
        """Ranks as a person finds them again."""
        known = [store.get(f"name/{r}").decode() if store.check([f"name/{r}"]) else "never seen" for r in ranks]
        return ", ".join(f"rank {rank} ({name})" for rank, name in zip(ranks, known, strict=True))

    def stop(self) -> None:
        """Watch no more: the run ends in good order.

        The thread is waited for: one that is inside the store when Python ends takes the process down with SIGABRT.
        """
        self.stopped.set()
        if self.is_alive() and threading.current_thread() is not self:
            self.join(2 * self.beat)

    def name_the_lost(self, why: str) -> NoReturn:
        """A collective failed, and whoever does not beat any more is the reason; wait a few beats to see, and end."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun asks all to end; first, the name
        store = store_of()
        until = time.monotonic() + 4 * self.beat
        while time.monotonic() < until:
            for other in range(self.world):
                if store.check([f"failed/{other}"]):
                    self.follow(store, other)
            quiet = [rank for rank in self.heard if self.silence_of(rank) > 2.5 * self.beat]
            if quiet:
                self.end(f"{self.names(store, quiet)} is gone", quiet)
            time.sleep(self.beat / 10)
        self.end(f"the processes lost each other ({why.splitlines()[0]})", None)

    def end(self, why: str, lost: list[int] | None) -> NoReturn:
        """Leave at once; the last checkpoint is whole, whatever this process was doing. The lowest rank left speaks."""
        if lost is None or self.rank == min(set(range(self.world)) - set(lost)):
            said = f"dragoman: {why}, so the run ends. The last checkpoint is safe; run the same command to go on.\n"
            os.write(2, said.encode())  # not through sys.stderr, which the main thread may be holding
        os._exit(LOST)
