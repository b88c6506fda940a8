"""The mapped file has the tensors that safetensors reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from dragoman.modeldir.weights import map_weights


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
