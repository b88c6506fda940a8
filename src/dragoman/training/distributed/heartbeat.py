"""Heartbeats between ranks: abort the run within a minute when a rank dies or hangs, and name it."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, NoReturn

import torch.distributed as dist

from dragoman.training.distributed.peers import Peer, format_peers

INTERVAL_SECONDS: Final = 2.0  # seconds; overridden by the environment variable DRAGOMAN_HEARTBEAT_INTERVAL
# Without a heartbeat for this long, a rank counts as lost (DRAGOMAN_HEARTBEAT_TIMEOUT). With the 30 seconds that
# torchrun waits for processes to end, it is under a minute in all.
TIMEOUT_SECONDS: Final = 20.0
EXIT_CODE: Final = 70  # exit code of a process that ends because another rank is lost
ALARM: Final = "alarm"  # a key in the store that is set once a rank has failed
ADVICE: Final = "the run stops. The last checkpoint is intact; run the same command to resume."


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
    saving do not block this thread, so they may take any time. A second thread watches the first: a call to a store
    whose host is switched off does not return.
    """

    def __init__(self, rank: int, world: int) -> None:
        super().__init__(daemon=True, name="dragoman-heartbeat")
        self.rank, self.world = rank, world
        self.interval = seconds_from("DRAGOMAN_HEARTBEAT_INTERVAL", INTERVAL_SECONDS)
        self.timeout = seconds_from("DRAGOMAN_HEARTBEAT_TIMEOUT", TIMEOUT_SECONDS)
        self.own = Peer.own(rank)
        self.peers: dict[int, Peer] = {}
        self.last_seen: dict[int, tuple[int, float]] = {}  # rank -> its last count, and when it changed
        self.last_contact = time.monotonic()  # with the store
        self.stopped = threading.Event()
        self.ending = threading.Lock()  # held by the thread that ends this process
        self.watch = threading.Thread(target=self.watch_contact, daemon=True, name="dragoman-store-watch")

    def meet(self, store: Any) -> None:
        """Publish who this rank is, and learn who the others are; waits for all of them."""
        store.set(f"beat/{self.rank}", "0")
        store.set(f"peer/{self.rank}", self.own.to_json())
        for other in range(self.world):
            while not store.check([f"peer/{other}"]):
                time.sleep(0.02)
            self.peers[other] = Peer.from_json(store.get(f"peer/{other}"))

    def run(self) -> None:
        """Publish and watch until stopped."""
        self.last_contact = time.monotonic()
        self.watch.start()
        try:
            store = connect_store()
            count, last = 0, time.monotonic()
            while not self.stopped.is_set():
                count, now = count + 1, time.monotonic()
                store.set(f"beat/{self.rank}", str(count))
                if now - last > max(3 * self.interval, self.timeout / 2):
                    self.last_seen.clear()  # this process was suspended, perhaps with all others: wait before judging
                last = now
                self._check(store, now)
                self.last_contact = time.monotonic()
                lost = [rank for rank in self.last_seen if self.seconds_since(rank) > self.timeout]
                if lost:
                    self.abort(f"{self.describe(lost)} missed heartbeats for {self.timeout:.0f} s", lost, store)
                self.stopped.wait(self.interval)
        except (dist.DistError, RuntimeError, ConnectionError, ValueError):
            self.abort_without_store()

    def watch_contact(self) -> None:
        """End the process when the heartbeat thread waits too long for an answer of the store."""
        last = time.monotonic()
        while not self.stopped.wait(self.interval):
            now = time.monotonic()
            if now - last > max(3 * self.interval, self.timeout / 2):
                self.last_contact = now  # this process was suspended
            last = now
            if now - self.last_contact > self.timeout:
                self.abort_without_store()

    def _check(self, store: Any, now: float) -> None:
        """Look at the others' heartbeats, in two calls whatever their number: the store serves all ranks."""
        if store.check([ALARM]) and not self.stopped.is_set():
            self.abort_after_alarm(store)
        others = [rank for rank in range(self.world) if rank != self.rank]
        for other, count in zip(others, store.multi_get([f"beat/{rank}" for rank in others]), strict=True):
            if other not in self.last_seen or self.last_seen[other][0] != int(count):
                self.last_seen[other] = (int(count), now)

    def abort_after_alarm(self, store: Any) -> None:
        """Exit for the reason that another rank has published."""
        for other in (rank for rank in range(self.world) if rank != self.rank):
            if store.check([f"failed/{other}"]):
                self.abort_after(store, other)
            if store.check([f"aborted/{other}"]):
                self.abort_like(store, other)

    def publish_failure(self, store: Any, error: BaseException) -> None:
        """Tell the others that this rank has failed."""
        store.set(f"failed/{self.rank}", f"{type(error).__name__}: {error}")
        store.set(ALARM, "")

    def abort_after(self, store: Any, failed: int) -> NoReturn:
        """Exit because another rank failed; that rank has printed its error, but perhaps on another host."""
        reason = store.get(f"failed/{failed}").decode()
        if failed == 0 and self.same_node(0):
            os._exit(EXIT_CODE)  # rank 0 has reported the reason
        self.abort(f"{self.describe([failed])} ended with {reason}", [failed], store)

    def abort_like(self, store: Any, other: int) -> NoReturn:
        """Exit for the reason for which another rank did."""
        said = json.loads(store.get(f"aborted/{other}"))
        self.abort(said["reason"], [rank for rank in said["lost"] if rank != self.rank], store)

    def abort_without_store(self) -> None:
        """Exit because the store does not answer; name a rank that was overdue before, or those on its host."""
        if self.stopped.is_set():
            return
        late = [rank for rank, (_, seen) in self.last_seen.items() if self.last_contact - seen > 2.5 * self.interval]
        if late:
            self.abort(self.describe_gone(late), late)
        place = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        there = [peer.rank for peer in self.peers.values() if peer.near_store and peer.node != self.own.node]
        if self.own.near_store or not there:
            self.abort(f"the process that holds the run's store, at {place}, is gone", [])
        self.abort(f"{self.describe_gone(there)}: {place}, where the run's store is, does not answer", there)

    def seconds_since(self, rank: int) -> float:
        """Seconds since the last heartbeat of a rank."""
        return time.monotonic() - self.last_seen[rank][1]

    def describe(self, ranks: Sequence[int]) -> str:
        """Ranks with their processes and hosts."""
        return format_peers(self.peers.get(rank, rank) for rank in ranks)

    def describe_gone(self, ranks: Sequence[int]) -> str:
        """That ranks are gone."""
        return f"{self.describe(ranks)} {'is' if len(ranks) == 1 else 'are'} gone"

    def same_node(self, rank: int) -> bool:
        """Whether a rank is known to be on this node."""
        return rank == self.rank or (rank in self.peers and self.peers[rank].node == self.own.node)

    def reports(self, lost: Sequence[int] = ()) -> bool:
        """Whether this rank prints why the run stops: the first one of each node that is not lost."""
        return self.rank == min(rank for rank in range(self.world) if self.same_node(rank) and rank not in lost)

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
        try:
            store = connect_store()
            until = time.monotonic() + 4 * self.interval
            while time.monotonic() < until:
                if store.check([ALARM]):
                    self.abort_after_alarm(store)
                overdue = [rank for rank in self.last_seen if self.seconds_since(rank) > 2.5 * self.interval]
                if overdue:
                    self.abort(self.describe_gone(overdue), overdue, store)
                time.sleep(self.interval / 10)
        except (dist.DistError, RuntimeError, ConnectionError, ValueError):
            self.abort_without_store()
        self.abort(f"the ranks lost contact with each other ({error.splitlines()[0]})", None)

    def abort(self, reason: str, lost: Sequence[int] | None, store: Any = None) -> NoReturn:
        """Exit at once; the last checkpoint is intact, whatever this process was doing. One rank of each node reports.

        `lost` is None if nobody knows which rank caused it.
        """
        self.ending.acquire()  # the other threads wait here for the end
        if lost is None or self.reports(lost):
            # Not through sys.stderr, whose lock the main thread may hold.
            os.write(2, f"dragoman: {reason}; {ADVICE}\n".encode())
        if store is not None and lost is not None:
            threading.Timer(3 * self.interval, os._exit, (EXIT_CODE,)).start()  # whatever the store does
            with suppress(dist.DistError, RuntimeError, ConnectionError):
                self.announce(store, reason, lost)
        os._exit(EXIT_CODE)

    def announce(self, store: Any, reason: str, lost: Sequence[int]) -> None:
        """Publish why this rank ends; near the store, wait for the other nodes: the store ends with this node."""
        store.set(f"aborted/{self.rank}", json.dumps({"reason": reason, "lost": list(lost)}))
        store.set(ALARM, "")
        others = [p.rank for p in self.peers.values() if p.node != self.own.node and p.rank not in lost]
        while self.own.near_store and not all(store.check([f"aborted/{rank}"]) for rank in others):
            time.sleep(self.interval / 10)
