"""Heartbeats between ranks: abort the run within a minute when a rank dies or hangs, and name it."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from datetime import timedelta
from typing import Any, Final, NoReturn

import torch.distributed as dist

INTERVAL_SECONDS: Final = 2.0  # seconds; overridden by the environment variable DRAGOMAN_HEARTBEAT_INTERVAL
# Without a heartbeat for this long, a rank counts as lost (DRAGOMAN_HEARTBEAT_TIMEOUT). With the 30 seconds that
# torchrun waits for processes to end, it is under a minute in all.
TIMEOUT_SECONDS: Final = 20.0
EXIT_CODE: Final = 70  # exit code of a process that ends because another rank is lost


def connect_store() -> Any:
    """A new connection to the run's store; a restart by torchrun starts with an empty one."""
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    timeout = timedelta(seconds=seconds_from("DRAGOMAN_HEARTBEAT_TIMEOUT", TIMEOUT_SECONDS))
    store = dist.TCPStore(host, port, is_master=False, timeout=timeout, wait_for_workers=False)  # type: ignore[attr-defined]
    prefix = f"dragoman/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/"
    return dist.PrefixStore(prefix, store)  # type: ignore[attr-defined]  # both are documented, but not in the stubs


def seconds_from(variable: str, default: float) -> float:
    """The seconds given by an environment variable."""
    return float(os.environ.get(variable, default))


class Heartbeat(threading.Thread):
    """Publish this rank's heartbeat and watch the others; exit when one is overdue.

    Runs in its own thread with its own store connection: the main thread may be blocked in a collective, waiting for
    the very rank that is gone. A hanging process publishes nothing, so it is the one that is named. Evaluating and
    saving do not block this thread, so they may take any time.
    """

    def __init__(self, rank: int, world: int) -> None:
        super().__init__(daemon=True, name="dragoman-heartbeat")
        self.rank, self.world = rank, world
        self.interval = seconds_from("DRAGOMAN_HEARTBEAT_INTERVAL", INTERVAL_SECONDS)
        self.timeout = seconds_from("DRAGOMAN_HEARTBEAT_TIMEOUT", TIMEOUT_SECONDS)
        self.last_seen: dict[int, tuple[int, float]] = {}  # rank -> its last count, and when it changed
        self.stopped = threading.Event()

    def run(self) -> None:
        """Publish and watch until stopped."""
        try:
            store = connect_store()
            store.set(f"name/{self.rank}", f"process {os.getpid()} on {socket.gethostname()}")
            count, last = 0, time.monotonic()
            while not self.stopped.is_set():
                count, now = count + 1, time.monotonic()
                store.set(f"beat/{self.rank}", str(count))
                if now - last > max(3 * self.interval, self.timeout / 2):
                    self.last_seen.clear()  # this process was suspended, perhaps with all others: wait before judging
                last = now
                for other in range(self.world):
                    if other != self.rank:
                        self._check(store, other, now)
                lost = [rank for rank in self.last_seen if self.seconds_since(rank) > self.timeout]
                if lost:
                    self.abort(f"{self.describe(store, lost)} missed heartbeats for {self.timeout:.0f} s", lost)
                self.stopped.wait(self.interval)
        except (dist.DistError, RuntimeError, ConnectionError, ValueError):
            if not self.stopped.is_set():
                self.abort("the process that holds the run's store is gone", None)

    def _check(self, store: Any, other: int, now: float) -> None:
        if store.check([f"failed/{other}"]) and not self.stopped.is_set():
            self.abort_after(store, other)
        count = int(store.get(f"beat/{other}")) if store.check([f"beat/{other}"]) else 0
        if other not in self.last_seen or self.last_seen[other][0] != count:
            self.last_seen[other] = (count, now)

    def abort_after(self, store: Any, failed: int) -> NoReturn:
        """Exit because another rank failed; that rank has printed its error."""
        if failed == 0:
            os._exit(EXIT_CODE)  # rank 0 has reported the reason
        self.abort(f"{self.describe(store, [failed])} ended with {store.get(f'failed/{failed}').decode()}", [failed])

    def seconds_since(self, rank: int) -> float:
        """Seconds since the last heartbeat of a rank."""
        return time.monotonic() - self.last_seen[rank][1]

    def describe(self, store: Any, ranks: list[int]) -> str:
        """Ranks with their processes and hosts."""
        known = [store.get(f"name/{r}").decode() if store.check([f"name/{r}"]) else "never seen" for r in ranks]
        return ", ".join(f"rank {rank} ({name})" for rank, name in zip(ranks, known, strict=True))

    def stop(self) -> None:
        """Stop watching: the run ends normally.

        The thread is joined: one that is inside the store when Python exits takes the process down with SIGABRT.
        """
        self.stopped.set()
        if self.is_alive() and threading.current_thread() is not self:
            self.join(2 * self.interval)

    def abort_lost_peer(self, error: str) -> NoReturn:
        """Exit after a collective failed; wait a few intervals to find the rank whose heartbeat has stopped."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun terminates all; name the rank first
        store = connect_store()
        until = time.monotonic() + 4 * self.interval
        while time.monotonic() < until:
            for other in range(self.world):
                if store.check([f"failed/{other}"]):
                    self.abort_after(store, other)
            overdue = [rank for rank in self.last_seen if self.seconds_since(rank) > 2.5 * self.interval]
            if overdue:
                self.abort(f"{self.describe(store, overdue)} is gone", overdue)
            time.sleep(self.interval / 10)
        self.abort(f"the ranks lost contact with each other ({error.splitlines()[0]})", None)

    def abort(self, reason: str, lost: list[int] | None) -> NoReturn:
        """Exit at once; the last checkpoint is intact, whatever this process was doing. The lowest rank reports."""
        if lost is None or self.rank == min(set(range(self.world)) - set(lost)):
            advice = "the run stops. The last checkpoint is intact; run the same command to resume."
            # Not through sys.stderr, whose lock the main thread may hold.
            os.write(2, f"dragoman: {reason}; {advice}\n".encode())
        os._exit(EXIT_CODE)
