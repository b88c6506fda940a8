"""Two processes train the rivals, and attention that has weights of its own, to the weights of one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tiny_run import Team, member, prepare_tiny, tiny_run, train_as_member

# An epsilon that is not tiny: Adam divides by the root of tiny squares, so that rounding would show.
PLAIN = ("model.dropout=0.0", "train.steps=5", "train.epsilon=1e-3", "train.ema=0.0", "data.batch_tokens=260")
SIZES = ("model.encoder_layers=3", "model.decoder_layers=2")
MODELS = {
    "recurrent": (*SIZES, "model.architecture=recurrent"),
    "convolutional": (*SIZES, "model.architecture=convolutional"),
    "relative": ("model.positions=relative", "model.max_distance=3", "model.pattern=local", "model.window=2"),
    "syntax": ("model.positions=syntax",),
    "low_rank": ("model.pattern=low_rank", "model.rank=4", "model.max_positions=80"),
}


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
@pytest.mark.parametrize("name", MODELS)
def test_two_processes_equal_one_with_accumulation(tmp_path: Path, name: str, parallel: str) -> None:
    prepare_tiny(tmp_path, trees=name == "syntax")
    settings = (*PLAIN, *MODELS[name])
    tiny_run(tmp_path, tmp_path / "alone", *settings, "train.accumulate=2")
    changes = (*settings, "train.accumulate=1", f"train.parallel={parallel}")
    run = Team(2, member, train_as_member, tmp_path, tmp_path / "both", changes, folder=tmp_path)
    assert run.wait() == [0, 0], run.said()
    one, other = (
        load_file(tmp_path / side / "training/checkpoints/step-00000005/model.safetensors")
        for side in ("alone", "both")
    )
    assert set(one) == set(other)
    for key in one:
        torch.testing.assert_close(one[key], other[key], rtol=2e-4, atol=2e-6, msg=lambda m, n=key: f"{n}: {m}")
