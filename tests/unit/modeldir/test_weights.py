"""Weights equal those read by safetensors; weights of another model are rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from dragoman.config import ModelRecipe
from dragoman.errors import DamagedError
from dragoman.modeldir.weights import EMBEDDING_TABLES, check_tensors, read_weights, tensor_layout
from dragoman.models.loading import build_model
from raising import raises


def test_the_tensors_of_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    shapes = {"b": (3, 5), "a": (7,), "c": (2, 1, 4)}
    made = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    save_file(made, tmp_path / "model.safetensors", metadata={"format": "np"})
    found = read_weights(tmp_path)
    assert found is not None and found.keys() == made.keys()
    for name, tensor in load_file(tmp_path / "model.safetensors").items():
        np.testing.assert_array_equal(found[name], tensor)


def test_weights_in_memory_do_not_follow_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    made = {name: rng.normal(size=(40, 300)).astype(np.float32) for name in "abc"}  # several pages each
    save_file(made, tmp_path / "model.safetensors")
    found = read_weights(tmp_path)
    assert found is not None
    (tmp_path / "model.safetensors").write_bytes(b"")  # mapped, this would be the end of the process
    found.keep_only(["b"])
    assert found.keys() == {"b"}
    np.testing.assert_array_equal(found["b"], made["b"])


def test_an_empty_file_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    with raises(DamagedError, "file_damaged"):
        read_weights(tmp_path)


def test_other_types_are_not_taken(tmp_path: Path) -> None:
    save_file({"a": np.zeros(3, np.float16), "b": np.zeros(3, np.float32)}, tmp_path / "model.safetensors")
    assert read_weights(tmp_path) is None


@pytest.mark.parametrize("tie", EMBEDDING_TABLES)
def test_the_layout_is_that_of_the_model(tie: Literal["all", "target", "none"]) -> None:
    recipe = ModelRecipe(d_model=6, n_heads=3, d_ff=10, encoder_layers=1, decoder_layers=2, tie=tie)
    model = build_model(recipe, 19 if tie == "all" else (19, 23), 0)
    layout = [tensor for tensor in tensor_layout(recipe, (19, 19 if tie == "all" else 23)) if tensor]
    assert dict(layout) == {name: tuple(w.shape) for name, w in model.state_dict().items()}


def test_other_tensors_are_damage(tmp_path: Path) -> None:
    expected = [("a", (3, 5)), ("b", (7,))]
    found = dict(expected)
    check_tensors(tmp_path, found, expected)
    for wrong, mention in (({"a": (3, 5)}, "b"), ({**found, "a": (5, 3)}, "(5, 3)"), ({**found, "c": (2,)}, "c")):
        with raises(DamagedError, "weights_mismatch", mention):
            check_tensors(tmp_path, wrong, expected)
