"""Weights in int8: rounding, files of a limited size, and models that every engine loads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from command_line import leave
from dragoman.engines.native import NativeEngine
from dragoman.engines.torch import TorchEngine
from dragoman.errors import DamagedError, DragomanError
from dragoman.files import write_manifest
from dragoman.modeldir.int8 import join_parts, pair_scales, quantize_matrix, quantize_weights, split_tensors
from dragoman.modeldir.quantized_model import quantize_model
from dragoman.modeldir.weights import read_weights, weight_files, weights_sha256
from dragoman.models.loading import load_weights
from dragoman.search.types import Search
from raising import raises
from random_models import RECIPES, sentences, write_random
from tiny_model import write_tiny_model


def test_rounding_is_that_of_a_loop() -> None:
    matrix = np.random.default_rng(1).normal(size=(5, 7)).astype(np.float32)
    matrix[3] = 0
    found = quantize_matrix(matrix)
    for r, row in enumerate(matrix):
        scale = max(abs(float(x)) for x in row) / 127
        assert found.scales[r] == pytest.approx(scale)
        assert found.values[r].tolist() == [round(float(x) / scale) if scale else 0 for x in row]
    assert np.abs(found.to_float() - matrix).max() <= found.scales.max() / 2 + 1e-7


def test_files_hold_at_most_the_limit_and_give_everything_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    weights = {"big": rng.normal(size=(301, 50)), "middle": rng.normal(size=(40, 70)), "bias": rng.normal(size=(33,))}
    stored = quantize_weights({name: w.astype(np.float32) for name, w in weights.items()})
    files = split_tensors(stored, 5000)
    assert len(files) > 3
    for number, tensors in enumerate(files):
        save_file(tensors, tmp_path / f"{number}.safetensors")
        assert (tmp_path / f"{number}.safetensors").stat().st_size <= 5000
    read = {name: tensor for path in tmp_path.iterdir() for name, tensor in load_file(path).items()}
    floats, matrices = pair_scales(join_parts(read))
    assert floats.keys() == {"bias"} and matrices.keys() == {"big", "middle"}
    for name, matrix in matrices.items():
        np.testing.assert_array_equal(matrix.values, stored[name])


@pytest.mark.parametrize("name", RECIPES)
def test_engines_agree_on_a_quantized_model(name: str, tmp_path: Path) -> None:
    recipe, vocabulary = RECIPES[name]
    directory = write_random(tmp_path / "m", recipe, vocabulary)
    weights = read_weights(directory)
    assert weights is not None
    stored = quantize_weights(weights)
    for number, tensors in enumerate(split_tensors(stored, 20_000), 1):
        save_file(tensors, directory / (f"model-{number}.safetensors" if number > 1 else "model.safetensors"))
    write_manifest(directory)
    native, exact = NativeEngine.load(directory, 1, quantize=False), TorchEngine.load(directory)
    int8 = NativeEngine.load(directory, 1, quantize=True)
    assert native is not None and int8 is not None
    sources, search = sentences(9, min(native.vocabulary)), Search(beam=2, extra_length=5)
    for ours, theirs in zip(native.search(sources, search), exact.search(sources, search), strict=True):
        assert ours[0].ids == theirs[0].ids
        assert ours[0].log_probability == pytest.approx(theirs[0].log_probability, abs=2e-3)
    for name_, tensor in load_weights(directory).items():
        np.testing.assert_array_equal(tensor.numpy(), read_weights(directory)[name_])  # type: ignore[index]
    # The C engine rounds float weights to the same int8 numbers, so the same weights in float32 give the same bits.
    plain = tmp_path / "plain"
    plain.mkdir()
    for file in ("recipe.toml", "model.json"):
        (plain / file).write_bytes((directory / file).read_bytes())
    unpacked = read_weights(directory)
    assert unpacked is not None
    save_file(dict(unpacked), plain / "model.safetensors")
    again = NativeEngine.load(plain, 1, quantize=True)
    assert again is not None
    for one, other in zip(int8.search(sources, search), again.search(sources, search), strict=True):
        assert one[0].ids == other[0].ids
        assert one[0].log_probability == pytest.approx(other[0].log_probability, abs=1e-4)


def test_the_command_writes_a_model_that_translates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = write_tiny_model(tmp_path / "m"), tmp_path / "small"
    assert leave(capsys, "quantize", str(model), "--out", str(out))[0] == 0
    total = [sum(path.stat().st_size for path in weight_files(place)) for place in (model, out)]
    assert total[1] < 0.4 * total[0] and weights_sha256(model)[:16] in (out / "card.md").read_text()
    code, text, _ = leave(capsys, "translate", str(out), "--text", "the old box")
    assert code == 0 and text
    assert leave(capsys, "quantize", str(out), "--out", str(tmp_path / "again"))[0] == 2
    with raises(DragomanError, "already_quantized"):
        quantize_model(out, tmp_path / "again")
    assert len(weight_files(quantize_model(model, tmp_path / "parts", 9_000).path)) > 2
    assert leave(capsys, "translate", str(tmp_path / "parts"), "--text", "the old box")[1] == text
    (out / "model.safetensors").unlink()
    assert leave(capsys, "translate", str(out), "--text", "the old box")[0] == 2


def test_scales_and_parts_that_do_not_match_are_damage(tmp_path: Path) -> None:
    q, scales = np.ones((4, 3), np.int8), np.ones(4, np.float32)
    for wrong in (
        {"a": q},
        {"a": q, "a.row_scales": scales[:3]},
        {"a@0": q, "a@5": q, "a.row_scales": scales},
        {"a@1": q},
        {"a": q, "a@0": q, "a.row_scales": scales},
        {"a@x": q},
    ):
        save_file(wrong, tmp_path / "model.safetensors")
        with raises(DamagedError, "file_damaged"):
            read_weights(tmp_path)
    save_file({"a": q, "a.row_scales": scales}, tmp_path / "model.safetensors")
    save_file({"a": q}, tmp_path / "model-2.safetensors")
    with raises(DamagedError, "file_damaged"):
        read_weights(tmp_path)


def test_floats_are_aligned_wherever_they_are_in_the_file(tmp_path: Path) -> None:
    """The safetensors library sorts tensors by size; others need not."""
    entries = {
        "m": {"dtype": "I8", "shape": [1, 3], "data_offsets": [0, 3]},
        "m.row_scales": {"dtype": "F32", "shape": [1], "data_offsets": [3, 7]},
    }
    header = json.dumps(entries).encode()
    content = np.array([1, 2, 3], np.int8).tobytes() + np.array([0.5], np.float32).tobytes()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + content)
    weights = read_weights(tmp_path)
    assert weights is not None and weights.int8["m"].scales.flags.aligned
    assert weights["m"].tolist() == [[0.5, 1.0, 1.5]]
