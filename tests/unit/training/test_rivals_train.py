"""Training recurrent and convolutional models: bit-exact resume, packed and padded, fine-tuning."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import torch

from dragoman.errors import TrainingError
from dragoman.training.starting_weights import load_starting_weights
from raising import raises
from small_model import model_at
from tiny_run import Crash, CrashAt, difference, outcome, prepare_tiny, recipe, tiny_run

SETTINGS = {
    "recurrent": ("model.architecture=recurrent", "model.encoder_layers=2", "model.decoder_layers=2"),
    "bottleneck": ("model.architecture=recurrent", "model.attention=none", "model.cell=rnn", "model.decoder_layers=1"),
    "convolutional": ("model.architecture=convolutional", "model.decoder_layers=2", "model.positions=learned"),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    prepare_tiny(directory)
    return directory


@pytest.mark.parametrize(
    ("architecture", "layout"),
    [*product(("recurrent", "convolutional"), ("padded", "packed")), ("bottleneck", "packed")],
)
def test_stopped_and_resumed_to_the_bit(data: Path, tmp_path: Path, architecture: str, layout: str) -> None:
    changes = (*SETTINGS[architecture], f"data.layout={layout}")
    tiny_run(data, tmp_path / "whole", *changes)
    for step in (2, 7):
        with pytest.raises(Crash):
            tiny_run(data, tmp_path / "m", *changes, reporter=CrashAt(step))
    tiny_run(data, tmp_path / "m", *changes)
    assert difference(outcome(tmp_path / "whole"), outcome(tmp_path / "m")) == ""
    card = (tmp_path / "m" / "card.md").read_text(encoding="utf-8")
    details = {"recurrent": "LSTM cells", "bottleneck": "RNN cells, no attention", "convolutional": "windows of 3"}
    assert details[architecture] in card
    assert "heads" not in card


@pytest.mark.parametrize("architecture", ["recurrent", "convolutional"])
def test_a_model_begins_from_one_of_its_kind_alone(tmp_path: Path, architecture: str) -> None:
    from dragoman.models.loading import build_model, load_weights

    there = model_at(tmp_path / "there", architecture=architecture)
    sizes = ("model.d_model=6", "model.encoder_layers=1", "model.decoder_layers=2")
    model = build_model(recipe(f"model.architecture={architecture}", *sizes).model, 330, pad=0)
    load_starting_weights(model, there)
    for name, weights in load_weights(there).items():
        assert torch.equal(model.state_dict()[name], weights)
    other = "convolutional" if architecture == "recurrent" else "recurrent"
    with raises(TrainingError, "weights_mismatch"):
        load_starting_weights(build_model(recipe(f"model.architecture={other}", *sizes).model, 330, pad=0), there)
