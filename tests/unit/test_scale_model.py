"""The models of benchmarks/scale against closed forms."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from statistics import mean

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from scale.bulk import expected_seconds, simulate_shards
from scale.serving import (
    Curve,
    deterministic_wait,
    erlang_wait,
    simulate_clients,
    simulate_servers,
    workers_needed,
)
from scale.training import Failures, Network, all_reduce_seconds, efficiency, ring_seconds, simulate_run, step_seconds


@pytest.mark.parametrize(("workers", "load"), [(1, 0.5), (3, 0.8)])
def test_waits_are_those_of_erlang(workers: int, load: float) -> None:
    rate = workers * load  # one request a second and worker
    found = simulate_servers(
        workers, rate, lambda size, draw: draw.expovariate(1.0), seconds=30_000 / workers, shared_queue=True
    )
    assert mean(found.waits) == pytest.approx(erlang_wait(workers, rate, 1.0), rel=0.1)
    assert found.load == pytest.approx(load, rel=0.05)


def test_waits_with_a_constant_service_are_half_as_long() -> None:
    found = simulate_servers(1, 0.7, lambda size, draw: 1.0, seconds=30_000, shared_queue=True)
    assert mean(found.waits) == pytest.approx(deterministic_wait(0.7, 1.0), rel=0.1)
    assert deterministic_wait(0.7, 1.0) == pytest.approx(erlang_wait(1, 0.7, 1.0) / 2)


def test_batches_serve_what_single_requests_cannot() -> None:
    curve = Curve([(1, 0.1), (8, 0.2), (64, 0.64)])
    assert [curve(size) for size in (1, 8, 64, 128)] == pytest.approx([0.1, 0.2, 0.64, 1.28])
    assert curve(36) == pytest.approx(0.42)
    busy = simulate_servers(1, 60, curve, seconds=60, max_batch=64, warm_up=20)
    assert busy.rate == pytest.approx(60, rel=0.1)  # one by one it would answer 10
    closed = simulate_clients(64, curve, seconds=60, max_batch=64)
    assert closed.rate == pytest.approx(100) and closed.percentile(0.5) == pytest.approx(0.64)


def test_as_many_workers_as_the_limit_takes() -> None:
    curve = Curve([(1, 0.02), (64, 0.5)])
    count, found = workers_needed(200, curve, 0.2, max_batch=64, seconds=15)
    assert found.percentile(0.99) <= 0.2
    fewer = simulate_servers(count - 1, 200, curve, seconds=15, max_batch=64, warm_up=5)
    assert fewer.percentile(0.99) > 0.2
    with pytest.raises(ValueError, match="no number of workers"):
        workers_needed(200, curve, 0.01, max_batch=64, seconds=3)


def test_failures_cost_the_requests_of_a_worker() -> None:
    curve = Curve([(1, 0.01), (64, 0.3)])
    whole = simulate_servers(4, 50, curve, seconds=200, max_batch=64)
    failing = simulate_servers(4, 50, curve, seconds=200, max_batch=64, failures_per_second=0.02, restart=5)
    assert whole.failed == 0 and 0 < failing.failed < 0.1 * len(failing.latencies)
    assert len(failing.latencies) + failing.failed == pytest.approx(50 * 200, rel=0.05)


def test_shards_without_failures_are_a_division() -> None:
    assert simulate_shards(10, 4, 60.0).seconds == 180.0
    assert simulate_shards(8, 4, 60.0).seconds == 120.0
    uneven = simulate_shards(400, 8, 60.0, spread=0.3)
    assert uneven.ideal < uneven.seconds < 1.1 * uneven.ideal  # workers of different speeds end together
    assert simulate_shards(8, 8, 60.0, spread=0.3).seconds > 1.2 * simulate_shards(8, 8, 60.0, spread=0.3).ideal


def test_shards_with_failures_take_the_expected_time() -> None:
    times = [
        simulate_shards(1, 1, 100.0, mean_time_between_failures=150.0, restart=20.0, seed=seed).seconds
        for seed in range(4000)
    ]
    assert mean(times) == pytest.approx(expected_seconds(100.0, 150.0, 20.0), rel=0.05)


def test_the_all_reduce_has_its_limits() -> None:
    assert ring_seconds(1e9, 1, 1e9, 1e-5) == 0.0
    assert ring_seconds(1e9, 10_000, 1e9, 0.0) == pytest.approx(2.0, rel=1e-3)  # the data, twice
    network = Network(inside=4e11, between=5e10, latency=0.0)
    assert step_seconds(0.03, 1e8, 1, 1, network) == 0.03
    many = efficiency(0.03, 1e8, 100_000, 8, network)
    assert many == pytest.approx(0.03 / (0.03 + 2 * 1e8 * (7 / 8 / 4e11 + 1 / 5e10)), rel=1e-4)
    # A fixed batch for all: the speed-up cannot exceed compute / all-reduce, as in Amdahl's law.
    speedups = [0.03 / step_seconds(0.03 / n, 1e8, n, 1, network) for n in (1, 8, 64, 4096)]
    assert speedups == sorted(speedups) and speedups[-1] < 0.03 / all_reduce_seconds(1e8, 4096, 1, network)


def test_runs_with_failures_take_dalys_time() -> None:
    failures = Failures(between=3_000.0, checkpoint=10.0, restart=60.0)
    interval = failures.best_interval()
    found = mean(simulate_run(60_000.0, interval, failures, seed) for seed in range(60)) / 60_000.0
    assert found == pytest.approx(failures.overhead(interval), rel=0.02)
    assert failures.overhead(interval) < min(failures.overhead(interval * f) for f in (0.3, 3.0))
    assert failures.overhead(1e-9 + interval) < 1.2
    assert math.isclose(Failures(1e12, 10.0, 60.0).overhead(1000.0), 1.01, rel_tol=1e-3)
