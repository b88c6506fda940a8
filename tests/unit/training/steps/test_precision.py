from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from dragoman.config import TrainRecipe
from dragoman.errors import TrainingError
from dragoman.nn.linear import bfloat16_matmul
from dragoman.training.distributed.ranks import join
from dragoman.training.steps.eager import precision
from raising import raises

CPU = torch.device("cpu")


def machine(monkeypatch: pytest.MonkeyPatch, *, kernel: bool, survives: bool) -> None:
    monkeypatch.setattr("dragoman.training.steps.eager.has_bfloat16_matmul", lambda: kernel)
    monkeypatch.setattr("dragoman.training.steps.eager.torch_bfloat16_works", lambda: survives)


def test_a_cpu_that_dies_of_bfloat16_is_refused_before_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, kernel=False, survives=False)
    with raises(TrainingError, "unsupported_precision", "train.precision='float32'"):
        precision(TrainRecipe(precision="bfloat16"), CPU)


def test_our_kernel_first_and_pytorchs_where_it_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, kernel=True, survives=False)
    assert precision(TrainRecipe(precision="bfloat16"), CPU) is bfloat16_matmul
    machine(monkeypatch, kernel=False, survives=True)
    with precision(TrainRecipe(precision="bfloat16"), CPU)():
        assert torch.is_autocast_enabled("cpu")


def test_float32_unless_asked_or_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, kernel=True, survives=True)
    assert precision(TrainRecipe(), CPU) is nullcontext
    assert precision(TrainRecipe(precision="float32"), CPU) is nullcontext


@pytest.mark.gpu
def test_bfloat16_on_a_gpu_without_asking() -> None:
    with precision(TrainRecipe(), torch.device("cuda"))():
        assert torch.get_autocast_dtype("cuda") == torch.bfloat16
        assert torch.is_autocast_enabled("cuda")


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with raises(TrainingError, "device_unavailable"):
        join(torch.device("cuda"))
