"""Values in messages."""

from __future__ import annotations

from dragoman.values import plural


def test_a_noun_agrees_with_its_count() -> None:
    assert [plural(count, "line") for count in (0, 1, 2, 1234)] == ["0 lines", "1 line", "2 lines", "1,234 lines"]
    assert [plural(count, "corpus", "corpora") for count in (0, 1, 2)] == ["0 corpora", "1 corpus", "2 corpora"]
