from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from dragoman.config import TrainRecipe
from dragoman.errors import TrainingError
from dragoman.train.step import precision


def test_a_cpu_that_dies_of_bfloat16_is_refused_before_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.train.step.survives_bfloat16", lambda: False)
    with pytest.raises(TrainingError, match=r"illegal instruction .* use train\.precision='float32'"):
        precision(TrainRecipe(precision="bfloat16"), torch.device("cpu"))


def test_float32_unless_asked_or_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.train.step.survives_bfloat16", lambda: True)
    cpu = torch.device("cpu")
    assert precision(TrainRecipe(), cpu) is nullcontext
    with precision(TrainRecipe(precision="bfloat16"), cpu)():
        assert torch.is_autocast_enabled("cpu")


@pytest.mark.gpu
def test_bfloat16_on_a_gpu_without_asking() -> None:
    with precision(TrainRecipe(), torch.device("cuda"))():
        assert torch.get_autocast_dtype("cuda") == torch.bfloat16
        assert torch.is_autocast_enabled("cuda")
