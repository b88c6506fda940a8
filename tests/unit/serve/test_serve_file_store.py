"""Translated files in memory: by keys, for a short time, of a bounded size, and fair to clients."""

from __future__ import annotations

from dragoman.serve.file_store import OVERHEAD, FileStore


def test_files_are_found_by_their_key_until_their_time_is_over() -> None:
    now = [100.0]
    store = FileStore(1_000_000, seconds=60, clock=lambda: now[0])
    first = store.add("a.txt", b"a", "one")
    now[0] += 30
    second = store.add("a.txt", b"b", "two")
    assert first != second and len(first) == 32
    found = store.get(first)
    assert found is not None and (found.name, found.content) == ("a.txt", b"a")
    now[0] += 31
    assert store.get(first) is None
    assert store.get(second) is not None
    assert store.get("") is None
    now[0] += 60
    store.purge()
    assert not store.files


def test_the_client_with_the_most_bytes_loses_its_oldest_files() -> None:
    size = 10 * OVERHEAD
    store = FileStore(4 * (size + OVERHEAD))
    small = store.add("a", bytes(size), "small")
    large = [store.add("a", bytes(size), "large") for _ in range(5)]
    assert store.get(small) is not None
    assert [store.get(key) is not None for key in large] == [False, False, True, True, True]
    huge = store.add("a", bytes(10 * size), "huge")  # alone over the limit: it is kept until the next one
    assert [*store.files] == [huge]
    assert [*store.files] != [store.add("a", b"", "small")]


def test_small_files_count_too() -> None:
    store = FileStore(10 * OVERHEAD)
    for _ in range(50):
        store.add("a", b"", "one")
    assert len(store.files) == 10
