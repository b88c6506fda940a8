"""Values in messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.values import describe_value, plural, render_value, suggest_directory
from hostile_files import shared_lists, shared_tuples


def test_a_noun_agrees_with_its_count() -> None:
    assert [plural(count, "line") for count in (0, 1, 2, 1234)] == ["0 lines", "1 line", "2 lines", "1,234 lines"]
    assert [plural(count, "corpus", "corpora") for count in (0, 1, 2)] == ["0 corpora", "1 corpus", "2 corpora"]


@pytest.mark.parametrize(
    "value",
    [None, True, 3, -2.5, "text", "it's", b"x", [1, "a"], (1,), (1, 2), (), {"a": [1, None]}, {}, [[[["x"]]]], 10**20],
)
def test_a_small_value_is_shown_as_python_writes_it(value: object) -> None:
    assert render_value(value) == repr(value)


class Loud:
    def __repr__(self) -> str:
        raise AssertionError("called")


@pytest.mark.parametrize(
    "value",
    [
        shared_lists(), shared_tuples(), {"a": shared_lists()}, "x" * 10**6, b"x" * 10**6, 1 << 10**6, [1] * 10**6,
        {i: i for i in range(1000)}, "\x1b[2J" * 100, Loud(), [Loud()] * 100, {"a": Loud()},
    ],
    ids=range(12),
)  # fmt: skip
def test_a_large_or_foreign_value_is_shown_in_part(value: object) -> None:
    for limit in (20, 60):
        shown = render_value(value, limit)
        assert 0 < len(shown) <= limit and shown.isprintable()
    assert len(describe_value(value)) < 80


def test_a_list_that_contains_itself() -> None:
    value: list[object] = [1]
    value.append(value)
    assert render_value(value).startswith("[1, [1, [1, ")


def test_a_directory_that_may_not_be_read_is_not_suggested(tmp_path: Path) -> None:
    for name in ("secret", "model"):
        (tmp_path / name).mkdir()

    def matches(directory: Path) -> bool:
        if directory.name == "secret":
            raise PermissionError
        return True

    assert suggest_directory(tmp_path / "other", matches) == f"; available in {tmp_path}: model"
