"""Corpora with several target languages: sources begin with their language token, however it is given."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from command_line import leave
from dragoman.config import TextRecipe
from dragoman.data.corpora.reader import Corpus
from dragoman.data.prepare import inputs
from dragoman.data.prepare.pipeline import prepare_corpora
from dragoman.data.prepared import Prepared
from dragoman.errors import DataError
from raising import raises
from small_corpora import RECIPE as SMALL
from small_corpora import changed, files, put, some_pairs, texts

RECIPE = replace(SMALL, data=replace(SMALL.data, max_tokens=150, batch_tokens=400))
GREEK = str.maketrans("abcdefghijklmnoprstuvwz", "αβκδεφγηιζκλμνοπρστυβωζ")  # some letters, in another script


def write(folder, name, lines):
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder / name


def rows_of(n=120):
    """(English, German, "Greek") of the same sentences."""
    return [(english, german, english.translate(GREEK)) for english, german in some_pairs(n)]


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    folder = tmp_path_factory.mktemp("several")
    rows = rows_of()
    english = write(folder, "a.en", [row[0] for row in rows])
    corpora = [
        Corpus(english, write(folder, "a.de", [row[1] for row in rows]), to="de", weight=0.5),
        Corpus(english, write(folder, "a.el", [row[2] for row in rows]), to="el"),
    ]
    return rows, corpora, prepare_corpora(corpora, RECIPE, folder / "out", processes=1)


def heads(prepared, name="train"):
    split, tokenizer = prepared.split(name), prepared.tokenizers[0]
    return [tokenizer.tokens(split.source[i][:1])[0] for i in range(len(split))]


def test_sources_begin_with_their_language(several):
    rows, _, prepared = several
    expected = [("<2de>", row[0], row[1]) for row in rows] + [("<2el>", row[0], row[2]) for row in rows]
    found = [
        (head, *pair)
        for name in ("train", "valid")
        for head, pair in zip(heads(prepared, name), texts(prepared, name), strict=True)
    ]
    assert sorted(found) == sorted(expected)  # of another script too: each corpus is judged by its own
    tokenizer, split = prepared.tokenizers[0], prepared.split()
    assert tokenizer.targets == ("de", "el") and tokenizer.vocabulary_size <= RECIPE.text.vocabulary_size
    for i in range(len(split)):
        text = tokenizer.decode(split.source[i])
        assert split.source[i].tolist()[1:] == tokenizer.encode(text)
        assert split.source.lengths[i] == len(tokenizer.encode(text)) + 1
        assert max(split.target[i]) < tokenizer.first_target  # they are never to be written
    assert [(part.name, part.weight) for part in split.parts] == [("a.en + a.de", 0.5), ("a.en + a.el", 1.0)]


def test_as_many_of_each_language_are_held_out(several):
    _, _, prepared = several
    assert sorted(heads(prepared, "valid")) == ["<2de>"] * 4 + ["<2el>"] * 4  # half of seven, rounded up
    counts = prepared.manifest["splits"]
    assert counts["valid"]["to"] == {"de": 4, "el": 4} and counts["train"]["to"] == {"de": 116, "el": 116}
    assert counts["train"]["source"]["tokens"] == prepared.split().source.lengths.sum()


def test_the_manifest_tells_and_a_change_is_noticed(several, tmp_path):
    _, corpora, prepared = several
    told = prepared.manifest["inputs"]
    assert [corpus["to"] for corpus in told["corpora"]] == ["de", "el"]
    assert told["settings"]["text.targets"] == ["de", "el"]
    again = prepare_corpora(corpora, RECIPE, prepared.directory)
    assert again.fingerprint == prepared.fingerprint
    turned = [replace(corpora[0], to="el"), replace(corpora[1], to="de")]
    with raises(inputs.OtherInputsError, "run_mismatch", "a.en", "'de'", "'el'"):
        prepare_corpora(turned, RECIPE, prepared.directory)


def test_without_languages_nothing_speaks_of_them(tmp_path):
    prepared = prepare_corpora([put(tmp_path, "a", some_pairs(120))], RECIPE, tmp_path / "out")
    assert {"form", "source_key", "target_key", "files"} == set(prepared.manifest["inputs"]["corpora"][0])
    assert "text.targets" not in prepared.manifest["inputs"]["settings"]
    assert "to" not in prepared.manifest["splits"]["train"] and prepared.tokenizers[0].targets == ()


@pytest.mark.parametrize("form", ["tsv", "jsonl", "nested"])
def test_lines_that_say_their_own_language(several, tmp_path, form):
    rows, _, prepared = several
    lines = [(row[0], row[1], "de") for row in rows] + [(row[0], row[2], "el") for row in rows]
    if form == "tsv":
        path = write(tmp_path, "all.tsv", ["\t".join((to, s, t, "")) for s, t, to in lines] + [""])
        corpus = Corpus(path, form="tsv", source_key="2", target_key="3", to_key="1")
    else:
        keys = [{"s": s, "t": t, "to": to} for s, t, to in lines]
        if form == "nested":
            keys = [{"translation": {"s": s, "t": t}, "to": to} for s, t, to in lines]
        path = write(tmp_path, "all.jsonl", map(json.dumps, keys))
        corpus = Corpus(path, form="jsonl", source_key="s", target_key="t", to_key="to")
    mixed = prepare_corpora([corpus], RECIPE, tmp_path / "out", processes=1)
    assert mixed.manifest["report"]["rules"]["empty"]["dropped"] == (1 if form == "tsv" else 0)
    for of in ("train.source.ids", "train.target.offsets", "valid.source.ids", "tokenizers/shared.json"):
        assert (mixed.directory / of).read_bytes() == (prepared.directory / of).read_bytes()


def test_several_processes_write_the_same_bytes(several, tmp_path, monkeypatch):
    _, corpora, prepared = several
    monkeypatch.setattr("dragoman.data.prepare.pipeline.PAIRS_PER_CHUNK", 50)
    monkeypatch.setattr("dragoman.data.prepare.encoding.PAIRS_PER_CHUNK", 30)
    again = prepare_corpora(corpora, RECIPE, tmp_path / "out", processes=2)
    assert files(again.directory) == files(prepared.directory)


def test_the_same_words_in_two_languages_are_no_duplicates(tmp_path):
    pairs = some_pairs(60)
    one = put(tmp_path, "a", [*pairs, ("red bread", "rouge pain"), ("red bread", "rouge pain")])
    other = put(tmp_path, "b", [*((s, f"{t} x") for s, t in pairs), ("red bread", "rouge pain")])
    corpora = [replace(one, to="fr"), replace(other, to="oc")]
    prepared = prepare_corpora(corpora, changed(valid_pairs=0), tmp_path / "out")
    assert prepared.report["rules"]["duplicate"]["dropped"] == 1
    found = [head for head, (source, _) in zip(heads(prepared), texts(prepared), strict=True) if source == "red bread"]
    assert found == ["<2fr>", "<2oc>"]


def test_both_directions_share_their_files_and_validation_sets_are_one_for_each(tmp_path):
    train, valid = put(tmp_path, "a", some_pairs(60)), put(tmp_path, "v", some_pairs(9, seed=5))
    both = [replace(train, to="de"), Corpus(train.target, train.source, to="en")]
    checks = [replace(valid, to="de"), Corpus(valid.target, valid.source, to="en")]
    prepared = prepare_corpora(both, RECIPE, tmp_path / "out", valid=checks)
    assert heads(prepared, "valid") == ["<2de>"] * 9 + ["<2en>"] * 9
    assert [part.name for part in prepared.split("valid").parts] == ["v.en + v.de", "v.de + v.en"]
    english, german = some_pairs(9, seed=5)[3]
    assert texts(prepared, "valid")[3] == (english, german) and texts(prepared, "valid")[12] == (german, english)
    with raises(DataError, "duplicate_file"):
        prepare_corpora([both[0], both[0]], RECIPE, tmp_path / "other")
    with raises(DataError, "validation_in_training"):
        prepare_corpora(both, RECIPE, tmp_path / "other", valid=[both[1]])
    with raises(DataError, "duplicate_file"):
        prepare_corpora([Corpus(train.source, train.source, to="en")], RECIPE, tmp_path / "other")


def test_batches_with_sampled_tokens_keep_the_language(several):
    _, _, prepared = several
    data = replace(RECIPE.data, sampling=0.5)
    plain = {i: prepared.split().source[i].tolist() for i in range(len(prepared.split()))}
    tokenizer, seen, other = prepared.tokenizers[0], 0, 0
    with prepared.loader(data, epochs=1, pin=False) as loader:
        for batch in loader:
            for pair, row in zip(batch.pairs.tolist(), batch.source.tolist(), strict=True):
                assert row[0] == plain[pair][0] >= tokenizer.first_target
                assert tokenizer.decode(row) == tokenizer.decode(plain[pair])
                seen, other = seen + 1, other + (row[: len(plain[pair])] != plain[pair])
    assert seen > 100 and other > seen / 2


def test_the_longest_sentence_counts_its_language(tmp_path):
    corpus = replace(put(tmp_path, "a", [(s, t.split()[0]) for s, t in some_pairs(80)]), to="de")
    every = prepare_corpora([corpus], changed(valid_pairs=0), tmp_path / "every").split().source.lengths
    limit = int(np.median(every))
    some = prepare_corpora([corpus], changed(valid_pairs=0, max_tokens=limit), tmp_path / "some")
    assert some.split().source.lengths.tolist() == [n for n in every if n <= limit]
    assert some.report["rules"]["tokens"]["dropped"] == (every > limit).sum() > 9


def test_tokenizers_from_elsewhere_bring_their_languages(several, tmp_path):
    _, corpora, prepared = several
    theirs = prepared.directory / "tokenizers"
    only = prepare_corpora([corpora[1]], RECIPE, tmp_path / "out", tokenizers=theirs)
    assert {*heads(only)} == {"<2el>"} and only.tokenizers[0].targets == ("de", "el")
    with raises(DataError, "language_mismatch"):
        prepare_corpora(
            [corpora[1]], replace(RECIPE, text=TextRecipe(targets=("el",))), tmp_path / "o", tokenizers=theirs
        )
    plain = prepare_corpora([put(tmp_path, "p", some_pairs(60))], RECIPE, tmp_path / "plain")
    with raises(DataError, "unknown_language", "`to`", "text.targets="):
        prepare_corpora([corpora[1]], RECIPE, tmp_path / "o", tokenizers=plain.directory / "tokenizers")


def test_languages_can_be_added_behind_those_of_tokenizers_from_elsewhere(several, tmp_path):
    _, corpora, prepared = several
    theirs = prepared.directory / "tokenizers"
    more = replace(RECIPE, text=TextRecipe(targets=("de", "el", "pt")))
    with_one = [replace(corpora[0], to="pt"), corpora[1]]
    made = prepare_corpora(with_one, more, tmp_path / "out", tokenizers=theirs)
    before, after = prepared.tokenizers[0], made.tokenizers[0]
    assert {*heads(made)} == {"<2el>", "<2pt>"} and after.targets == ("de", "el", "pt")
    assert after.vocabulary_size == before.vocabulary_size + 1
    assert [after.target_id(code) for code in before.targets] == [before.target_id(code) for code in before.targets]
    assert after.encode("one two three") == before.encode("one two three")
    again = prepare_corpora([corpora[1]], RECIPE, tmp_path / "without", tokenizers=theirs)
    only = prepare_corpora(with_one[:1], more, tmp_path / "with", tokenizers=theirs)  # what is learned may be left out
    assert again.fingerprint != only.fingerprint
    with raises(DataError, "no_pairs_left"):
        prepare_corpora([corpora[1]], more, tmp_path / "none", tokenizers=theirs)
    for wrong in (("el", "de", "pt"), ("de",), ("de", "pt", "el")):
        with raises(DataError, "language_mismatch"):
            prepare_corpora(
                with_one, replace(RECIPE, text=TextRecipe(targets=wrong)), tmp_path / "o", tokenizers=theirs
            )
    plain = prepare_corpora([put(tmp_path, "p", some_pairs(60))], RECIPE, tmp_path / "plain")
    first = prepare_corpora(corpora, replace(RECIPE, text=TextRecipe(targets=("de", "el"))), tmp_path / "first",
                    tokenizers=plain.directory / "tokenizers")  # fmt: skip
    assert first.tokenizers[0].vocabulary_size == plain.tokenizers[0].vocabulary_size + 2


def test_separate_vocabularies_have_them_on_the_side_of_the_source(several, tmp_path):
    _, corpora, _ = several
    recipe = replace(RECIPE, text=TextRecipe(vocabulary_size=320, shared=False))
    source, target = prepare_corpora(corpora, recipe, tmp_path / "out").tokenizers
    assert (source.targets, target.targets) == (("de", "el"), ())


def test_what_is_rejected(several, tmp_path):
    rows, (german, greek), _ = several

    def rejected(code, mention, *corpora, targets=(), **more):
        recipe = replace(RECIPE, text=replace(RECIPE.text, targets=targets))
        with raises(DataError, code, mention):
            prepare_corpora(corpora, recipe, tmp_path / "out", **more)
        assert not (tmp_path / "out").exists()

    rejected("missing_language", "a.en + a.el", german, replace(greek, to=""))
    rejected("missing_language", "`to`", replace(german, to=""), targets=("de",))
    rejected("unknown_language", "'el'", german, greek, targets=("de",))
    rejected("no_pairs_left", "it", german, targets=("de", "it"))
    pairs = put(tmp_path, "v", some_pairs(5, seed=9))
    rejected("missing_language", "v.en + v.de", german, valid=pairs)
    rejected("several_validation_sets", "v.en + v.de", replace(german, to=""), valid=[pairs, pairs])
    trees = replace(german, source_trees=write(tmp_path, "t.conllu", ["# no tree"]))
    rejected("conflicting_settings", "", trees)
    lines = ["\t".join((row[0], row[1], "de")) for row in rows]
    mixed = Corpus(write(tmp_path, "m.tsv", [*lines, "red\trot\tit"]), form="tsv", to_key="3")
    rejected("unknown_language", "m.tsv, line 121: the target language 'it'", mixed, targets=("de",))
    mixed = Corpus(write(tmp_path, "m.tsv", [*lines, "red\trot\t"]), form="tsv", to_key="3")
    rejected("missing_language", "m.tsv, line 121", mixed)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"to": "German!"}, ("invalid_language_code",)),
        ({"to_key": "3"}, ("conflicting_options", "'3'", "`to`")),
        ({"form": "tsv", "target": None, "to": "de", "to_key": "3"}, ("conflicting_options",)),
        ({"form": "tsv", "target": None, "to_key": "to"}, ("invalid_column", "1")),
        ({"form": "tsv", "target": None, "to_key": "2"}, ("duplicate_key", "give another")),
    ],
)
def test_a_corpus_that_cannot_be(fields, expected):
    with raises(DataError, *expected):
        Corpus(**{"source": "a.en", "target": "a.de", **fields})


def test_the_command_line(several, tmp_path, capsys):
    rows, (german, greek), prepared = several
    sides = ["--source", str(german.source), "--target", str(german.target), "--source", str(greek.source)]
    sides += ["--target", str(greek.target), "--weight", "0.5", "--weight", "1"]
    settings = [f"{key}={value}" for key, value in (("text.vocabulary_size", 320), ("data.valid_pairs", 7))]
    settings += ["data.max_tokens=150", "data.batch_tokens=400", "data.max_ratio=9.0"]
    options = [word for setting in settings for word in ("--set", setting)]
    out = tmp_path / "out"
    code, said, err = leave(capsys, "prepare", *sides, "--to", "de", "--to", "el", *options, "--out", str(out))
    assert code == 0, err
    assert "train: 116 pairs into de, 116 pairs into el" in said
    assert Prepared.open(out).fingerprint == prepared.fingerprint
    code, _, err = leave(capsys, "prepare", *sides, "--to", "de", "--out", str(tmp_path / "o"))
    assert (code, "--to for 2 corpora" in err) == (2, True), err
    code, _, err = leave(capsys, "prepare", *sides, "--to-key", "to", "--out", str(tmp_path / "o"))
    assert (code, "--to-key" in err) == (2, True), err
    more = ["--valid-source", str(tmp_path / "v.en"), "--valid-target", str(tmp_path / "v.de")]
    code, _, err = leave(capsys, "prepare", *sides, "--to", "de", "--to", "el", *more, *more, "--out", "o")
    assert (code, "--valid-to" in err) == (2, True), err
    lines = ["\t".join((row[0], row[1], "de")) for row in rows]
    mixed = write(tmp_path, "m.tsv", lines)
    both = [
        *sides[4:8],
        "--tsv",
        str(mixed),
        "--to-key",
        "3",
        "--to",
        "el",
        *options,
    ]  # --to is for the plain one alone
    code, said, err = leave(capsys, "prepare", *both, "--out", str(tmp_path / "mixed"))
    assert (code, "into el, 116 pairs into de" in said) == (0, True), err


def test_ids_fit_their_files(several):
    _, _, prepared = several
    assert prepared.split().source.ids.dtype == np.uint16
