"""Languages from file names, compressed or not, and from bare codes."""

from __future__ import annotations

import pytest

from dragoman.modeldir.info import language_codes


@pytest.mark.parametrize(
    ("names", "codes"),
    [
        (["train.en", "news.en", "train.deu.xz"], ("en", "de")),
        (["corpus.clean.zh.gz"], ("zh",)),
        (["pt_BR"], ("pt",)),
        (["train.en", "books.txt"], ()),
        (["source"], ()),
        ([], ()),
    ],
)
def test_codes(names: list[str], codes: tuple[str, ...]) -> None:
    assert language_codes(names) == codes
