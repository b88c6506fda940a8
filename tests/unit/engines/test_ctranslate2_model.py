"""Models that cannot be exported are rejected with a clear error, and existing files are kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from dragoman.engines.ctranslate2_conversion import to_ctranslate2
from dragoman.errors import DamagedError, DragomanError, ModelNotFoundError, OutputError
from raising import raises
from small_model import model_at

pytest.importorskip("ctranslate2")


def test_weights_that_are_not_the_recipes(tmp_path: Path) -> None:
    file = model_at(tmp_path / "m") / "model.safetensors"
    whole = load_file(file)
    name = "decoder.1.cross.key_value.weight"
    for tensors, mention in (
        ({n: w for n, w in whole.items() if n != name}, name),
        ({**whole, name: whole[name][:-1].copy()}, "(11, 6)"),
        ({**whole, "more": np.zeros(3, np.float32)}, "tensor more"),
    ):
        save_file(tensors, file)
        with raises(DamagedError, "weights_mismatch", mention):
            to_ctranslate2(tmp_path / "m", tmp_path / "out")
    with raises(ModelNotFoundError, "not_a_model", "recipe.toml"):
        to_ctranslate2(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_output_that_exists_and_invalid_options(tmp_path: Path) -> None:
    model = model_at(tmp_path / "m")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    with raises(OutputError, "output_exists", "thesis.txt"):
        to_ctranslate2(model, tmp_path / "out")
    with raises(DragomanError, "count_mismatch", "2 tokens", "330"):
        to_ctranslate2(model, tmp_path / "new", tokens=(["a", "b"], ["a", "b"]))
    with raises(DragomanError, "unknown_choice", "'int3'"):
        to_ctranslate2(model, tmp_path / "new", "int3")
    assert (tmp_path / "out" / "thesis.txt").exists() and not (tmp_path / "new").exists()
