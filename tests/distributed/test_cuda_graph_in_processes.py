"""Queued steps in two processes; streams and graphs are stood in for, sums over processes are real."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import dragoman.training.trainer
from dragoman.data.batch import Batch
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.steps.cuda_graph import CudaGraphSteps, all_reduce_gradients
from dragoman.training.steps.eager import EagerSteps
from dragoman.training.trainer import Trainer
from no_gpu import stand_in
from tiny_run import Team, Telling, assert_alike, member, prepare_tiny, tiny_run

PACKED = ("model.dropout=0.0", "train.steps=6", "train.epsilon=1e-3", "data.batch_tokens=260", "data.layout=packed")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    prepare_tiny(directory)
    return directory


def train_queued(ranks: Ranks, data: Path, out: Path, changes: tuple[str, ...]) -> None:
    """The tiny run among others, with queued steps, and a start that must be made the same."""
    stand_in()
    dragoman.training.trainer.supports_cuda_graph = lambda *_: True  # type: ignore[assignment]
    used, made = [], CudaGraphSteps.__init__

    def counted(steps: CudaGraphSteps, *args: object) -> None:
        used.append(steps)
        made(steps, *args)  # type: ignore[arg-type]

    CudaGraphSteps.__init__ = counted  # type: ignore[assignment, method-assign]
    begin = Trainer._steps_for

    def astray(trainer: Trainer, batch: Batch) -> EagerSteps | CudaGraphSteps:
        with torch.no_grad():
            for weight in trainer.model.parameters():
                weight += ranks.rank
        return begin(trainer, batch)

    Trainer._steps_for = astray  # type: ignore[method-assign]
    tiny_run(data, out, *changes, "train.compile=true", reporter=Telling() if ranks.first else None, ranks=ranks)
    assert len(used) == 1


def team(world: int, data: Path, out: Path, *changes: str) -> Team:
    out.parent.mkdir(parents=True)
    return Team(world, member, train_queued, data, out, changes, folder=out.parent)


@pytest.mark.parametrize("clip", ["train.clip=0.0", "train.clip=0.05"])
def test_two_processes_equal_one_with_accumulation(data: Path, tmp_path: Path, clip: str) -> None:
    alone, both = tmp_path / "alone/m", tmp_path / "both/m"
    tiny_run(data, alone, *PACKED, clip, "train.accumulate=2")
    run = team(2, data, both, *PACKED, clip, "train.accumulate=1")
    assert run.wait() == [0, 0], run.said()
    assert_alike(alone, both, 6)


def sum_up(ranks: Ranks) -> None:
    """Gradients of two precisions, and a weight that has none."""
    task = nn.ModuleList([nn.Linear(3, 5), nn.Linear(5, 2, dtype=torch.bfloat16), nn.Linear(7, 7)])
    weights = list(task.parameters())
    for number, weight in enumerate(weights[:4]):
        weight.grad = torch.full_like(weight, 10.0 * number + ranks.rank + 1)
    all_reduce_gradients(weights)
    for number, weight in enumerate(weights[:4]):
        assert weight.grad is not None and weight.grad.dtype == weight.dtype
        assert torch.equal(weight.grad, torch.full_like(weight, 3 * 10.0 * number + 6))
    assert weights[4].grad is None


def test_gradients_of_several_precisions_are_summed_apart(tmp_path: Path) -> None:
    run = Team(3, member, sum_up, folder=tmp_path)
    assert run.wait() == [0, 0, 0], run.said()
