from collections import Counter
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch

from dragoman.config import Recipe, TextRecipe
from dragoman.data.corpora.reader import Corpus
from dragoman.data.prepare.pipeline import choose_held_out, prepare
from dragoman.data.prepared import Prepared
from dragoman.errors import DataError, RecipeError
from dragoman.files import write_manifest
from dragoman.text import normalize
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
    return pairs, corpora, prepare(corpora, RECIPE, folder / "out")


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
    monkeypatch.setattr("dragoman.data.prepare.pipeline.CHUNK", 50)
    monkeypatch.setattr("dragoman.data.prepare.encoding.CHUNK", 30)
    several = prepare(corpora, RECIPE, tmp_path / "out", processes=2)
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
    again = prepare(corpora, RECIPE, prepared.directory)
    assert again.manifest == prepared.manifest
    assert {p: p.stat().st_mtime_ns for p in prepared.directory.rglob("*")} == before


def test_a_changed_input_is_noticed_with_both_values(tmp_path):
    corpus = put(tmp_path, "a", some_pairs(60))
    first = prepare([corpus], RECIPE, tmp_path / "out")
    sha = first.manifest["inputs"]["corpora"][0]["files"][1]["sha256"]
    text = corpus.target.read_text()
    corpus.target.write_text(text.replace("Haus", "Hase"))
    with pytest.raises(DataError, match=rf"(?s)a\.de: sha256 was {sha[:12]}\.\.\., is [0-9a-f]{{12}}\.\.\..*--anew"):
        prepare([corpus], RECIPE, tmp_path / "out")
    with pytest.raises(DataError, match=r"data\.max_tokens was 60, is 50"):
        prepare([corpus], changed(max_tokens=50), tmp_path / "out")
    with pytest.raises(DataError, match=r"text\.vocabulary_size was 320, is 330"):
        prepare([corpus], replace(RECIPE, text=TextRecipe(vocabulary_size=330)), tmp_path / "out")
    with pytest.raises(DataError, match=r"a\.de in the place of a\.en: bytes was \d+, is \d+"):
        prepare([Corpus(corpus.target, corpus.source)], RECIPE, tmp_path / "out")
    with pytest.raises(DataError, match="corpora: 2 files before, 4 now"):
        prepare([corpus, put(tmp_path, "b", some_pairs(50, 1))], RECIPE, tmp_path / "out")
    assert files(tmp_path / "out") == files(first.directory)
    second = prepare([corpus], RECIPE, tmp_path / "out", anew=True)
    assert second.fingerprint != first.fingerprint
    assert not any("Haus" in t for _, t in texts(second)) and any("Hase" in t for _, t in texts(second))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.de", "a.en", "b.de", "b.en", "out"]


def test_a_place_prepared_anew_has_the_tokens_of_its_own_tokenizer(tmp_path):
    one, other = put(tmp_path, "one", some_pairs(60)), put(tmp_path, "other", [(t, s) for s, t in some_pairs(60)])
    for corpus, text in ((one, "en"), (other, "de")):
        prepared = prepare([corpus], changed(sampling=0.3), tmp_path / "out", anew=True, processes=1)
        lines = corpus.source.read_text(encoding="utf-8").splitlines()
        assert {s for s, _ in texts(prepared)} <= set(lines), text
        with prepared.loader(changed(sampling=0.3).data, epochs=1, pin=False) as loader:
            drawn = [prepared.tokenizers[0].decode(row) for batch in loader for row in batch.source.tolist()]
        assert set(drawn) <= set(lines), text


def test_batch_settings_and_weights_need_no_new_preparation(tmp_path):
    corpus = put(tmp_path, "a", some_pairs(60))
    first = prepare([corpus], RECIPE, tmp_path / "out")
    again = prepare([replace(corpus, weight=0.5)], changed(layout="packed", batch_tokens=99, seed=8), tmp_path / "out")
    assert again.fingerprint == first.fingerprint
    assert Prepared.open(tmp_path / "out", verify=True).split().parts[0].weight == 0.5


def test_held_out_pairs_are_chosen_by_what_they_are(tmp_path):
    pairs = some_pairs(150)
    shuffled = pairs + pairs[::-1]
    recipe = changed(drop_duplicates=False, valid_pairs=5)
    both = [
        prepare([put(tmp_path, name, listed)], recipe, tmp_path / f"out-{name}")
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
    prepared = prepare([put(tmp_path, "a", pairs)], RECIPE, tmp_path / "out", valid=valid)
    assert texts(prepared, "valid") == [(normalize(s), normalize(t)) for s, t in odd if s]
    assert texts(prepared) == [(s, t) for s, t in pairs if (s, t) != pairs[3]]
    told = prepared.report
    assert told["rules"]["held out"]["dropped"] == 1 and told["valid_rules"]["empty"]["dropped"] == 1


def test_too_many_tokens_are_dropped_and_counted(tmp_path):
    # a digit is a token, and so is the space before the first: 60 tokens may stay, 61 may not
    pairs = [*some_pairs(70), ("7" * 59, "7" * 9), ("7" * 60, "7" * 9), ("z", "8" * 400)]
    prepared = prepare([put(tmp_path, "a", pairs)], changed(max_ratio=999.0, valid_pairs=0), tmp_path / "out")
    assert prepared.report["rules"]["tokens"]["dropped"] == 2
    assert prepared.report["rules"]["tokens"]["examples"][1] == ["z", "8" * 400]
    assert len(prepared.split()) == 71 and int(prepared.split().source.lengths.max()) == 60
    with pytest.raises(DataError, match="no split 'valid'; there are: train"):
        prepared.split("valid")


def test_separate_vocabularies_and_tokenizers_taken_from_elsewhere(tmp_path):
    corpus = put(tmp_path, "a", some_pairs(90))
    recipe = replace(RECIPE, text=TextRecipe(vocabulary_size=310, shared=False, kind="unigram"))
    first = prepare([corpus], recipe, tmp_path / "one")
    source, target = first.tokenizers
    assert source.fingerprint != target.fingerprint and source.kind == "unigram"
    other = put(tmp_path, "b", some_pairs(40, 5))
    second = prepare([other], RECIPE, tmp_path / "two", tokenizers=first.directory / "tokenizers")
    assert [t.fingerprint for t in second.tokenizers] == [source.fingerprint, target.fingerprint]
    assert (
        prepare([other], RECIPE, tmp_path / "two", tokenizers=first.directory / "tokenizers").manifest
        == second.manifest
    )
    with pytest.raises(DataError, match="tokenizers was"):
        prepare([other], RECIPE, tmp_path / "two")
    with pytest.raises(DataError, match="no directory of tokenizers"):
        prepare([other], RECIPE, tmp_path / "three", tokenizers=tmp_path / "nowhere")


def test_files_given_twice_are_refused(tmp_path):
    one, two = put(tmp_path, "a", some_pairs(30)), put(tmp_path, "b", some_pairs(30, 1))
    (tmp_path / "link.de").symlink_to(one.target)
    (tmp_path / "copy.de").write_bytes(one.target.read_bytes())
    twice = {
        r"a\.en is given twice": [Corpus(one.source, one.source)],
        r"link\.de is given twice, the other time as .*a\.de": [one, Corpus(two.source, tmp_path / "link.de")],
        r"copy\.de and a\.de hold the same": [one, Corpus(two.source, tmp_path / "copy.de")],
        r"a\.en is given twice; .*weight": [one, replace(one, weight=2.0)],
    }
    for message, corpora in twice.items():
        with pytest.raises(DataError, match=message):
            prepare(corpora, RECIPE, tmp_path / "out")
    with pytest.raises(DataError, match=r"b\.de is among the training files too; .*leave --valid-\.\.\. out"):
        prepare([two], RECIPE, tmp_path / "out", valid=Corpus(one.source, two.target))
    with pytest.raises(DataError, match=r"b\.de is given twice"):
        prepare([one], RECIPE, tmp_path / "out", valid=Corpus(two.target, two.target))
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
    for place, message in (
        (tmp_path / "full", r"holds thesis\.txt, and is no prepared data"),
        (model, r"holds model\.json, model\.safetensors, .* and is no prepared data"),
        (corpus.source, "is a file"),
    ):
        with pytest.raises(DataError, match=message):
            prepare([corpus], RECIPE, place, anew=True)
    with pytest.raises(DataError, match="is no prepared data"):
        Prepared.open(model)
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "manifest.json").write_text((model / "manifest.json").read_text())
    with pytest.raises(DataError, match="is no prepared data"):
        prepare([corpus], RECIPE, tmp_path / "alone")
    (tmp_path / "void").mkdir()
    out = prepare([corpus], RECIPE, tmp_path / "void").directory
    assert len(Prepared.open(out).split()) == 29
    (out / "notes.txt").write_text("mine")
    prepare([corpus], RECIPE, out)
    with pytest.raises(DataError, match=r"also holds notes\.txt, which preparing it anew would remove"):
        prepare([corpus], changed(max_tokens=59), out, anew=True)
    assert (out / "notes.txt").exists()


def test_a_corpus_of_which_nothing_is_left_is_refused(tmp_path):
    good, bad = put(tmp_path, "a", some_pairs(30)), put(tmp_path, "b", [("same", "same"), ("", "leer")])
    with pytest.raises(DataError, match=r"no pair of b\.en \+ b\.de; dropped so far, by rule: empty 1, copy 1"):
        prepare([good, bad], RECIPE, tmp_path / "out")
    with pytest.raises(DataError, match=r"no pair is left.*max_tokens=2"):
        prepare([good], changed(max_tokens=2), tmp_path / "out")
    with pytest.raises(DataError, match="nothing but empty lines"):
        prepare([good], RECIPE, tmp_path / "out", valid=put(tmp_path, "v", [("", "x")]))
    with pytest.raises(DataError, match="no corpus"):
        prepare([], RECIPE, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_scripts_are_told_or_found(tmp_path):
    pairs = [*some_pairs(40), ("red", "красный дом и вода")]
    corpus = put(tmp_path, "a", pairs)
    found = prepare([corpus], RECIPE, tmp_path / "auto").report["rules"]["script"]
    assert found["dropped"] == 1 and found["examples"] == [["red", "красный дом и вода"]]
    off = prepare([corpus], changed(target_script="off"), tmp_path / "off").report["rules"]["script"]
    assert off["dropped"] == 0
    told = prepare([corpus], changed(target_script="cyrillic", min_script=0.5), tmp_path / "told").report
    assert told["rules"]["script"]["dropped"] == 40
    with pytest.raises(DataError, match="did you mean 'greek'"):
        prepare([corpus], changed(source_script="greeek"), tmp_path / "out")


def test_settings_that_cannot_be_are_refused():
    for bad, message in {
        "data.max_tokens=0": "at least 1",
        "data.batch_tokens=100": "at least 257",
        "data.weights=[1.0, -2.0]": "over 0",
        "data.layout='ragged'": "padded",
        "data.sampling=1.0": "below 1",
        "text.vocabulary_size=10": "at least 300",
        "data.seed=9223372036854775808": r"below 2\*\*63",
        "train.seed=-1": "at least 0",
        "train.epsilon=nan": "at least 0",
        "train.learning_rate=inf": "finite",
    }.items():
        with pytest.raises(RecipeError, match=message):
            Recipe.load("base", [bad])


def test_what_python_hands_over_is_taken_or_refused_in_words(tmp_path):
    corpus = put(tmp_path, "a", some_pairs(30))
    for corpora, recipe, message in (
        (corpus, RECIPE, "corpora come as a list"),
        ([(corpus.source, corpus.target)], RECIPE, "corpora come as a list"),
        ([corpus], "base", "such as Recipe.load"),
    ):
        with pytest.raises(DataError, match=message):
            prepare(corpora, recipe, tmp_path / "out")
    for wrong in ({"form": "csv"}, {"weight": "2"}):
        with pytest.raises(DataError, match=r"got '2'|there are: plain, tsv, jsonl"):
            Corpus(corpus.source, corpus.target, **wrong)
    named = Corpus(str(corpus.source), str(corpus.target))  # texts are as good as paths
    assert named == corpus
    assert len(Prepared.open(str(prepare([named], RECIPE, str(tmp_path / "out")).directory)).split()) == 29


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"valid": "dev.en"}, "a validation set is a Corpus, such as .*; got 'dev.en'"),
        ({"processes": 0}, "processes must be a whole number, 1 or more; got 0"),
        ({"processes": "2"}, "processes must be a whole number, 1 or more; got '2'"),
        ({"tokenizers": 3}, "out and tokenizers are names of directories; got .* and 3"),
        ({"out": None}, "out and tokenizers are names of directories; got None"),
    ],
)
def test_wrong_types_are_told_before_anything_is_read(tmp_path, wrong, message):
    with pytest.raises(DataError, match=message):
        prepare([Corpus("no.en", "no.de")], RECIPE, **{"out": tmp_path / "out"} | wrong)
    assert not list(tmp_path.iterdir())


def test_a_corpus_is_named_by_files():
    for source, target in ((None, "a.de"), (3, 4), ("a.en", 4)):
        with pytest.raises(DataError, match=r"a corpus is named by its files, as Corpus\('train.en', 'train.de'\)"):
            Corpus(source, target)
    with pytest.raises(DataError, match="two column numbers from 1"):
        Corpus("a.tsv", form="tsv", source_key="9" * 5000, target_key="1")
    for weight in (1e-300, 1e300, float("nan")):
        with pytest.raises(DataError, match=r"a weight is a number over 0, from 0\.0001 to 10,000; got"):
            Corpus("a.en", "a.de", weight=weight)
