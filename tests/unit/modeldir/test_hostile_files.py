"""A model directory of somebody else, whose hashes fit: what its files cannot mean is an error, not a traceback."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

import pytest

from dragoman.errors import DamagedError, DragomanError, NotATokenizerError, RecipeError
from dragoman.modeldir.info import read_info
from dragoman.modeldir.layout import load_tokenizers
from dragoman.modeldir.locate import read_recipe
from dragoman.modeldir.weights import read_weights
from raising import raises
from small_model import model_at

NESTED = "[" * 50_000


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return model_at(tmp_path / "model")


@pytest.mark.parametrize(
    "text",
    [
        NESTED, "[1]", "3", '{"vocabulary": Infinity}', '{"vocabulary": [NaN, 3]}', '{"vocabulary": 1e400}',
        '{"vocabulary": 99999999999999999999}', '{"vocabulary": ' + "[" * 500 + "]" * 500 + "}",
        '{"format": 2, "vocabulary": 9, "source_languages": [[]], "target_languages": []}',
        '{"format": 2, "vocabulary": 9, "source_languages": [], "target_languages": [], "license": {}}',
        '{"format": 2, "vocabulary": 9, "source_languages": [], "target_languages": [], "line_lengths": [3]}',
        '{"vocabulary": 9, "x": "\\ud800"}',
    ],
    ids=range(12),
)  # fmt: skip
def test_model_json(model: Path, text: str) -> None:
    (model / "model.json").write_text(text)
    with raises(DamagedError, "file_damaged", "model.json"):
        read_info(model)


@pytest.mark.parametrize(
    "changes",
    [{"targets": [["de"]]}, {"targets": [3]}, {"targets": "de"}, {"format": 2**70}, {"kind": ["x"] * 10_000}],
    ids=range(5),
)
def test_the_description_of_a_tokenizer(model: Path, changes: dict[str, object]) -> None:
    about = json.loads((model / "shared.json").read_text())
    (model / "shared.json").write_text(json.dumps(about | changes))
    with pytest.raises(DragomanError) as caught:
        load_tokenizers(model)
    assert caught.value.code in ("not_a_tokenizer", "unsupported_format") and len(str(caught.value)) < 1000
    (model / "shared.json").write_text(NESTED)
    with raises(NotATokenizerError, "not_a_tokenizer", "shared.json"):
        load_tokenizers(model)


def test_tokens_that_are_not_utf8(model: Path) -> None:
    content = (model / "shared.spm").read_bytes().replace("▁t".encode(), b"\xe2\x96\xff" + b"t", 1)
    about = json.loads((model / "shared.json").read_text())
    (model / "shared.spm").write_bytes(content)
    (model / "shared.json").write_text(json.dumps(about | {"sha256": hashlib.sha256(content).hexdigest()}))
    with raises(NotATokenizerError, "not_a_tokenizer", "shared.spm"):
        load_tokenizers(model)


@pytest.mark.parametrize(
    "text",
    [
        f"a = {NESTED}", f"[model]\nd_model = {NESTED}", "[model]\nd_model = " + "[" * 150 + "]" * 150,
        "model" + ".a" * 3000 + " = 1", "a" + ".a" * 3000 + " = 1", "[model]\npreset = [1]",
        "[model]\npreset = {a = 1}", "[model]\npositions = " + "[" * 100 + "]" * 100, "[model]\nd_model = nan",
        "[train]\nlearning_rate = inf\nx = 1", "# " + "x" * (1 << 20), "[model]\nd_model = " + "9" * 5000,
    ],
    ids=range(12),
)  # fmt: skip
def test_recipe_toml(model: Path, text: str) -> None:
    (model / "recipe.toml").write_text(text)
    with pytest.raises(RecipeError) as caught:
        read_recipe(model)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "about",
    [
        NESTED, "3", "[]", '{"x": 3}', '{"x": {"dtype": "F32", "shape": [1], "data_offsets": [Infinity, 4]}}',
        '{"x": {"dtype": "F32", "shape": [1], "data_offsets": [1e999, 4]}}',
        '{"x": {"dtype": "F32", "shape": [0, 99999999999999999999], "data_offsets": [0, 0]}}',
        '{"x": {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]}}',
        '{"x": {"dtype": "F32", "shape": [[1]], "data_offsets": [0, 4]}}',
        '{"x": {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]}}',
        '{"x": {"dtype": "F32", "shape": [true], "data_offsets": [0, 4]}}',
        '{"x": {"dtype": "F32", "shape": [1], "data_offsets": [0.0, 4.0]}}',
        '{"x": {"dtype": "F32", "shape": [1], "data_offsets": [4611686018427387904, 4611686018427387908]}}',
        '{"x": {"dtype": "F32", "shape": [1], "data_offsets": [-8, -4]}}',
        '{"x": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}',
    ],
    ids=range(15),
)  # fmt: skip
def test_the_header_of_weights(model: Path, about: str) -> None:
    (model / "model.safetensors").write_bytes(struct.pack("<Q", len(about)) + about.encode() + bytes(16))
    with raises(DamagedError, "file_damaged", "model.safetensors"):
        read_weights(model)
