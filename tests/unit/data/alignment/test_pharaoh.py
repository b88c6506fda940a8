"""Alignments in Pharaoh format, through cleaning and tokenization to the links of tokens."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.data.alignment.store import ensure_alignments, with_alignments
from dragoman.data.corpora.corpus import Corpus
from dragoman.data.prepare.pipeline import prepare_corpora
from dragoman.errors import DataError
from dragoman.progress import SilentReporter
from dragoman.text.word_groups import is_punctuation, visible_word_ids
from raising import raises
from small_corpora import RECIPE, put, some_pairs


def aligned(folder: Path, lines: list[str]) -> Corpus:
    """A corpus with an empty line and a duplicate, both of which cleaning drops."""
    pairs = some_pairs(60)
    corpus: Corpus = put(folder, "a", [*pairs[:7], ("", ""), *pairs[7:20], pairs[3], *pairs[20:]])
    (folder / "a.align").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return replace(corpus, alignment=folder / "a.align")


@pytest.mark.parametrize("changes", [{}, {"kind": "wordpiece"}, {"shared": False}])
def test_links_are_between_the_tokens_of_linked_words(changes: dict[str, object], tmp_path: Path) -> None:
    draw = random.Random(4)
    lines = [
        " ".join(f"{draw.randrange(12)}-{draw.randrange(12)}" for _ in range(draw.randrange(6))) for _ in range(62)
    ]
    recipe = replace(RECIPE, text=replace(RECIPE.text, **changes), model=replace(RECIPE.model, tie="target"))
    corpus = aligned(tmp_path, lines)
    prepared = prepare_corpora([corpus], recipe, tmp_path / "out")
    assert prepared.has_alignment
    ensure_alignments(prepared, tmp_path / "unused", SilentReporter())
    assert not (tmp_path / "unused").exists()
    split = with_alignments(prepared.split("train"), prepared, tmp_path / "unused")
    assert split.alignment is not None and len(split) < 62
    assert corpus.target is not None
    texts = [path.read_text(encoding="utf-8").splitlines() for path in (corpus.source, corpus.target)]
    by_text = {pair: line for *pair_, line in zip(*texts, lines, strict=True) if (pair := tuple(pair_))}
    by_text[texts[0][3], texts[1][3]] = lines[3]  # of duplicates, the first is kept
    seen = 0
    for i in range(len(split)):
        ids = split.source[i].tolist(), split.target[i].tolist()
        both = tuple(t.decode(of) for t, of in zip(prepared.tokenizers, ids, strict=True))
        tokens = [t.tokens(of) for t, of in zip(prepared.tokenizers, ids, strict=True)]
        words = [[*zip(visible_word_ids(names), map(is_punctuation, names), strict=True)] for names in tokens]
        wanted = {tuple(map(int, link.split("-"))) for link in by_text[both].split()}
        found = {(link & 0xFFFF, link >> 16) for link in split.alignment.links[i].tolist()}
        expected = {
            (s, t)
            for s, (a, mark) in enumerate(words[0])
            for t, (b, other) in enumerate(words[1])
            if (a, b) in wanted and mark == other  # a comma is linked with a comma
        }
        if wanted and words[0][-1][1] and words[1][-1][1]:  # and the marks at the ends of both sentences
            expected.add((len(words[0]) - 1, len(words[1]) - 1))
        assert found == expected
        seen += len(found)
    assert seen > 50


def test_files_that_do_not_match_are_rejected(tmp_path: Path) -> None:
    for lines, code in (
        (["0-0"] * 61, "count_mismatch"),
        (["0-0"] * 63, "count_mismatch"),
        (["0:0"] * 62, "invalid_link"),
    ):
        with raises(DataError, code, "a.align"):
            prepare_corpora([aligned(tmp_path, lines)], RECIPE, tmp_path / "out")
    other = put(tmp_path, "b", some_pairs(20, seed=5))
    with raises(DataError, "missing_option"):
        prepare_corpora([aligned(tmp_path, ["0-0"] * 62), other], RECIPE, tmp_path / "out")
