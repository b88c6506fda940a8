"""Trees from CoNLL-U to batches: they stay with their sentences."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dragoman.data.corpora.reader import Corpus, read_trees_file
from dragoman.data.prepare.inputs import OtherInputsError
from dragoman.data.prepare.pipeline import prepare_corpora
from dragoman.data.shards import Sentences
from dragoman.errors import DataError, TextError
from dragoman.text.trees.dependency import Tree, depths_of_tokens
from raising import raises
from small_corpora import RECIPE, changed, put, some_pairs, texts


def grow(sentences: list[str], seed: int = 4) -> dict[str, Tree]:
    """A random tree for each sentence; words are parted at spaces, and an EOS token is a word of its own."""
    draw, grown = random.Random(seed), {}
    for text in sentences:
        words = [part for word in text.split() for part in ([word[:-1], word[-1]] if word[-1] in ".!" else [word])]
        order = draw.sample(range(1, len(words) + 1), len(words))
        heads = [0] * len(words)
        for place in range(1, len(order)):
            heads[order[place] - 1] = draw.choice(order[:place])
        grown[text] = Tree.of(words, heads)
        rows = [f"{n}\t{w}\t_\t_\t_\t_\t{h}\t_\t_\t_" for n, (w, h) in enumerate(zip(words, heads, strict=True), 1)]
        WRITTEN[text] = "# text = " + text + "\n" + "\n".join(rows) + "\n\n"
    return grown


WRITTEN: dict[str, str] = {}


def with_trees(folder: Path, name: str, pairs: list[tuple[str, str]], seed: int = 4) -> tuple[Corpus, dict[str, Tree]]:
    corpus = put(folder, name, pairs)
    full = [s for s, _ in pairs if s.strip()]
    grown = grow(full, seed)
    (folder / f"{name}.conllu").write_text("".join(WRITTEN[text] for text in full), encoding="utf-8")
    return replace(corpus, source_trees=folder / f"{name}.conllu"), grown


def check(prepared, grown, sampling=0.0, layout="padded", split="train"):
    """Each batch against the trees, sentence by sentence; the EOS token stands at the root's place."""
    source = prepared.tokenizers[0]
    recipe = replace(RECIPE.data, sampling=sampling, layout=layout)
    seen, plain = 0, 0
    with prepared.loader(recipe, split, epochs=1, pin=False) as loader:
        for batch in loader:
            assert batch.source_depths is not None
            assert batch.source_depths.shape == batch.source.shape
            start = 0
            for i in range(batch.n_sentences):
                n = int(batch.source_lengths[i])
                here = (i, slice(0, n)) if layout == "padded" else slice(start, start + n)
                ids, depths = batch.source[here].tolist(), batch.source_depths[here].tolist()
                text = source.decode(ids[:-1])
                assert depths[:-1] == list(depths_of_tokens(ids[:-1], source.widths, grown[text].byte_depths(text)))
                assert depths[-1] == 0
                plain += ids[:-1] == source.encode(text)
                start, seen = start + n, seen + 1
            rest = batch.source_depths[start:] if layout == "packed" else batch.source_depths[batch.source == 0]
            assert not rest.any()
    return seen, plain


def test_every_sentence_keeps_its_tree_in_both_layouts(tmp_path: Path) -> None:
    corpus, grown = with_trees(tmp_path, "train", some_pairs(300))
    prepared = prepare_corpora([corpus], RECIPE, tmp_path / "out", processes=1)
    assert prepared.has_trees
    for layout in ("padded", "packed"):
        assert check(prepared, grown, layout=layout) == (293, 293)
        assert check(prepared, grown, layout=layout, split="valid") == (7, 7)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
def test_sampled_tokens_stand_where_their_words_do(tmp_path: Path, kind: str) -> None:
    corpus, grown = with_trees(tmp_path, "train", some_pairs(200))
    recipe = replace(RECIPE, text=replace(RECIPE.text, kind=kind, vocabulary_size=370))
    prepared = prepare_corpora([corpus], recipe, tmp_path / "out", processes=1)
    for layout in ("padded", "packed"):
        seen, plain = check(prepared, grown, sampling=0.1 if kind == "unigram" else 0.3, layout=layout)
        assert (seen, plain < 150) == (193, True)  # most are drawn anew, and not only looked up


def test_empty_lines_have_no_tree_and_what_is_dropped_takes_its_own_along(tmp_path: Path) -> None:
    pairs = some_pairs(60)
    wrong = [("", ""), ("  ", "leer"), ("only source here", ""), ("same same", "same same"), pairs[0], (" ", " ")]
    mixed = [pair for group in zip(pairs, wrong * 10, strict=True) for pair in group]
    corpus, grown = with_trees(tmp_path, "train", mixed)
    prepared = prepare_corpora([corpus], changed(valid_pairs=0, max_tokens=14), tmp_path / "out", processes=1)
    left = [s for s, _ in texts(prepared)]
    assert 10 < len(left) < 60
    assert check(prepared, grown)[0] == len(left)


def test_several_corpora_a_validation_set_processes_and_packed_files(tmp_path: Path) -> None:
    import gzip

    first, a = with_trees(tmp_path, "a", some_pairs(50, seed=1))
    second, b = with_trees(tmp_path, "b", some_pairs(40, seed=2))
    valid, c = with_trees(tmp_path, "v", some_pairs(9, seed=3))
    packed = tmp_path / "a.conllu.gz"
    packed.write_bytes(gzip.compress((tmp_path / "a.conllu").read_bytes()))
    lines = "".join(f"{s}\t{t}\n" for s, t in some_pairs(40, seed=2))
    (tmp_path / "b.tsv").write_text(lines, encoding="utf-8")
    corpora = [
        replace(first, source_trees=packed),
        Corpus(tmp_path / "b.tsv", form="tsv", source_trees=second.files[2]),
    ]
    prepared = prepare_corpora(corpora, RECIPE, tmp_path / "out", valid=valid, processes=2)
    assert [part["name"] for part in prepared.manifest["splits"]["train"]["parts"]] == ["a.en + a.de", "b.tsv"]
    assert check(prepared, {**a, **b})[0] == 90
    assert check(prepared, c, split="valid")[0] == 9


def test_other_trees_are_other_inputs(tmp_path: Path) -> None:
    corpus, _ = with_trees(tmp_path, "train", some_pairs(50))
    prepared = prepare_corpora([corpus], RECIPE, tmp_path / "out", processes=1)
    assert prepare_corpora([corpus], RECIPE, tmp_path / "out").fingerprint == prepared.fingerprint
    with_trees(tmp_path, "train", some_pairs(50), seed=5)
    with raises(OtherInputsError, "run_mismatch", "train.conllu", "sha256"):
        prepare_corpora([corpus], RECIPE, tmp_path / "out")
    with raises(OtherInputsError, "run_mismatch", "3", "2"):
        prepare_corpora([replace(corpus, source_trees=None)], RECIPE, tmp_path / "out")
    other = prepare_corpora([corpus], RECIPE, tmp_path / "out", anew=True, processes=1)
    assert other.fingerprint != prepared.fingerprint
    bare = prepare_corpora([replace(corpus, source_trees=None)], RECIPE, tmp_path / "out", anew=True, processes=1)
    assert not bare.has_trees and bare.split().depths is None
    with bare.loader(RECIPE.data, pin=False) as loader:
        assert next(loader).source_depths is None


def test_a_loader_goes_on_with_the_same_depths(tmp_path: Path) -> None:
    corpus, _ = with_trees(tmp_path, "train", some_pairs(100))
    prepared = prepare_corpora([corpus], RECIPE, tmp_path / "out", processes=1)
    recipe = replace(RECIPE.data, sampling=0.2)
    with prepared.loader(recipe, pin=False) as loader:
        batches = [next(loader) for _ in range(6)]
    with prepared.loader(recipe, pin=False, state=batches[2].state) as loader:
        for expected in batches[3:]:
            assert np.array_equal(next(loader).source_depths, expected.source_depths)


def test_depths_of_other_sentences_are_refused(tmp_path: Path) -> None:
    corpus, _ = with_trees(tmp_path, "train", some_pairs(100))
    split = prepare_corpora([corpus], RECIPE, tmp_path / "out", processes=1).split()
    assert split.depths is not None
    pairs = np.arange(2, 9)
    laid = split.depths.of_bytes
    others = replace(split.depths, of_bytes=Sentences(laid.ids, np.roll(laid.offsets, -1)))
    ids, lengths = split.source.gather(pairs)
    assert split.depths.of_tokens(pairs, ids, lengths).shape == ids.shape
    with raises(DataError, "file_damaged"):
        others.of_tokens(pairs, ids, lengths)
    fewer = replace(split.depths, of_bytes=Sentences(laid.ids, laid.offsets[:-1]))
    with raises(DataError, "count_mismatch", f"{len(split)}", f"{len(split) - 1}"):
        replace(split, depths=fewer)


def test_trees_for_some_corpora_alone(tmp_path: Path) -> None:
    first, _ = with_trees(tmp_path, "a", some_pairs(30, seed=1))
    second, valid = put(tmp_path, "b", some_pairs(30, seed=2)), put(tmp_path, "v", some_pairs(30, seed=3))
    with raises(DataError, "missing_trees", "b.en", "+", "b.de"):
        prepare_corpora([first, second], RECIPE, tmp_path / "out")
    with raises(DataError, "missing_trees", "v.en", "+", "v.de"):
        prepare_corpora([first], RECIPE, tmp_path / "out", valid=valid)


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda t: t[:-1], ("count_mismatch", "29", "30", "train.conllu")),
        (lambda t: [*t, t[0]], ("count_mismatch", "train.conllu, line ")),
        (lambda t: [t[1], t[0], *t[2:]], ("tree_mismatch", "train.conllu", "2", "1")),
        (
            lambda t: [t[0].replace("\t0\t", "\t1\t"), *t[1:]],
            ("invalid_tree", "train.conllu", "2", "0"),
        ),
        (lambda t: ["nothing of the kind\n"], ("invalid_tree", "train.conllu", "10")),
        (lambda t: [], ("file_empty", "train.conllu")),
    ],
)
def test_trees_that_do_not_belong_to_the_text(tmp_path: Path, spoil, expected: tuple[str, ...]) -> None:
    pairs = [("red house .", "rotes Haus ."), *some_pairs(29)]
    corpus, _ = with_trees(tmp_path, "train", pairs)
    trees = [WRITTEN[s] for s, _ in pairs]
    trees[0] = (
        "# text\n1\tred\t_\t_\t_\t_\t0\t_\t_\t_\n2\thouse\t_\t_\t_\t_\t1\t_\t_\t_\n3\t.\t_\t_\t_\t_\t1\t_\t_\t_\n\n"
    )
    (tmp_path / "train.conllu").write_text("".join(spoil(trees)), encoding="utf-8")
    with raises((DataError, TextError), *expected):
        prepare_corpora([corpus], RECIPE, tmp_path / "out", processes=1)
    assert not (tmp_path / "out").exists()


def test_trees_of_a_file_by_its_name(tmp_path: Path) -> None:
    grown = grow(["we sleep", "so do they."])
    path = tmp_path / "t.conllu"
    path.write_text("".join(WRITTEN[text] for text in grown), encoding="utf-8")
    found = list(read_trees_file(str(path)))
    assert [(tree.words, tree.depths) for tree in found] == [(tree.words, tree.depths) for tree in grown.values()]
    assert [tree.where for tree in found] == [f"{path}, line 2", f"{path}, line 6"]
