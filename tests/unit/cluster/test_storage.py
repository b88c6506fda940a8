"""Inputs by path, pattern, folder and URL; outputs that appear complete."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from dragoman.cluster.storage import OutputDirectory, find_inputs, is_rows, open_input
from dragoman.errors import DataError, OutputError
from raising import raises


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.txt", "sub/c.txt", "sub/deep/a.txt", ".hidden", "d.jsonl", ".git/x.txt"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "in"


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("*.txt", ["a.txt", "b.txt"]),
        ("**/*.txt", ["a.txt", "b.txt", "sub/c.txt", "sub/deep/a.txt"]),
        ("sub/*/a.txt", ["deep/a.txt"]),
        ("sub", ["c.txt", "deep/a.txt"]),
        ("sub/c.txt", ["c.txt"]),
        ("[ab].txt", ["a.txt", "b.txt"]),
        ("", ["a.txt", "b.txt", "d.jsonl", "sub/c.txt", "sub/deep/a.txt"]),
    ],
)
def test_files_keep_their_path_below_the_fixed_part(folder: Path, word: str, names: list[str]) -> None:
    found = find_inputs([str(folder / word)])
    assert sorted(one.name for one in found) == names
    assert all(one.url.startswith(str(folder)) and one.size == Path(one.url).stat().st_size for one in found)


def test_two_files_with_the_same_name_are_rejected(folder: Path) -> None:
    with raises(DataError, "duplicate_file", "a.txt"):
        find_inputs([str(folder / "*.txt"), str(folder / "sub" / "deep")])
    for word in ("*.nothing", "missing.txt"):
        with raises(DataError, "file_missing", word):
            find_inputs([str(folder / word)])
    (folder / "empty").mkdir()
    with raises(DataError, "no_data", "empty"):
        find_inputs([str(folder / "empty")])


def test_a_file_that_changes_has_another_version(folder: Path) -> None:
    path = folder / "a.txt"
    (before,) = find_inputs([str(path)])
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1_000_000))
    (after,) = find_inputs([str(path)])
    assert before.version != after.version


def test_urls_are_read_and_written(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe("/bucket/in/a.txt", b"one")
    memory.pipe("/bucket/in/x/b.txt", b"two")
    found = find_inputs(["memory://bucket/in/**/*.txt"])
    assert [(one.name, open_input(one.url).read()) for one in found] == [("a.txt", b"one"), ("x/b.txt", b"two")]
    out = pickle.loads(pickle.dumps(OutputDirectory("memory://bucket/out")))
    with out.write("x/b.txt") as file:
        file.write(b"TWO")
    assert memory.cat("/bucket/out/x/b.txt") == b"TWO"
    assert (out.size("x/b.txt"), out.size("a.txt"), out.is_local) == (3, None, False)
    with raises(DataError, "unsupported_url", "nothing"):
        find_inputs(["nothing://bucket/a"])


def test_a_file_appears_complete_or_not_at_all(tmp_path: Path) -> None:
    out = OutputDirectory(str(tmp_path / "out"))
    with out.write("sub/a") as file:
        file.write(b"before")
    with pytest.raises(ZeroDivisionError), out.write("sub/a") as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == [tmp_path / "out" / "sub" / "a"]
    assert out.read("sub/a").read() == b"before"
    (tmp_path / "out" / "file").write_bytes(b"")
    with raises(OutputError, "cannot_write", "file"), out.write("file/a") as file:
        pass
    out.write_json("r.json", {"ä": 1})
    assert out.read_json("r.json") == {"ä": 1}
    (tmp_path / "out" / "r.json").write_bytes(b"{")
    assert out.read_json("r.json") is out.read_json("missing.json") is None


def test_what_is_rows_and_what_is_documents(folder: Path) -> None:
    (folder / "page.html").write_text("<html>")
    (folder / "strings.json").write_text("{}")
    for word in ("s3://b/x", "*.html", "a.txt", "d.jsonl", "missing"):
        assert is_rows(word if "://" in word else str(folder / word)), word
    for word in ("page.html", "strings.json", "sub"):
        assert not is_rows(str(folder / word)), word
