from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

from dragoman.native.algorithm_file import AlgorithmFile
from dragoman.native.cublas import MatmulProblem

PROBLEM = str(MatmulProblem(512, 1024, 512, (False, True), (512, 1024, 512), "bfloat16"))
OTHER = str(MatmulProblem(512, 1024, 512, (False, True), (512, 1024, 512), "bfloat16", relu=True))
DEEP = ["[" * 100_000, '{"b": ' + "[" * 600 + "]" * 600 + "}", '{"a GPU": {"x": ' + "[" * 600 + "]" * 600 + "}}"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "products.json"


def stored(path: Path, machine: str = "a GPU") -> dict[str, bytes]:
    found = AlgorithmFile(path)
    return {problem: algorithm for problem in (PROBLEM, OTHER) if (algorithm := found.get(machine, problem))}


def test_other_machines_and_other_runs_lose_nothing(path: Path) -> None:
    AlgorithmFile(path).add("another GPU", PROBLEM, b"\1" * 64)
    first, second = AlgorithmFile(path), AlgorithmFile(path)
    first.add("a GPU", PROBLEM, b"\2" * 64)
    second.add("a GPU", OTHER, b"\3" * 64)
    assert stored(path, "another GPU") == {PROBLEM: b"\1" * 64}
    assert stored(path) == {PROBLEM: b"\2" * 64, OTHER: b"\3" * 64}
    assert {file.name for file in path.parent.iterdir()} == {path.name, "products.lock"}


def test_of_runs_that_begin_together_all_take_what_the_first_found(path: Path) -> None:
    first, second, third = (AlgorithmFile(path) for _ in range(3))
    assert first.add("a GPU", PROBLEM, b"\1" * 64) == b"\1" * 64
    assert second.add("a GPU", PROBLEM, b"\2" * 64) == second.get("a GPU", PROBLEM) == b"\1" * 64
    assert stored(path) == {PROBLEM: b"\1" * 64}
    assert third.add("a GPU", PROBLEM, b"\3" * 64, lambda other: False) == b"\3" * 64  # the library rejects theirs
    assert stored(path) == {PROBLEM: b"\3" * 64}
    first.add("a GPU", OTHER, b"\4" * 64)  # which knows an algorithm that is no longer the stored one
    assert stored(path) == {PROBLEM: b"\3" * 64, OTHER: b"\4" * 64}


def test_nothing_found_is_nothing_stored(path: Path) -> None:
    assert AlgorithmFile(path).add("a GPU", PROBLEM, None) is None
    assert json.loads(path.read_text()) == {"a GPU": {}}


def add_many(path: Path, first: int) -> None:
    file = AlgorithmFile(path)
    for m in range(first, first + 25):
        file.add("a GPU", str(m), b"\1" * 64)


def test_processes_that_write_at_once_lose_nothing(path: Path) -> None:
    begun = [multiprocessing.get_context("fork").Process(target=add_many, args=(path, 100 * n)) for n in range(1, 5)]
    for process in begun:
        process.start()
    for process in begun:
        process.join()
    assert all(process.exitcode == 0 for process in begun)
    assert len(json.loads(path.read_text())["a GPU"]) == 100


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"a GPU": 3}', '{"a GPU": {"x": 3, "y": "zz"}}', "\0", '{"a GPU": {"x": "\\u00e9"}}', *DEEP],
    ids=range(10),
)
def test_a_damaged_file_is_as_good_as_none(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    file = AlgorithmFile(path)
    assert not any(file._known.values())
    file.add("a GPU", PROBLEM, b"\1" * 64)
    assert stored(path) == {PROBLEM: b"\1" * 64}


def test_a_path_that_cannot_be_written_to_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    file = AlgorithmFile(tmp_path / "file" / "products.json")
    file.add("a GPU", PROBLEM, b"\1" * 64)
    assert file.get("a GPU", PROBLEM) == b"\1" * 64
