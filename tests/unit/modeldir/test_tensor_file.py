"""Files of tensors are read into memory: truncating or replacing one never ends the process."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from dragoman.errors import DamagedError
from dragoman.modeldir.tensor_file import read_tensor_file
from dragoman.models.loading import TENSOR_TYPES, read_tensors
from raising import raises

NAME = "model.safetensors"
# Read, empty the file, and use what was read: mapped, this is SIGBUS.
USE_AFTER_TRUNCATION = """
import os, sys
from pathlib import Path
from dragoman.conversion.source_checkpoint import read_safetensors
from dragoman.modeldir.weights import read_weights
from dragoman.models.loading import load_weights
from dragoman.training.checkpoints.checkpoint import load_part

path = Path(sys.argv[1])
content = path.read_bytes()
readers = (
    lambda: load_weights(path.parent), lambda: read_weights(path.parent), lambda: load_part(path.parent, "model"),
    lambda: read_safetensors(path),
)
for number, read in enumerate(readers):
    print("reader", number, flush=True)
    path.write_bytes(content)
    found = read()
    os.truncate(path, 0)
    assert [float(tensor.sum()) for tensor in found.values()] == [3 * 700] * 2
"""


def write_ones(path: Path) -> None:
    """Two tensors of a page and more."""
    save_file({name: torch.full((3, 700), 1.0) for name in ("a", "b")}, path)


def test_a_file_truncated_after_it_was_read(tmp_path: Path) -> None:
    write_ones(tmp_path / NAME)
    words = [sys.executable, "-c", USE_AFTER_TRUNCATION, str(tmp_path / NAME)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("left", [0, 3, 8, 50, 5000, 16_000])
@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_file_truncated_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int, call: int
) -> None:
    """Before its size is known, after the header's length, and before the size is known again."""
    write_ones(tmp_path / NAME)
    real, calls = os.fstat, 0

    def fstat(descriptor: int) -> os.stat_result:
        nonlocal calls
        calls += 1
        if calls == min(call, 2):
            before = real(descriptor)
            os.truncate(tmp_path / NAME, left)
            return before if call == 1 else real(descriptor)
        return real(descriptor)

    if call == 3:
        os.truncate(tmp_path / NAME, left)
    monkeypatch.setattr("dragoman.modeldir.tensor_file.os.fstat", fstat)
    with raises(DamagedError, "file_damaged", NAME):
        read_tensor_file(tmp_path / NAME)


def test_every_type_equals_what_safetensors_reads(tmp_path: Path) -> None:
    draw = torch.Generator().manual_seed(3)
    made = {
        name: torch.randint(0, 2 if name == "BOOL" else 60, (3, 5), generator=draw).to(dtype)
        for name, dtype in TENSOR_TYPES.items()
    }
    made |= {"empty": torch.zeros(0, 7), "number": torch.tensor(2.5)}
    save_file(made, tmp_path / NAME, metadata={"format": "pt"})
    found, expected = read_tensors(tmp_path / NAME), load_file(tmp_path / NAME)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape
        assert found[name].reshape(-1).view(torch.uint8).equal(tensor.reshape(-1).view(torch.uint8)), name


def written(path: Path, header: dict[str, Any], content: bytes, padding: int = 0) -> Path:
    about = json.dumps(header).encode() + b" " * padding
    path.write_bytes(struct.pack("<Q", len(about)) + about + content)
    return path


def test_tensors_that_are_not_aligned(tmp_path: Path) -> None:
    header = {
        "odd": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
        "pi": {"dtype": "F32", "shape": [2], "data_offsets": [3, 11]},
    }
    for padding in range(5):
        file = written(tmp_path / NAME, header, b"\1\2\3" + struct.pack("<ff", 3.25, -7.5), padding)
        found = read_tensors(file)
        assert found["odd"].tolist() == [1, 2, 3] and found["pi"].tolist() == [3.25, -7.5]


@pytest.mark.parametrize(
    "second",
    [
        {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},  # twice the same bytes: a small file must stay small
        {"dtype": "F32", "shape": [1], "data_offsets": [2, 6]},
        {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]},  # a gap
        {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]},  # beyond the end
        {"dtype": "F4", "shape": [1], "data_offsets": [4, 8]},
        {"dtype": ["F32"], "shape": [1], "data_offsets": [4, 8]},
        {"dtype": "F32", "shape": [1 << 62, 1 << 62, 0], "data_offsets": [8, 8]},
    ],
)
def test_a_header_that_does_not_fit_the_content(tmp_path: Path, second: dict[str, Any]) -> None:
    header = {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "b": second}
    with raises(DamagedError, "file_damaged", NAME):
        read_tensors(written(tmp_path / NAME, header, bytes(8)))


def test_content_without_a_tensor(tmp_path: Path) -> None:
    assert read_tensors(written(tmp_path / NAME, {}, b"")) == {}
    with raises(DamagedError, "file_damaged", NAME):
        read_tensors(written(tmp_path / NAME, {}, bytes(8)))
