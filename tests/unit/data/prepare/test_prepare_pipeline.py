from collections import Counter
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch

from dragoman.config import Recipe, TextRecipe
from dragoman.data.corpora.corpus import Corpus, validation_corpora
from dragoman.data.prepare.inputs import HashedFile
from dragoman.data.prepare.pipeline import choose_held_out, prepare_corpora
from dragoman.data.prepared import Prepared
from dragoman.errors import DataError, RecipeError
from dragoman.files import write_manifest
from dragoman.text import normalize
from raising import raises
from small_corpora import RECIPE, changed, files, put, some_pairs, texts


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    folder = tmp_path_factory.mktemp("example")
    pairs = some_pairs(260)
    pairs[11] = ("", "leer")
    pairs[12] = ("same", "same")
    pairs[40] = pairs[20]
    pairs[50] = ("bread  water\u00a0stone", "Brot Wasser u\u0308ber Stein")
    corpora = [put(folder, "a", pairs[:200], weight=2.5), put(folder, "b", pairs[200:])]
    return pairs, corpora, prepare_corpora(corpora, RECIPE, folder / "out")


def test_prepared_ids_spell_the_pairs_in_order(example):
    pairs, _, prepared = example
    expected = [(normalize(s), normalize(t)) for i, (s, t) in enumerate(pairs) if i not in (11, 12, 40)]
    train, valid = texts(prepared), texts(prepared, "valid")
    assert len(valid) == 7
    assert train == [pair for pair in expected if pair not in valid]
    assert valid == [pair for pair in expected if pair in valid]
    assert prepared.split().source.ids.dtype == np.uint16
    parts = prepared.split().parts
    assert [(p.name, p.weight) for p in parts] == [("a.en + a.de", 2.5), ("b.en + b.de", 1.0)]
    assert train[parts[1].start] == next(pair for pair in expected[197:] if pair not in valid)


def test_the_report_accounts_for_every_pair(example):
    pairs, _, prepared = example
    told = prepared.report
    dropped = {rule: entry["dropped"] for rule, entry in told["rules"].items() if entry["dropped"]}
    assert dropped == {"empty": 1, "copy": 1, "duplicate": 1}
    assert told["rules"]["copy"]["examples"] == [["same", "same"]]
    assert told["read"] == len(pairs) == sum(dropped.values()) + len(prepared.split()) + len(prepared.split("valid"))
    counts = prepared.manifest["splits"]["train"]["source"]
    train = [s for s, _ in texts(prepared)]
    assert counts["characters"] == sum(map(len, train)) and counts["words"] == sum(len(s.split()) for s in train)
    assert counts["tokens"] == prepared.split().source.lengths.sum()


def test_the_same_bytes_with_several_processes(example, tmp_path, monkeypatch):
    _, corpora, prepared = example
    monkeypatch.setattr("dragoman.data.prepare.pipeline.PAIRS_PER_CHUNK", 50)
    monkeypatch.setattr("dragoman.data.prepare.encoding.PAIRS_PER_CHUNK", 30)
    several = prepare_corpora(corpora, RECIPE, tmp_path / "out", processes=2)
    assert files(several.directory) == files(prepared.directory)


def test_batches_of_prepared_data(example):
    _, _, prepared = example
    with prepared.loader(replace(RECIPE.data, layout="packed"), epochs=1) as loader:
        seen = Counter(i for batch in loader for i in batch.pairs[: batch.n_sentences].tolist())
    first = prepared.split().parts[0].stop
    assert sum(seen[i] for i in range(first)) == int(2.5 * first)
    assert all(seen[i] == 1 for i in range(first, len(prepared.split())))
    with prepared.loader(RECIPE.data, "valid", epochs=1) as loader:
        assert sum(batch.n_sentences for batch in loader) == 7


def test_sampled_batches_are_the_same_in_any_number_of_processes(example):
    _, _, prepared = example
    runs = []
    for workers in (1, 2):
        with prepared.loader(replace(RECIPE.data, sampling=0.3, workers=workers)) as loader:
            runs.append(list(islice(loader, 9)))
    plain = prepared.split().source
    differ = 0
    for a, b in zip(*runs, strict=True):
        assert torch.equal(a.source, b.source) and torch.equal(a.target_out, b.target_out)
        for row, pair in enumerate(a.pairs.tolist()):
            ids = a.source[row, : int(a.source_lengths[row]) - 1].tolist()
            assert prepared.tokenizers[0].decode(ids) == prepared.tokenizers[0].decode(plain[pair])
            differ += ids != plain[pair].tolist()
    assert differ > 20


def test_preparing_again_does_nothing(example):
    _, corpora, prepared = example
    before = {p: p.stat().st_mtime_ns for p in prepared.directory.rglob("*")}
    again = prepare_corpora(corpora, RECIPE, prepared.directory)
    assert again.manifest == prepared.manifest
    assert {p: p.stat().st_mtime_ns for p in prepared.directory.rglob("*")} == before


def test_a_recipe_may_depend_on_the_number_of_pairs_and_text_is_read_once(tmp_path, monkeypatch):
    opened, numbers = Counter(), []
    plain = HashedFile.__init__

    def count(self, path, hashes):
        opened[path.name] += 1
        plain(self, path, hashes)

    def choose(pairs):
        numbers.append(pairs)
        return replace(RECIPE, text=TextRecipe(vocabulary_size=300 + pairs // 3))

    monkeypatch.setattr(HashedFile, "__init__", count)
    monkeypatch.setattr("dragoman.data.prepare.inputs.sha256", None)  # nothing is hashed by itself
    corpora = [put(tmp_path, "a", [*some_pairs(60), ("", "")]), put(tmp_path, "b", some_pairs(30, 4))]
    first = prepare_corpora(corpora, choose, tmp_path / "out", valid=put(tmp_path, "v", some_pairs(9, 7)))
    assert numbers == [0, 91]
    assert first.manifest["inputs"]["settings"]["text.vocabulary_size"] == 330
    assert opened == dict.fromkeys(["a.en", "a.de", "b.en", "b.de", "v.en", "v.de"], 1)
    monkeypatch.undo()
    again = prepare_corpora(corpora, choose, tmp_path / "out", valid=put(tmp_path, "v", some_pairs(9, 7)))
    assert again.manifest == first.manifest and numbers == [0, 91, 0, 91]
    fixed = prepare_corpora(corpora, choose(91), tmp_path / "fixed", valid=put(tmp_path, "v", some_pairs(9, 7)))
    assert files(fixed.directory) == files(first.directory)


def test_a_changed_input_is_noticed_with_both_values(tmp_path):
    corpus = put(tmp_path, "a", some_pairs(60))
    first = prepare_corpora([corpus], RECIPE, tmp_path / "out")
    sha = first.manifest["inputs"]["corpora"][0]["files"][1]["sha256"]
    text = corpus.target.read_text()
    corpus.target.write_text(text.replace("Haus", "Hase"))
    with raises(DataError, "run_mismatch", f"a.de: sha256 was {sha[:12]}..., is ", "--overwrite"):
        prepare_corpora([corpus], RECIPE, tmp_path / "out")
    with raises(DataError, "run_mismatch", "data.max_tokens", "60", "50"):
        prepare_corpora([corpus], changed(max_tokens=50), tmp_path / "out")
    with raises(DataError, "run_mismatch", "text.vocabulary_size", "320", "330"):
        prepare_corpora([corpus], replace(RECIPE, text=TextRecipe(vocabulary_size=330)), tmp_path / "out")
    with raises(DataError, "run_mismatch", "a.de", "a.en"):
        prepare_corpora([Corpus(corpus.target, corpus.source)], RECIPE, tmp_path / "out")
    with raises(DataError, "run_mismatch", "2", "4"):
        prepare_corpora([corpus, put(tmp_path, "b", some_pairs(50, 1))], RECIPE, tmp_path / "out")
    assert files(tmp_path / "out") == files(first.directory)
    second = prepare_corpora([corpus], RECIPE, tmp_path / "out", anew=True)
    assert second.fingerprint != first.fingerprint
    assert not any("Haus" in t for _, t in texts(second)) and any("Hase" in t for _, t in texts(second))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.de", "a.en", "b.de", "b.en", "out"]


def test_data_with_word_alignments_can_be_replaced(tmp_path):
    corpus = put(tmp_path, "a", some_pairs(60))
    (tmp_path / "a.align").write_text("0-0\n" * 60)
    aligned = replace(corpus, alignment=tmp_path / "a.align")
    assert prepare_corpora([aligned], RECIPE, tmp_path / "out").has_alignment
    assert prepare_corpora([aligned], changed(max_tokens=50), tmp_path / "out", anew=True).has_alignment
    assert not prepare_corpora([corpus], RECIPE, tmp_path / "out", anew=True).has_alignment


def test_a_place_prepared_anew_has_the_tokens_of_its_own_tokenizer(tmp_path):
    one, other = put(tmp_path, "one", some_pairs(60)), put(tmp_path, "other", [(t, s) for s, t in some_pairs(60)])
    for corpus, text in ((one, "en"), (other, "de")):
        prepared = prepare_corpora([corpus], changed(sampling=0.3), tmp_path / "out", anew=True, processes=1)
        lines = corpus.source.read_text(encoding="utf-8").splitlines()
        assert {s for s, _ in texts(prepared)} <= set(lines), text
        with prepared.loader(changed(sampling=0.3).data, epochs=1, pin=False) as loader:
            drawn = [prepared.tokenizers[0].decode(row) for batch in loader for row in batch.source.tolist()]
        assert set(drawn) <= set(lines), text


def test_batch_settings_and_weights_need_no_new_preparation(tmp_path):
    corpus = put(tmp_path, "a", some_pairs(60))
    first = prepare_corpora([corpus], RECIPE, tmp_path / "out")
    again = prepare_corpora(
        [replace(corpus, weight=0.5)], changed(layout="packed", batch_tokens=99, seed=8), tmp_path / "out"
    )
    assert again.fingerprint == first.fingerprint
    assert Prepared.open(tmp_path / "out", verify=True).split().parts[0].weight == 0.5


def test_held_out_pairs_are_chosen_by_what_they_are(tmp_path):
    pairs = some_pairs(150)
    shuffled = pairs + pairs[::-1]
    recipe = changed(drop_duplicates=False, valid_pairs=5)
    both = [
        prepare_corpora([put(tmp_path, name, listed)], recipe, tmp_path / f"out-{name}")
        for name, listed in (("a", pairs + pairs), ("b", shuffled))
    ]
    valid = [set(texts(p, "valid")) for p in both]
    assert valid[0] == valid[1] and 3 <= len(valid[0]) <= 5
    for prepared in both:  # a copy of a held-out pair is held out too
        assert not set(texts(prepared)) & set(texts(prepared, "valid"))
        assert len(texts(prepared)) + len(texts(prepared, "valid")) == 300


def test_held_out_takes_the_smallest_hashes_and_at_most_a_twentieth():
    hashes = np.array([9, 3, 7, 3, 8, *range(10, 105)], np.uint64)
    assert hashes[choose_held_out(hashes, 1)].tolist() == [3, 3]
    assert sorted(hashes[choose_held_out(hashes, 3)].tolist()) == [3, 3, 7]
    assert choose_held_out(np.arange(100, dtype=np.uint64), 50).sum() == 5
    assert not choose_held_out(hashes[:19], 50).any() and not choose_held_out(hashes, 0).any()


def test_a_pair_that_comes_very_often_is_not_held_out():
    hashes = np.array([3] * 50 + [4] * 3 + [5] * 2 + [*range(10, 55)], np.uint64)
    assert sorted(hashes[choose_held_out(hashes, 4)].tolist()) == [4, 4, 4, 5, 5]
    assert not choose_held_out(np.full(100, 3, np.uint64), 5).any()


def test_a_given_validation_set_is_kept_whole_and_out_of_training(tmp_path):
    pairs = some_pairs(80)
    odd = [("same", "same"), ("Yes", "Ja " * 15 + "gewiss."), ("", "leer"), pairs[3], pairs[3]]
    valid = put(tmp_path, "v", odd)
    prepared = prepare_corpora([put(tmp_path, "a", pairs)], RECIPE, tmp_path / "out", valid=valid)
    assert texts(prepared, "valid") == [(normalize(s), normalize(t)) for s, t in odd if s]
    assert texts(prepared) == [(s, t) for s, t in pairs if (s, t) != pairs[3]]
    told = prepared.report
    assert told["rules"]["held out"]["dropped"] == 1 and told["valid_rules"]["empty"]["dropped"] == 1


def test_too_many_tokens_are_dropped_and_counted(tmp_path):
    # a digit is a token, and so is the space before the first: 60 tokens may stay, 61 may not
    pairs = [*some_pairs(70), ("7" * 59, "7" * 9), ("7" * 60, "7" * 9), ("z", "8" * 400)]
    prepared = prepare_corpora([put(tmp_path, "a", pairs)], changed(max_ratio=999.0, valid_pairs=0), tmp_path / "out")
    assert prepared.report["rules"]["tokens"]["dropped"] == 2
    assert prepared.report["rules"]["tokens"]["examples"][1] == ["z", "8" * 400]
    assert len(prepared.split()) == 71 and int(prepared.split().source.lengths.max()) == 60
    with raises(DataError, "unknown_choice", "'valid'"):
        prepared.split("valid")


def test_separate_vocabularies_and_tokenizers_taken_from_elsewhere(tmp_path):
    corpus = put(tmp_path, "a", some_pairs(90))
    recipe = replace(RECIPE, text=TextRecipe(vocabulary_size=310, shared=False, kind="unigram"))
    first = prepare_corpora([corpus], recipe, tmp_path / "one")
    source, target = first.tokenizers
    assert source.fingerprint != target.fingerprint and source.kind == "unigram"
    other = put(tmp_path, "b", some_pairs(40, 5))
    second = prepare_corpora([other], RECIPE, tmp_path / "two", tokenizers=first.directory / "tokenizers")
    assert [t.fingerprint for t in second.tokenizers] == [source.fingerprint, target.fingerprint]
    assert (
        prepare_corpora([other], RECIPE, tmp_path / "two", tokenizers=first.directory / "tokenizers").manifest
        == second.manifest
    )
    with raises(DataError, "run_mismatch"):
        prepare_corpora([other], RECIPE, tmp_path / "two")
    with raises(DataError, "tokenizer_not_found"):
        prepare_corpora([other], RECIPE, tmp_path / "three", tokenizers=tmp_path / "nowhere")


def test_files_given_twice_are_refused(tmp_path):
    one, two = put(tmp_path, "a", some_pairs(30)), put(tmp_path, "b", some_pairs(30, 1))
    (tmp_path / "link.de").symlink_to(one.target)
    (tmp_path / "copy.de").write_bytes(one.target.read_bytes())
    twice = [
        ([Corpus(one.source, one.source)], "a.en"),
        ([one, Corpus(two.source, tmp_path / "link.de")], "link.de", "a.de"),
        ([one, Corpus(two.source, tmp_path / "copy.de")], "copy.de", "a.de"),
        ([one, replace(one, weight=2.0)], "a.en", "weight"),
        ([one, Corpus(one.source, two.target)], "a.en", "--to"),
    ]
    for corpora, *mentions in twice:
        with raises(DataError, "duplicate_file", *mentions):
            prepare_corpora(corpora, RECIPE, tmp_path / "out")
    with raises(DataError, "validation_in_training", "b.de", "omit the validation set"):
        prepare_corpora([two], RECIPE, tmp_path / "out", valid=Corpus(one.source, two.target))
    with raises(DataError, "duplicate_file", "b.de"):
        prepare_corpora([one], RECIPE, tmp_path / "out", valid=Corpus(two.target, two.target))
    assert not (tmp_path / "out").exists()


def test_places_that_hold_something_else_are_left_alone(tmp_path):
    corpus = put(tmp_path, "a", some_pairs(30))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("years of work")
    model = tmp_path / "model"
    model.mkdir()
    for name in ("model.json", "model.safetensors", "recipe.toml"):
        (model / name).write_text("{}")
    write_manifest(model)
    for place, expected in (
        (tmp_path / "full", ("output_exists", "thesis.txt")),
        (model, ("output_exists", "model.json", "model.safetensors")),
        (corpus.source, ("not_a_directory",)),
    ):
        with raises(DataError, *expected):
            prepare_corpora([corpus], RECIPE, place, anew=True)
    with raises(DataError, "not_prepared_data", "dragoman prepare"):
        Prepared.open(model)
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "manifest.json").write_text((model / "manifest.json").read_text())
    with raises(DataError, "not_prepared_data", "dragoman prepare"):
        prepare_corpora([corpus], RECIPE, tmp_path / "alone")
    (tmp_path / "void").mkdir()
    out = prepare_corpora([corpus], RECIPE, tmp_path / "void").directory
    assert len(Prepared.open(out).split()) == 29
    (out / "notes.txt").write_text("mine")
    prepare_corpora([corpus], RECIPE, out)
    with raises(DataError, "output_exists", "notes.txt"):
        prepare_corpora([corpus], changed(max_tokens=59), out, anew=True)
    assert (out / "notes.txt").exists()


def test_a_corpus_of_which_nothing_is_left_is_refused(tmp_path):
    good, bad = put(tmp_path, "a", some_pairs(30)), put(tmp_path, "b", [("same", "same"), ("", "leer")])
    with raises(DataError, "no_pairs_left", "b.en", "+", "b.de"):
        prepare_corpora([good, bad], RECIPE, tmp_path / "out")
    with raises(DataError, "no_pairs_left", "max_tokens=2"):
        prepare_corpora([good], changed(max_tokens=2), tmp_path / "out")
    with raises(DataError, "no_pairs_left"):
        prepare_corpora([good], RECIPE, tmp_path / "out", valid=put(tmp_path, "v", [("", "x")]))
    with raises(DataError, "no_data"):
        prepare_corpora([], RECIPE, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_scripts_are_told_or_found(tmp_path):
    pairs = [*some_pairs(40), ("red", "красный дом и вода")]
    corpus = put(tmp_path, "a", pairs)
    found = prepare_corpora([corpus], RECIPE, tmp_path / "auto").report["rules"]["script"]
    assert found["dropped"] == 1 and found["examples"] == [["red", "красный дом и вода"]]
    off = prepare_corpora([corpus], changed(target_script="off"), tmp_path / "off").report["rules"]["script"]
    assert off["dropped"] == 0
    told = prepare_corpora([corpus], changed(target_script="cyrillic", min_script=0.5), tmp_path / "told").report
    assert told["rules"]["script"]["dropped"] == 40
    with raises(DataError, "unknown_choice", "'greek'"):
        prepare_corpora([corpus], changed(source_script="greeek"), tmp_path / "out")


def test_settings_that_cannot_be_are_refused():
    for bad, expected in {
        "data.max_tokens=0": ("out_of_range", "1"),
        "data.batch_tokens=100": ("out_of_range", "257"),
        "data.weights=[1.0, -2.0]": ("out_of_range", "0"),
        "data.layout='ragged'": ("unknown_choice",),
        "data.sampling=1.0": ("out_of_range", "1"),
        "text.vocabulary_size=10": ("out_of_range", "300"),
        "data.seed=9223372036854775808": ("out_of_range", "2**63"),
        "train.seed=-1": ("out_of_range", "0"),
        "train.epsilon=nan": ("out_of_range", "0"),
        "train.learning_rate=inf": ("out_of_range",),
    }.items():
        with raises(RecipeError, *expected):
            Recipe.load("base", [bad])


def test_what_python_hands_over_is_taken_or_refused_in_words(tmp_path):
    corpus = put(tmp_path, "a", some_pairs(30))
    for corpora in (corpus, [(corpus.source, corpus.target)]):
        with raises(DataError, "wrong_type", "Corpus('train.en', 'train.de')"):
            prepare_corpora(corpora, RECIPE, tmp_path / "out")
    with raises(DataError, "wrong_type", "'dev.en'"):
        validation_corpora("dev.en")
    for wrong, code in (({"form": "csv"}, "unknown_choice"), ({"weight": "2"}, "wrong_type")):
        with raises(DataError, code):
            Corpus(corpus.source, corpus.target, **wrong)
    named = Corpus(str(corpus.source), str(corpus.target))  # texts are as good as paths
    assert named == corpus
    assert len(Prepared.open(str(prepare_corpora([named], RECIPE, str(tmp_path / "out")).directory)).split()) == 29


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"processes": 0}, ("out_of_range", "1", "0")),
        ({"processes": "2"}, ("out_of_range", "1", "'2'")),
        ({"tokenizers": 3}, ("wrong_type", "3")),
        ({"out": None}, ("wrong_type",)),
    ],
)
def test_wrong_types_are_told_before_anything_is_read(tmp_path, wrong, expected):
    with raises(DataError, *expected):
        prepare_corpora([Corpus("no.en", "no.de")], RECIPE, **{"out": tmp_path / "out"} | wrong)
    assert not list(tmp_path.iterdir())


def test_a_corpus_is_named_by_files():
    for source, target in ((None, "a.de"), (3, 4), ("a.en", 4)):
        with raises(DataError, "wrong_type", "Corpus('train.en'", "'train.de'"):
            Corpus(source, target)
    with raises(DataError, "invalid_column", "1"):
        Corpus("a.tsv", form="tsv", source_key="9" * 5000, target_key="1")
    for weight in (1e-300, 1e300, float("nan")):
        with raises(DataError, "out_of_range", "0.0001", "10,000"):
            Corpus("a.en", "a.de", weight=weight)
