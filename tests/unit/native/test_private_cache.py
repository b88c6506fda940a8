"""The cache directory: nothing is read from one that another user could have written or replaced."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dragoman.modeldir.layout import verify_model_cached
from dragoman.native import cache
from dragoman.native.algorithm_file import AlgorithmFile
from dragoman.native.cache import CacheError, cache_directory, private_directory, read_private, write_private
from tiny_model import write_tiny_model

STRANGER = 12345
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def test_created_for_this_user_alone(tmp_path: Path) -> None:
    made = private_directory(tmp_path / "a" / "b")
    assert made == tmp_path.resolve() / "a/b" and private_directory(made) == made
    assert [path.stat().st_mode & 0o777 for path in (made, made.parent)] == [0o700, 0o700]


@pytest.mark.parametrize("which", ["a", "a/b", "a/b/c"])
@pytest.mark.parametrize("mode", [0o777, 0o772, 0o720])
def test_a_directory_that_others_can_write_is_rejected_wherever_it_stands(
    tmp_path: Path, which: str, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "own_group", lambda: None)
    private_directory(tmp_path / "a/b/c")
    (tmp_path / which).chmod(mode)
    with pytest.raises(CacheError, match="DRAGOMAN_CACHE"):
        private_directory(tmp_path / "a/b/c")


def test_a_group_of_this_user_alone_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = private_directory(tmp_path / "a")
    path.chmod(0o770)
    monkeypatch.setattr(cache, "own_group", lambda: path.stat().st_gid)
    assert private_directory(path) == path
    path.chmod(0o777)
    with pytest.raises(CacheError):
        private_directory(path)


def test_a_sticky_directory_keeps_what_is_ours(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    assert private_directory(tmp_path / "tmp" / "mine").is_dir()


@needs_root
@pytest.mark.parametrize("which", ["a", "a/b", "a/b/c"])
@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_a_directory_of_another_user_is_rejected_wherever_it_stands(tmp_path: Path, which: str, mode: int) -> None:
    private_directory(tmp_path / "a/b/c")
    (tmp_path / which).chmod(mode)
    os.chown(tmp_path / which, STRANGER, STRANGER)
    with pytest.raises(CacheError, match=str(STRANGER)):
        private_directory(tmp_path / "a/b/c")


@pytest.mark.parametrize("below", ["", "a"])
@pytest.mark.parametrize("target", ["real", "nothing"])
def test_no_link_is_followed_unless_root_made_it(
    tmp_path: Path, below: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(target)
    if os.geteuid() == 0:
        os.chown(tmp_path / "link", STRANGER, STRANGER, follow_symlinks=False)
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)  # the link's own maker
    with pytest.raises(CacheError, match="link"):
        private_directory(tmp_path / "link" / below)
    assert not (tmp_path / "nothing").exists()


@needs_root
def test_links_of_the_system_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")  # as /var is on macOS, and /var/cache/NAME of a service with DynamicUser
    assert private_directory(tmp_path / "link" / "a") == tmp_path.resolve() / "real/a"
    assert private_directory(tmp_path / "link") == tmp_path.resolve() / "real"


@needs_root
def test_a_link_in_a_shared_directory_is_rejected_even_if_root_made_it(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    (tmp_path / "tmp" / "link").symlink_to(tmp_path / "real")
    with pytest.raises(CacheError, match="link"):
        private_directory(tmp_path / "tmp" / "link" / "a")


@needs_root
def test_links_of_root_that_go_in_circles_or_back(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(CacheError, match="link"):
        private_directory(tmp_path / "circle" / "a")
    (tmp_path / "real").mkdir()
    (tmp_path / "back").symlink_to("real/../real")
    assert private_directory(tmp_path / "back" / "a") == tmp_path.resolve() / "real/a"


def test_a_file_is_read_by_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "own_group", lambda: None)
    file = tmp_path / "file"
    write_private(file, b"content")
    assert read_private(file) == b"content" and file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    (tmp_path / "link").symlink_to(file)
    os.mkfifo(tmp_path / "pipe")  # opening it must not wait for a writer
    (tmp_path / "directory").mkdir()
    for name in ("link", "pipe", "directory"):
        with pytest.raises(CacheError):
            read_private(tmp_path / name)
    file.chmod(0o620)
    with pytest.raises(CacheError):
        read_private(file)
    with pytest.raises(FileNotFoundError):
        read_private(tmp_path / "nothing")


@needs_root
def test_a_file_of_another_user_is_not_read(tmp_path: Path) -> None:
    write_private(tmp_path / "file", b"content")
    os.chown(tmp_path / "file", STRANGER, STRANGER)
    with pytest.raises(CacheError, match=str(STRANGER)):
        read_private(tmp_path / "file")


def test_a_user_without_a_home_has_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(_: object = None) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("DRAGOMAN_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert cache_directory().parent == tmp_path and str(os.getuid()) in cache_directory().name
    tmp_path.chmod(0o1777)
    cache_directory().symlink_to(tmp_path / "trap")  # another user may have been first
    with pytest.raises(CacheError):
        private_directory(cache_directory())
    assert not (tmp_path / "trap").exists()
    cache_directory().unlink()
    assert private_directory(cache_directory()).stat().st_mode & 0o777 == 0o700


def test_a_note_that_others_could_have_written_verifies_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    model = write_tiny_model(tmp_path / "model")
    verify_model_cached(model)
    verified: list[Path] = []
    monkeypatch.setattr("dragoman.modeldir.layout.verify_model", verified.append)
    verify_model_cached(model)
    assert not verified
    (tmp_path / "cache").chmod(0o777)
    verify_model_cached(model)
    assert verified == [model]


def test_algorithms_that_others_could_have_written_are_not_used(tmp_path: Path) -> None:
    path = private_directory(tmp_path / "cache") / "products.json"
    AlgorithmFile(path).add("a GPU", "a product", b"\1" * 64)
    path.parent.chmod(0o777)
    before = path.read_bytes()
    found = AlgorithmFile(path)
    assert found.get("a GPU", "a product") is None
    assert found.add("a GPU", "a product", b"\2" * 64) == b"\2" * 64  # for this process
    assert path.read_bytes() == before
