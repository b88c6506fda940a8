"""Files appear complete or not at all."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from dragoman.errors import DamagedError, DragomanError, OutputError
from dragoman.files import (
    MANIFEST,
    check_new_directory,
    exclusive_lock,
    manifest_entries,
    parse_json,
    staged,
    verify_manifest,
    write_atomically,
    write_manifest,
    write_output,
)
from raising import raises
from tiny_run import start


def fill(directory: Path, text: str) -> None:
    (directory / "a").write_text(text)
    (directory / "b").write_text(2 * text)
    write_manifest(directory)


def test_write_atomically_replaces_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    write_atomically(path, "one")
    write_atomically(path, b"two")
    assert path.read_text() == "two"
    (tmp_path / "link").symlink_to("x")
    write_atomically(tmp_path / "link", b"three")
    assert (path.read_text(), (tmp_path / "link").is_symlink()) == ("three", True)
    (tmp_path / "link").unlink()

    def fails(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, "four")
    assert path.read_text() == "three"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes")
@pytest.mark.parametrize("content", ["one", [b"o", b"ne"]])
def test_an_output_that_is_a_pipe_stays_one(tmp_path: Path, content: str | list[bytes]) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_output(path, content)
    assert os.read(reader, 9) == b"one" and path.is_fifo()
    os.close(reader)


def test_a_damaged_manifest_and_a_changed_recipe_are_explained(tmp_path: Path) -> None:
    fill(tmp_path, "text")
    (tmp_path / "recipe.toml").write_text("[model]")
    write_manifest(tmp_path)
    for content in ("[train]", "[model]\nd_model = 8"):
        (tmp_path / "recipe.toml").write_text(content)
        with raises(DamagedError, "file_damaged", "recipe.toml", "train again with the changed recipe"):
            verify_manifest(tmp_path)
    (tmp_path / MANIFEST).write_text("[]")
    with raises(DamagedError, "file_damaged", MANIFEST, "restore it from a copy") as caught:
        verify_manifest(tmp_path)
    assert "TypeError" not in str(caught.value)


def test_a_manifest_confirms_and_refuses(tmp_path: Path) -> None:
    fill(tmp_path, "text")
    verify_manifest(tmp_path)
    cases = {"a": (b"texT", "file_damaged"), "b": (b"texttex", "file_damaged"), MANIFEST: (b"{}", "file_damaged")}
    for name, (content, code) in cases.items():
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content)
        with raises(DamagedError, code, name, "restore it from a copy"):
            verify_manifest(tmp_path)
        (tmp_path / name).write_bytes(whole)
    verify_manifest(tmp_path)
    newer = json.loads((tmp_path / MANIFEST).read_text()) | {"format": 2}
    (tmp_path / MANIFEST).write_text(json.dumps(newer))
    with raises(DamagedError, "unsupported_format", "format 2"):
        verify_manifest(tmp_path)
    (tmp_path / MANIFEST).unlink()
    with raises(DamagedError, "manifest_missing"):
        verify_manifest(tmp_path)


def test_ignored_files_may_change(tmp_path: Path) -> None:
    fill(tmp_path, "text")  # a manifest that lists b
    for change in ((tmp_path / "b").unlink, lambda: (tmp_path / "b").write_text("edited")):
        change()
        verify_manifest(tmp_path, ignored=["b"])
        with raises(DamagedError, "file_missing" if not (tmp_path / "b").exists() else "file_damaged", "b"):
            verify_manifest(tmp_path)
    write_manifest(tmp_path, ignored=["b"])
    assert list(manifest_entries(tmp_path)) == ["a"]


def test_a_new_directory_is_absent_or_empty(tmp_path: Path) -> None:
    check_new_directory(tmp_path / "new")
    check_new_directory(tmp_path)
    (tmp_path / "file").touch()
    for taken, code in ((tmp_path, "output_exists"), (tmp_path / "file", "not_a_directory")):
        with raises(OutputError, code, str(taken)):
            check_new_directory(taken)


def test_a_manifest_names_all_that_is_read(tmp_path: Path) -> None:
    fill(tmp_path, "text")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "c").write_text("no part of it")
    (tmp_path / ".a.17.new").write_text("what a killed process left")
    verify_manifest(tmp_path, ["a"])
    with raises(DamagedError, "manifest_incomplete", "does not list c"):
        verify_manifest(tmp_path, ["a", "c"])
    (tmp_path / "log.txt").write_text("what a person put beside it")
    verify_manifest(tmp_path)
    (tmp_path / "c.toml").write_text("more")
    with raises(DamagedError, "manifest_incomplete", "c.toml"):
        verify_manifest(tmp_path)
    (tmp_path / "c.toml").unlink()
    (tmp_path / "b").rename(tmp_path / "b.safetensors")
    write_manifest(tmp_path)
    whole = json.loads((tmp_path / MANIFEST).read_text())
    del whole["files"]["b.safetensors"]
    (tmp_path / MANIFEST).write_text(json.dumps(whole))
    (tmp_path / "b.safetensors").write_text("forged")
    with raises(DamagedError, "manifest_incomplete", "b.safetensors"):
        verify_manifest(tmp_path)


@pytest.mark.parametrize("name", ["{}/a", "../{}/a", "..", "inside/a", "./a", ""])
def test_a_manifest_names_files_of_its_directory_alone(tmp_path: Path, name: str) -> None:
    fill(tmp_path, "text")
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    manifest["files"][name.format(tmp_path if name[0:1] == "{" else tmp_path.name)] = manifest["files"]["a"]
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    with raises(DamagedError, "file_damaged"):
        verify_manifest(tmp_path)


def test_staged_is_all_or_nothing(tmp_path: Path) -> None:
    place = tmp_path / "place"
    with staged(place) as staging:
        fill(staging, "one")
    with pytest.raises(ZeroDivisionError), staged(place) as staging:
        fill(staging, "two")
        raise ZeroDivisionError
    assert (place / "a").read_text() == "one"
    with staged(place) as staging:
        fill(staging, "three")
        with raises(DragomanError, "locked"), staged(place):
            pass
    assert (place / "a").read_text() == "three"
    assert [p.name for p in tmp_path.iterdir()] == ["place"]


def stage_and_die(place: Path, call: int) -> None:
    calls = 0
    real = Path.rename

    def rename(self: Path, target: Path) -> Path:
        nonlocal calls
        calls += 1
        if calls == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, target)

    Path.rename = rename  # type: ignore[method-assign]
    with staged(place) as staging:
        fill(staging, "new")


@pytest.mark.parametrize("call", [1, 2])
def test_killed_at_a_rename(tmp_path: Path, call: int) -> None:
    place = tmp_path / "place"
    with staged(place) as staging:
        fill(staging, "old")
    process = start(stage_and_die, place, call)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert place.exists() == (call == 1)
    with pytest.raises(ZeroDivisionError), staged(place):  # the next writer puts the old one back, though it fails
        raise ZeroDivisionError
    verify_manifest(place)
    assert (place / "a").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["place"]


def test_an_exception_between_the_renames_puts_the_old_one_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    with staged(place) as staging:
        fill(staging, "old")
    real = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if self.name.endswith(".staging"):
            raise KeyboardInterrupt
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(KeyboardInterrupt), staged(place) as staging:
        fill(staging, "new")
    assert (place / "a").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["place"]


def hold_and_wait(path: Path, said: Path) -> None:
    with exclusive_lock(path, "testing"):
        said.touch()
        signal.pause()


def test_one_process_holds_a_lock_and_a_killed_holder_lets_go(tmp_path: Path) -> None:
    process = start(hold_and_wait, tmp_path / "lock", tmp_path / "said")
    while not (tmp_path / "said").exists():
        assert process.is_alive()
    refused = raises(DragomanError, "locked", f"process {process.pid} on", "is testing")
    with refused, exclusive_lock(tmp_path / "lock", "testing"):
        pass
    process.kill()
    process.join()
    with exclusive_lock(tmp_path / "lock", "testing"):
        pass
    with exclusive_lock(tmp_path / "lock", "testing"):
        pass


@pytest.mark.parametrize(
    "content",
    [
        '{"a": [1, -2.5e3, null, true, "\\ud83d\\ude00", "ü😀"]}',
        "[]",
        "3",
        '"x"',
        "[" * 32 + "]" * 32,
        "\ufeff[1]",
        " 1 ",
    ],
)
def test_json_is_read_as_the_library_reads_it(content: str) -> None:
    assert parse_json(content.encode()) == json.loads(content.encode())


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[" * 100_000, b'{"a":' * 100_000, b"[" * 900 + b"]" * 900, b"[" * 34 + b"]" * 34, b"NaN",
        b"[Infinity]", b"-Infinity", b"1e999", b"9" * 5000, b'"\\ud800"', b'{"\\udfff": 1}', b'"\xed\xa0\x80"',
        b"\xff\xfe1\x00", b'"\xff"',
    ],
    ids=range(16),
)  # fmt: skip
def test_json_that_would_fail_later_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(content)


def test_numbers_that_are_not_finite_are_read_on_request() -> None:
    assert parse_json("[Infinity, 1e999]", finite=False) == [float("inf")] * 2


@pytest.mark.parametrize(
    "entry",
    ["Infinity", "NaN", "1e400", "[" * 50_000, "null", '{"bytes": Infinity, "sha256": ""}', '{"bytes": "\\ud800"}'],
)
def test_a_hostile_manifest_is_damaged(tmp_path: Path, entry: str) -> None:
    (tmp_path / MANIFEST).write_text(f'{{"format": 1, "files": {{"a": {entry}}}}}')
    with raises(DamagedError, "file_damaged", MANIFEST):
        manifest_entries(tmp_path)


def test_a_manifest_names_no_files_outside(tmp_path: Path) -> None:
    for name in ("../x", "/etc/passwd", "a\0b", "..", ""):
        entries = {name: {"bytes": 1, "sha256": ""}}
        (tmp_path / MANIFEST).write_text(json.dumps({"format": 1, "files": entries}))
        with raises(DamagedError, "file_damaged"):
            manifest_entries(tmp_path)
