"""Discrete-event simulation of servers behind a load balancer: queues, batches, failures."""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Service = Callable[[int, random.Random], float]  # seconds of a batch of so many requests


@dataclass(frozen=True)
class Curve:
    """Seconds of a batch by its size: measured points, and straight lines between them."""

    points: Sequence[tuple[int, float]]

    def __call__(self, size: int, draw: random.Random | None = None) -> float:
        pairs = list(self.points)
        for (low, first), (high, last) in pairwise(pairs):
            if size <= high:
                return first + (last - first) * (size - low) / (high - low)
        size_0, seconds_0 = pairs[-1]
        return seconds_0 * size / size_0  # the rate of the largest batch


@dataclass
class Outcome:
    """What the requests of a simulation met."""

    latencies: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    failed: int = 0
    busy: float = 0.0  # seconds of all workers
    seconds: float = 0.0
    workers: int = 1

    def percentile(self, share: float) -> float:
        """The latency that this share of the requests stays below."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan

    @property
    def rate(self) -> float:
        """Requests per second that were answered."""
        return len(self.latencies) / self.seconds

    @property
    def load(self) -> float:
        """The share of time in which workers were busy."""
        return self.busy / (self.seconds * self.workers)


@dataclass
class _Worker:
    queue: deque[float] = field(default_factory=deque)
    batch: list[float] = field(default_factory=list)
    up: bool = True
    life: int = 0  # a batch that began in an earlier life never ends


def simulate_servers(
    workers: int,
    rate: float,
    service: Service,
    *,
    seconds: float,
    max_batch: int = 1,
    shared_queue: bool = False,
    failures_per_second: float = 0.0,
    restart: float = 5.0,
    warm_up: float = 0.0,
    seed: int = 1,
) -> Outcome:
    """Poisson arrivals at `rate` for `seconds`; each goes to the shorter of two queues, or all to a shared one.

    A worker takes up to `max_batch` waiting requests at once. A worker that fails loses its batch and its queue, and is
    back after `restart` seconds; the balancer gives it nothing meanwhile. Requests of the `warm_up` are not counted.
    """
    draw, outcome = random.Random(seed), Outcome(seconds=seconds - warm_up, workers=workers)
    team = [_Worker() for _ in range(workers)]
    common: deque[float] = deque()
    idle = set(range(workers))
    events: list[tuple[float, int, str, int, int]] = []  # time, tie-breaker, kind, worker, life
    count = 0

    def schedule(at: float, kind: str, which: int = 0, life: int = 0) -> None:
        nonlocal count
        count += 1
        heapq.heappush(events, (at, count, kind, which, life))

    def start(which: int, now: float) -> None:
        worker = team[which]
        waiting = common if shared_queue else worker.queue
        if not waiting or not worker.up:
            if worker.up:
                idle.add(which)
            return
        idle.discard(which)
        worker.batch = [waiting.popleft() for _ in range(min(max_batch, len(waiting)))]
        if now >= warm_up:
            outcome.waits.extend(now - each for each in worker.batch if each >= warm_up)
        took = service(len(worker.batch), draw)
        outcome.busy += max(0.0, min(now + took, seconds) - max(now, warm_up))
        schedule(now + took, "done", which, worker.life)

    def choose() -> int:
        first, second = draw.randrange(workers), draw.randrange(workers)
        loads = [(not team[w].up, len(team[w].queue) + len(team[w].batch), w) for w in (first, second)]
        return min(loads)[2]

    schedule(draw.expovariate(rate), "arrival")
    for which in range(workers if failures_per_second else 0):
        schedule(draw.expovariate(failures_per_second), "failure", which)
    while events:
        now, _, kind, which, life = heapq.heappop(events)
        if now > seconds and kind in ("arrival", "failure"):
            continue
        worker = team[which]
        if kind == "arrival":
            schedule(now + draw.expovariate(rate), "arrival")
            if shared_queue:
                common.append(now)
                if idle:
                    start(idle.pop(), now)
            else:
                chosen = choose()
                team[chosen].queue.append(now)
                if not team[chosen].up:
                    outcome.failed += 1
                    team[chosen].queue.pop()
                elif chosen in idle:
                    start(chosen, now)
        elif kind == "done" and life == worker.life:
            outcome.latencies.extend(now - each for each in worker.batch if each >= warm_up)
            worker.batch = []
            start(which, now)
        elif kind == "failure":
            outcome.failed += len(worker.batch) + len(worker.queue)
            worker.queue.clear()
            worker.batch, worker.up, worker.life = [], False, worker.life + 1
            idle.discard(which)
            schedule(now + restart, "back", which)
            schedule(now + restart + draw.expovariate(failures_per_second), "failure", which)
        elif kind == "back":
            worker.up = True
            start(which, now)
    return outcome


def simulate_clients(clients: int, service: Service, *, seconds: float, max_batch: int, seed: int = 1) -> Outcome:
    """One server and clients that each send the next request when the last is answered, as benchmarks/serve.py does."""
    draw, outcome, now = random.Random(seed), Outcome(seconds=seconds), 0.0
    waiting = deque([0.0] * clients)
    while now < seconds:
        batch = [waiting.popleft() for _ in range(min(max_batch, len(waiting)))]
        now += service(len(batch), draw)
        outcome.latencies.extend(now - each for each in batch)
        waiting.extend([now] * len(batch))
    outcome.seconds = now
    return outcome


def workers_needed(
    rate: float, service: Service, limit: float, *, max_batch: int, seconds: float
) -> tuple[int, Outcome]:
    """The fewest workers for which 99 % of the requests are answered within `limit` seconds."""
    low = max(1, math.ceil(rate * service(max_batch, random.Random(1)) / max_batch))  # fewer cannot keep up
    high = low
    found: dict[int, Outcome] = {}

    def fits(workers: int) -> bool:
        found[workers] = simulate_servers(
            workers, rate, service, seconds=seconds, max_batch=max_batch, warm_up=seconds / 3
        )
        return found[workers].percentile(0.99) <= limit

    while not fits(high):
        low, high = high + 1, math.ceil(high * 1.25) + 1
        if high > 100_000 or service(1, random.Random(1)) > limit:
            raise ValueError(f"no number of workers answers within {limit} s")
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return high, found[high]


def erlang_wait(workers: int, rate: float, service_rate: float) -> float:
    """The mean wait in an M/M/c queue (Erlang C)."""
    load = rate / service_rate
    terms = [load**k / math.factorial(k) for k in range(workers)]
    last = load**workers / math.factorial(workers) * workers / (workers - load)
    return last / (sum(terms) + last) / (workers * service_rate - rate)


def deterministic_wait(rate: float, service: float) -> float:
    """The mean wait in an M/D/1 queue (Pollaczek-Khinchine)."""
    load = rate * service
    return load * service / (2 * (1 - load))
