"""Simulation of translating shards of a corpus: stragglers, workers that die, shards that are redone."""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class BulkOutcome:
    """How long a job took, and what was lost on the way."""

    seconds: float
    failures: int
    redone_seconds: float  # of work that was lost
    ideal: float  # seconds without failures, if the workers could share the last shards


def simulate_shards(
    shards: int,
    workers: int,
    shard_seconds: float,
    *,
    spread: float = 0.0,
    mean_time_between_failures: float = math.inf,
    restart: float = 60.0,
    seed: int = 1,
) -> BulkOutcome:
    """Each free worker takes the next shard; one that fails starts its shard again, `restart` seconds later.

    Workers differ in speed: their seconds per shard are log-normal with this standard deviation of the logarithm.
    """
    draw = random.Random(seed)
    pace = [shard_seconds * math.exp(draw.gauss(0, spread) - spread**2 / 2) for _ in range(workers)]
    free = [(0.0, worker) for worker in range(min(workers, shards))]
    heapq.heapify(free)
    end, failures, lost = 0.0, 0, 0.0
    for _ in range(shards):
        now, worker = heapq.heappop(free)
        while (life := draw.expovariate(1.0) * mean_time_between_failures) < pace[worker]:
            now, failures, lost = now + life + restart, failures + 1, lost + life
        now += pace[worker]
        end = max(end, now)
        heapq.heappush(free, (now, worker))
    return BulkOutcome(end, failures, lost, shards / sum(1 / each for each in pace))


def expected_seconds(duration: float, mean_time_between_failures: float, restart: float) -> float:
    """The mean time of work that starts again after each failure; failures are a Poisson process."""
    return (mean_time_between_failures + restart) * math.expm1(duration / mean_time_between_failures)
