"""The speed measurement before a run: it chooses the fastest number of threads and changes nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import dragoman
import dragoman.training.speed as speed
from dragoman import SilentReporter
from dragoman.data.prepared import Prepared
from dragoman.errors import TrainingError
from dragoman.training.defaults import Choice
from dragoman.training.duration import fit_minutes, run_seconds, smaller_model_choice, step_seconds
from dragoman.training.speed import Speed, fastest_threads, measure_speed, thread_options, time_steps
from raising import raises
from tiny_run import TINY, prepare_tiny, recipe, write_corpus

CPU = torch.device("cpu")
SETTINGS = [*TINY, "train.steps=4", "train.warmup_steps=1"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare_tiny(tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def _threads() -> Any:
    with speed.threads_kept():
        yield


@pytest.mark.parametrize(
    ("timings", "chosen"),
    [
        ({1: 0.38, 2: 4.9}, 1),  # threads that wait for each other on a busy machine
        ({1: 1.0, 2: 0.95}, 1),  # not worth a second core
        ({1: 1.0, 2: 0.6, 4: 0.35, 8: 0.34}, 4),
        ({3: 1.0}, 3),
    ],
)
def test_more_threads_are_used_only_if_they_pay(timings: dict[int, float], chosen: int) -> None:
    assert fastest_threads(timings) == chosen


def test_what_there_is_to_choose_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "available_cores", lambda: 6)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert thread_options(CPU, 1) == [1, 2, 4, 6]
    assert thread_options(CPU, 2) == thread_options(torch.device("cuda"), 1) == [torch.get_num_threads()]
    monkeypatch.setenv("OMP_NUM_THREADS", "3")  # the user has chosen
    assert thread_options(CPU, 1) == [torch.get_num_threads()]


def test_threads_take_turns_and_a_slow_machine_ends_it_early(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, ran = [0.0], []

    def step(_: Any, batch: Any) -> None:
        ran.append(torch.get_num_threads())
        now[0] += {1: 0.001, 2: 0.013}[ran[-1]] * batch.target_tokens * slowness

    class Steps:
        ranks = speed.Ranks(device=CPU)

    monkeypatch.setattr(speed, "run_step", step)
    monkeypatch.setattr("dragoman.training.speed.time.perf_counter", lambda: now[0])
    with prepared.loader(recipe().data) as loader:
        batches = [next(loader) for _ in range(3)]
    for slowness, order in ((1.0, [1, 2, 1, 2, 1, 2]), (100.0, [1, 2])):
        ran.clear()
        found = time_steps(Steps(), batches, [1, 2])  # type: ignore[arg-type]
        assert found == pytest.approx({1: 0.001 * slowness, 2: 0.013 * slowness}) and ran == order


def test_measuring_changes_no_random_state_and_counts_parameters(prepared: Prepared) -> None:
    torch.manual_seed(9)
    before = torch.get_rng_state()
    found = measure_speed(recipe(), prepared, CPU, [1], lambda model: 7.0)
    assert torch.equal(before, torch.get_rng_state())
    from dragoman.models.loading import build_model

    model = build_model(recipe().model, prepared.tokenizers[0].vocabulary_size, 0)
    assert found.parameters == sum(p.numel() for p in model.parameters())
    assert found.memory > 16 * found.parameters and found.seconds_per_evaluation == 7.0
    assert set(found.timings) == {1} and found.seconds_per_token > 0


@pytest.mark.gpu
def test_a_gpu_is_measured_with_the_steps_of_the_run(prepared: Prepared) -> None:
    """Compiled steps are several times as fast as eager ones; only the first is slow."""
    made = recipe("data.layout=packed", "train.compile=true")
    found = measure_speed(made, prepared, torch.device("cuda"), [torch.get_num_threads()])
    with prepared.loader(made.data) as loader:
        steps = speed.make_steps(
            speed.build_model(made.model, prepared.tokenizers[0].vocabulary_size, 0).cuda(),
            made.train,
            torch.device("cuda"),
            next(loader),
        )
    assert isinstance(steps, speed.CudaGraphSteps)
    assert found.startup_seconds > 10 * found.seconds_per_token * made.data.batch_tokens


def test_a_run_that_compiles_is_shorter_by_the_time_of_compiling(prepared: Prepared) -> None:
    plain = fit_minutes(recipe(), prepared, 1, Speed(1, 0.001, 0.0, 1000, 1000, {1: 0.001}), 1)
    compiled = fit_minutes(recipe(), prepared, 1, Speed(1, 0.001, 0.0, 1000, 1000, {1: 0.001}, 30.0), 1)
    assert compiled.steps == pytest.approx(plain.steps / 2, abs=1) and plain.steps > 20
    with raises(TrainingError, "out_of_range", "--minutes 0.4"):
        fit_minutes(recipe(), prepared, 1, Speed(1, 1e-6, 0.0, 1000, 1000, {1: 1e-6}, 30.0), 0.4)


def test_the_choice_is_recorded_and_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(speed, "available_cores", lambda: 3)
    monkeypatch.setattr("dragoman.training.session.available_cores", lambda: 3)
    monkeypatch.setattr(speed, "fastest_threads", lambda timings: max(timings))
    corpus = write_corpus(tmp_path)
    torch.set_num_threads(1)
    run: dict[str, Any] = {"source": corpus.source, "target": corpus.target, "out": tmp_path / "m", "device": "cpu"}
    dragoman.train(**run, changes=SETTINGS, reporter=SilentReporter())
    assert torch.get_num_threads() == 1  # of the caller
    path = tmp_path / "m/training/run.json"
    assert json.loads(path.read_text())["machine"]["threads"] == 3
    used = []
    monkeypatch.setattr(speed, "fastest_threads", lambda timings: pytest.fail("measured again"))
    real = torch.set_num_threads
    monkeypatch.setattr(torch, "set_num_threads", lambda n: (used.append(n), real(n)))
    dragoman.train(**run, changes=[*SETTINGS, "train.steps=6"], reporter=SilentReporter())
    assert used[0] == 3 and json.loads(path.read_text())["machine"]["threads"] == 3


def test_the_run_that_fits_a_time_takes_that_time(prepared: Prepared) -> None:
    made = recipe("train.accumulate=1", "train.warmup_steps=2")
    for seconds, evaluation in ((1e-4, 0.5), (1e-4, 20.0), (1e-3, 0.0)):
        found = Speed(1, seconds, evaluation, 1000, 10**6, {1: seconds})
        length = fit_minutes(made, prepared, 1, found, 5)
        every = max(1, length.steps // length.evaluations)
        planned = recipe(
            "train.accumulate=1", "train.warmup_steps=2", f"train.steps={length.steps}", f"train.evaluate_every={every}"
        )
        total = run_seconds(planned, prepared, 1, found, fine_tuning=True)
        epochs = length.steps * step_seconds(made, prepared, 1, found)
        assert total <= 300 + evaluation
        assert total > 0.85 * 300 or epochs > 0.98 * 60 * seconds * (int(prepared.split().target.lengths.sum()) + 280)
        few = fit_minutes(made, prepared, 1, found, 10**5, max_epochs=2)
        assert few.capped and few.steps * 30 == fit_minutes(made, prepared, 1, found, 10**5).steps
    with raises(TrainingError, "out_of_range", "--minutes 0.1"):
        fit_minutes(made, prepared, 1, Speed(1, 1.0, 1.0, 1000, 1000, {1: 1.0}), 0.1)


def test_a_smaller_model_only_where_the_size_was_ours_to_choose() -> None:
    sizes = [Choice("text.vocabulary_size=900", "x"), Choice("model.preset=small", "y")]
    smaller = smaller_model_choice(sizes, {"train.seed"})
    assert smaller is not None and smaller.change == "model.preset=tiny"
    assert smaller_model_choice(sizes, {"model.d_model"}) is None
    assert smaller_model_choice([Choice("model.preset=tiny", "y")], set()) is None
