"""Memory-mapped weights equal those read by safetensors; weights of another model are rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from dragoman.config import ModelRecipe
from dragoman.errors import DamagedError
from dragoman.modeldir.weights import EMBEDDING_TABLES, check_tensors, map_weights, tensor_layout
from dragoman.models.loading import build_model
from raising import raises


def test_the_tensors_of_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    shapes = {"b": (3, 5), "a": (7,), "c": (2, 1, 4)}
    made = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    save_file(made, tmp_path / "model.safetensors", metadata={"format": "np"})
    found = map_weights(tmp_path)
    assert found is not None and found.keys() == made.keys()
    for _ in range(2):
        for name, tensor in load_file(tmp_path / "model.safetensors").items():
            np.testing.assert_array_equal(found[name], tensor)
        found.release_memory()  # and again, from the file


def test_other_types_are_not_taken(tmp_path: Path) -> None:
    save_file({"a": np.zeros(3, np.float16), "b": np.zeros(3, np.float32)}, tmp_path / "model.safetensors")
    assert map_weights(tmp_path) is None


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
