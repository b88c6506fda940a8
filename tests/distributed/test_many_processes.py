"""Two processes and more: the same weights as one, the same end for all, and a name for who is lost."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.data.prepared import Prepared
from dragoman.training.distributed.heartbeat import EXIT_CODE
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.steps.eager import EagerSteps
from dragoman.training.trainer import Trainer
from tiny_run import (
    Found,
    Team,
    Telling,
    assert_alike,
    difference,
    evaluate,
    member,
    outcome,
    prepare_tiny,
    tiny_run,
    train_as_member,
)

QUICK = {"DRAGOMAN_HEARTBEAT_INTERVAL": "0.2", "DRAGOMAN_HEARTBEAT_TIMEOUT": "2"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    prepare_tiny(directory)
    return directory


def team(world: int, data: Path, out: Path, *changes: str, **environment: str) -> Team:
    out.parent.mkdir(exist_ok=True, parents=True)
    return Team(world, member, train_as_member, data, out, changes, folder=out.parent, **environment)


# Batches of very unequal size: some of them hold one long sentence, others a dozen short ones. Adam divides by the root
# of tiny squares, so that rounding shows in the weights; an epsilon that is not tiny keeps it as small as it is.
PLAIN = ("model.dropout=0.0", "train.steps=6", "train.epsilon=1e-3", "train.ema=0.0", "data.batch_tokens=260")


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_processes_equal_one_with_accumulation(data: Path, tmp_path: Path, parallel: str) -> None:
    alone, both = tmp_path / "alone/m", tmp_path / "both/m"
    tiny_run(data, alone, *PLAIN, "train.accumulate=2")
    run = team(2, data, both, *PLAIN, "train.accumulate=1", f"train.parallel={parallel}")
    assert run.wait() == [0, 0], run.said()
    assert_alike(alone, both, 6)


def count_tokens(data: Path, world: int) -> list[list[int]]:
    prepared = Prepared.open(data / "prepared")
    from tiny_run import recipe

    loaders = [prepared.loader(recipe(*PLAIN).data, rank=rank, world=world, epochs=1) for rank in range(world)]
    return [[batch.target_tokens for batch in loader] for loader in loaders]


def test_the_batches_are_unequal_and_the_last_is_empty(data: Path) -> None:
    """What the tests here rest on: unequal batches for two, and with three an epoch that does not divide."""
    first, second = count_tokens(data, 2)
    assert max(a / max(1, b) for a, b in zip(first, second, strict=True)) > 2
    assert any(row[-1] == 0 for row in count_tokens(data, 3)) or any(row[-1] == 0 for row in count_tokens(data, 4))


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_a_rank_without_a_batch_does_not_hang(data: Path, tmp_path: Path, layout: str) -> None:
    worlds = [world for world in (3, 4) if any(row[-1] == 0 for row in count_tokens(data, world))]
    run = team(worlds[0], data, tmp_path / "m", "train.steps=12", "train.accumulate=1", f"data.layout={layout}")
    assert run.wait() == [0] * worlds[0], run.said()
    progress = json.loads((tmp_path / "m/training/checkpoints/step-00000012/progress.json").read_text())
    assert progress["loader"] >> 32 >= 1  # past the end of an epoch


def kill_when(path: Path, run: Team, rank: int, number: int) -> float:
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until, run.said()
        time.sleep(0.01)
    os.kill(run.members[rank].pid, number)
    return time.monotonic()


@pytest.mark.parametrize(("parallel", "world", "steps"), [("ddp", 3, 24), ("fsdp", 2, 12)])
def test_killed_and_resumed_is_the_same_to_the_bit(
    data: Path, tmp_path: Path, parallel: str, world: int, steps: int
) -> None:
    """Three of them, because with two the order of a sum cannot show."""
    changes = (f"train.parallel={parallel}", f"train.steps={steps}")
    run = team(world, data, tmp_path / "one/m", *changes)
    assert run.wait() == [0] * world, run.said()
    run = team(world, data, tmp_path / "two/m", *changes, **QUICK)
    kill_when(tmp_path / "two/m/training/checkpoints/step-00000003", run, 1, signal.SIGKILL)
    codes = run.wait()
    assert codes[1] == -signal.SIGKILL and codes[0] == EXIT_CODE, run.said()
    run = team(world, data, tmp_path / "two/m", *changes)
    assert run.wait() == [0] * world, run.said()
    assert difference(outcome(tmp_path / "one/m"), outcome(tmp_path / "two/m")) == ""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_lost_rank_ends_the_run_with_its_name(data: Path, tmp_path: Path, rank: int, number: int) -> None:
    run = team(2, data, tmp_path / "m", "train.steps=100000", **QUICK)
    began = kill_when(tmp_path / "m/training/checkpoints/step-00000004", run, rank, number)
    other = run.members[1 - rank]
    other.join(30)
    took = time.monotonic() - began
    pid = run.members[rank].pid
    if number == signal.SIGSTOP:
        os.kill(pid, signal.SIGKILL)
    run.wait(5)
    assert other.exitcode == EXIT_CODE, run.said()
    assert f"rank {rank} (process {pid} on " in run.said()
    assert took < 15


def test_all_frozen_together_go_on_together(data: Path, tmp_path: Path) -> None:
    """As Ctrl-Z and `fg` do it: nobody is taken for lost because everybody slept."""
    run = team(2, data, tmp_path / "m", "train.steps=100000", "train.keep=2", **QUICK)
    kill_when(tmp_path / "m/training/checkpoints/step-00000004", run, 0, 0)
    for number, seconds in ((signal.SIGSTOP, 2.6), (signal.SIGCONT, 1.0)):
        for process in run.members:
            os.kill(process.pid, number)
        time.sleep(seconds)
    alive = [process.is_alive() for process in run.members]
    for process in run.members:
        process.kill()
    run.wait()
    assert alive == [True, True], run.said()


SLEPT: list[bool] = []


def slow_look(model: torch.nn.Module, check: Callable[[], None]) -> Found:
    if not SLEPT:
        SLEPT.append(True)
        time.sleep(3)  # longer than a silence that would count as lost
    return evaluate(model)


def evaluate_slowly(ranks: Ranks, data: Path, out: Path) -> None:
    tiny_run(data, out, "train.steps=2", ranks=ranks, look=slow_look, reporter=Telling() if ranks.first else None)


def test_others_wait_while_the_first_evaluates(data: Path, tmp_path: Path) -> None:
    run = Team(2, member, evaluate_slowly, data, tmp_path / "m", folder=tmp_path, **QUICK)
    assert run.wait() == [0, 0], run.said()


def stopped_look(model: torch.nn.Module, check: Callable[[], None]) -> Found:
    if not SLEPT:
        SLEPT.append(True)
        os.kill(os.getpid(), signal.SIGTERM)
    check()
    return evaluate(model)


def evaluate_stopped(ranks: Ranks, data: Path, out: Path) -> None:
    tiny_run(data, out, "train.steps=4", ranks=ranks, look=stopped_look)


def evaluate_whole(ranks: Ranks, data: Path, out: Path) -> None:
    tiny_run(data, out, "train.steps=4", ranks=ranks)


def test_all_stop_when_the_first_breaks_its_evaluation_off(data: Path, tmp_path: Path) -> None:
    run = Team(2, member, evaluate_stopped, data, tmp_path / "m", folder=tmp_path, **QUICK)
    assert run.wait() == [143, 143], run.said()
    for out in ("m", "whole"):
        run = Team(2, member, evaluate_whole, data, tmp_path / out, folder=tmp_path, **QUICK)
        assert run.wait() == [0, 0], run.said()
    assert difference(outcome(tmp_path / "whole"), outcome(tmp_path / "m")) == ""


def spoil_one_rank(ranks: Ranks, data: Path, out: Path) -> None:
    real = EagerSteps._clipped_norm

    def spoilt(waited: EagerSteps) -> float:
        if waited.step in (2, 5) and ranks.rank == 1:
            next(waited.model.parameters()).grad[0, 0] = float("inf")  # type: ignore[index]
        return real(waited)

    EagerSteps._clipped_norm = spoilt  # type: ignore[method-assign]
    steps = []
    step = Trainer.step

    def watched(trainer: Trainer, loader: Any) -> None:
        step(trainer, loader)
        first = next(trainer.model.parameters()).detach().double().sum()
        steps.append([trainer.state.step, trainer.state.skipped, float(first)])

    Trainer.step = watched  # type: ignore[method-assign]
    tiny_run(data, out, "train.steps=6", ranks=ranks)
    (out.parent / f"steps-{ranks.rank}").write_text(json.dumps(steps))


def test_an_infinite_gradient_on_one_rank_makes_both_skip(data: Path, tmp_path: Path) -> None:
    run = Team(2, member, spoil_one_rank, data, tmp_path / "m", folder=tmp_path)
    assert run.wait() == [0, 0], run.said()
    both = [json.loads((tmp_path / f"steps-{rank}").read_text()) for rank in (0, 1)]
    assert both[0] == both[1]
    assert [skipped for _, skipped, _ in both[0]] == [0, 1, 1, 1, 2, 2]
    values = [value for _, _, value in both[0]]
    assert values[0] == values[1] and values[3] == values[4] and values[1] != values[2]


def test_another_number_of_processes_goes_on_and_says_so(data: Path, tmp_path: Path) -> None:
    changes = ("train.steps=40", "train.evaluate_every=20", "train.save_every=3")
    run = team(2, data, tmp_path / "m", *changes, **QUICK)
    kill_when(tmp_path / "m/training/checkpoints/step-00000003", run, 0, signal.SIGTERM)
    assert run.wait() == [143, 143], run.said()
    assert run.said().count("run the same command to resume") == 1  # one speaks for all
    run = team(3, data, tmp_path / "m", *changes)
    assert run.wait() == [0, 0, 0], run.said()
    assert "processes 2, now 3" in run.said() and "rounding" in run.said()


def fail_on_one(ranks: Ranks, which: int) -> None:
    if ranks.rank == which:
        raise MemoryError("no room for a batch")
    ranks.sum(1.0)


@pytest.mark.parametrize("which", [0, 1])
def test_an_error_of_one_ends_all(tmp_path: Path, which: int) -> None:
    run = Team(2, member, fail_on_one, which, folder=tmp_path, **QUICK)
    codes = run.wait(20)
    assert codes[which] == 1 and codes[1 - which] == EXIT_CODE
    assert "MemoryError: no room for a batch" in run.said()


def tell_and_fail(ranks: Ranks) -> None:
    assert ranks.broadcast(lambda: {"a": 1 / 3}) == {"a": 1 / 3}
    from dragoman.errors import DataError

    def fail() -> None:
        raise DataError("there is no corpus")

    ranks.broadcast(fail)


def test_what_the_first_refuses_is_said_once(tmp_path: Path) -> None:
    run = Team(3, member, tell_and_fail, folder=tmp_path)
    codes = run.wait(20)
    assert codes[0] == 2 and all(code in (2, EXIT_CODE) for code in codes), run.said()
    assert run.said().count("there is no corpus") == 1
