"""A run neither begins nor resumes with prepared data that are not the ones that were written."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.data.prepared import Prepared
from dragoman.errors import DataError
from dragoman.files import MANIFEST
from raising import raises
from tiny_run import Crash, CrashAt, prepare_tiny, tiny_run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("whole")
    prepare_tiny(place)
    return place


@pytest.fixture
def data(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "data"))


def flip_ids(data: Path, count: int) -> None:
    """Exchange ids for other ids of the vocabulary, which training itself cannot notice."""
    path, draw = data / "prepared/train.source.ids", random.Random(1)
    ids = np.fromfile(path, np.uint16)
    for position in draw.sample(range(len(ids)), count):
        ids[position] ^= 1
    ids.tofile(path)


def forget_hashes(data: Path) -> None:
    path = data / "prepared" / MANIFEST
    manifest = json.loads(path.read_text())
    for entry in manifest["files"].values():
        del entry["sha256"]
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize("count", [1, 300])
def test_a_run_does_not_begin_with_other_ids(data: Path, tmp_path: Path, count: int) -> None:
    flip_ids(data, count)
    with raises(DataError, "file_damaged", "train.source.ids"):
        tiny_run(data, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_run_does_not_resume_with_other_ids(data: Path, tmp_path: Path) -> None:
    with pytest.raises(Crash):
        tiny_run(data, tmp_path / "out", reporter=CrashAt(5))
    flip_ids(data, 1)
    with raises(DataError, "file_damaged", "train.source.ids"):
        tiny_run(data, tmp_path / "out")


def test_old_data_without_hashes_are_used(data: Path, tmp_path: Path) -> None:
    forget_hashes(data)
    tiny_run(data, tmp_path / "out", "train.steps=1")
    assert (tmp_path / "out/model.safetensors").exists()
    ids = np.fromfile(data / "prepared/valid.target.ids", np.uint16)
    ids[3] = 60_000
    ids.tofile(data / "prepared/valid.target.ids")
    with raises(DataError, "file_damaged", "60,000"):
        Prepared.open(data / "prepared").verify()


@pytest.mark.parametrize("bit", [0, 9, 31, 40, 62, 63])
def test_flipped_offsets_are_errors(data: Path, bit: int) -> None:
    path, draw = data / "prepared/train.target.offsets", random.Random(bit)
    whole = np.fromfile(path, np.uint64)
    for position in (0, len(whole) - 1, draw.randrange(1, len(whole) - 1)):
        offsets = whole.copy()
        offsets[position] ^= np.uint64(1 << bit)
        offsets.tofile(path)
        prepared = Prepared.open(data / "prepared")
        with raises(DataError, "file_damaged"):
            prepared.verify()
        try:
            lengths = prepared.split().target.lengths
        except DataError as error:
            assert error.code == "file_damaged"
        else:  # a small shift between two sentences; only the hash can tell
            assert bit < 4 and lengths.min() >= 0 and lengths.sum() == whole[-1]


CHANGES: list[Callable[[Any], Any]] = [
    lambda m: {**m, "files": []},
    lambda m: {**m, "files": {"x": 3}},
    lambda m: {**m, "files": {"../x": {"bytes": 3, "sha256": "0"}}},
    lambda m: {**m, "files": {"x": {"bytes": "3"}}},
    lambda m: {**m, "splits": {"train": {"pairs": 3}}},
    lambda m: {**m, "splits": {"train": {"pairs": 3, "parts": [{"name": "x"}]}}},
    lambda m: {**m, "splits": {"train": {"pairs": 3, "parts": [{"name": "x", "start": -1, "stop": 3}]}}},
    lambda m: {**m, "splits": {"train": {"pairs": -3, "parts": []}}},
    lambda m: {**m, "tokenizers": {}},
    lambda m: {**m, "tokenizers": {side: {"name": "shared", "vocabulary_size": "9"} for side in ("source", "target")}},
    lambda m: {**m, "fingerprint": 3},
    lambda m: {**m, "report": None},
    lambda m: {**m, "report": {"read": "many", "rules": {}}},
    lambda m: {**m, "report": {"read": 3, "rules": {"empty": 3}}},
    lambda m: {**m, "x": float("inf")},
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_manifest_with_other_values_is_an_error(data: Path, change: Callable[[Any], Any]) -> None:
    path = data / "prepared" / MANIFEST
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with raises(DataError, "file_damaged", MANIFEST):
        Prepared.open(data / "prepared")


def test_a_deeply_nested_manifest_is_an_error(data: Path) -> None:
    (data / "prepared" / MANIFEST).write_text("[" * 100_000)
    with raises(DataError, "file_damaged", MANIFEST):
        Prepared.open(data / "prepared")


def test_other_inputs_in_the_manifest_are_an_error(data: Path) -> None:
    path = data / "prepared" / MANIFEST
    manifest = json.loads(path.read_text())
    del manifest["inputs"]["corpora"][0]["files"]
    path.write_text(json.dumps(manifest))
    with raises(DataError, "file_damaged", MANIFEST):
        Prepared.open(data / "prepared").verify()
