"""Data-parallel training: the time of a step with its all-reduce, and what checkpoints and failures cost."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Network:
    """Bandwidth between the GPUs of a node and between nodes, in bytes per second, and the latency of a message."""

    inside: float
    between: float
    latency: float = 1e-5


def ring_seconds(size: float, ranks: int, bandwidth: float, latency: float) -> float:
    """A ring all-reduce: 2 (n - 1) messages of 1/n of the data."""
    return 2 * (ranks - 1) * (size / ranks / bandwidth + latency)


def all_reduce_seconds(size: float, nodes: int, per_node: int, network: Network) -> float:
    """All-reduce in two levels: within each node, then between the nodes, whose GPUs share their network."""
    inside = ring_seconds(size, per_node, network.inside, network.latency)
    return inside + ring_seconds(size, nodes, network.between, network.latency)


def step_seconds(compute: float, size: float, nodes: int, per_node: int, network: Network) -> float:
    """A step whose all-reduce begins after the backward pass, as in `training/steps/cuda_graph.py`."""
    return compute + all_reduce_seconds(size, nodes, per_node, network)


def efficiency(compute: float, size: float, nodes: int, per_node: int, network: Network) -> float:
    """The share of the speed of one GPU that each of many has, with the same batch for each."""
    return compute / step_seconds(compute, size, nodes, per_node, network)


@dataclass(frozen=True)
class Failures:
    """Seconds between failures of the whole cluster, of a checkpoint, and until training goes on after a failure."""

    between: float
    checkpoint: float
    restart: float

    def best_interval(self) -> float:
        """Young's interval between checkpoints, in seconds of work."""
        return math.sqrt(2 * self.checkpoint * self.between)

    def overhead(self, interval: float) -> float:
        """Time per second of work: each interval and its checkpoint start again after a failure (Daly)."""
        segment = interval + self.checkpoint
        return (self.between + self.restart) * math.expm1(segment / self.between) / interval


def simulate_run(work: float, interval: float, failures: Failures, seed: int = 1) -> float:
    """The seconds that a run of `work` seconds takes: after a failure, it resumes from its last checkpoint."""
    draw, now, saved = random.Random(seed), 0.0, 0.0
    next_failure = draw.expovariate(1 / failures.between)
    while saved < work:
        segment = min(interval, work - saved)
        end = now + segment + failures.checkpoint
        if end <= next_failure:
            now, saved = end, saved + segment
            continue
        now = next_failure + failures.restart
        next_failure = now + draw.expovariate(1 / failures.between)
    return now
