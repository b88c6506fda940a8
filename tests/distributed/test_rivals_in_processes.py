"""Two processes train a recurrent or a convolutional model to the weights of one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tiny_run import Team, member, prepare_tiny, tiny_run, train_as_member

# An epsilon that is not tiny: Adam divides by the root of tiny squares, so that rounding would show.
PLAIN = ("model.dropout=0.0", "train.steps=6", "train.epsilon=1e-3", "train.ema=0.0", "data.batch_tokens=260")
SIZES = ("model.encoder_layers=3", "model.decoder_layers=2")


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
@pytest.mark.parametrize("architecture", ["recurrent", "convolutional"])
def test_two_processes_equal_one_with_accumulation(tmp_path: Path, architecture: str, parallel: str) -> None:
    prepare_tiny(tmp_path)
    settings = (*PLAIN, *SIZES, f"model.architecture={architecture}")
    tiny_run(tmp_path, tmp_path / "alone", *settings, "train.accumulate=2")
    changes = (*settings, "train.accumulate=1", f"train.parallel={parallel}")
    run = Team(2, member, train_as_member, tmp_path, tmp_path / "both", changes, folder=tmp_path)
    assert run.wait() == [0, 0], run.said()
    one, other = (
        load_file(tmp_path / side / "training/checkpoints/step-00000006/model.safetensors")
        for side in ("alone", "both")
    )
    assert set(one) == set(other)
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=2e-4, atol=2e-6, msg=lambda m, n=name: f"{n}: {m}")
