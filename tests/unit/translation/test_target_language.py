"""Models with several target languages: a language token before each source selects the target."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.engines.forced import cross_attention
from dragoman.engines.torch_forced import cross_maps, forced_log_probabilities
from dragoman.errors import SearchError
from dragoman.search.types import Search
from dragoman.text.special_tokens import EOS
from dragoman.translation.alignment import align
from dragoman.translation.translator import Translator
from raising import raises
from tiny_model import LINES, write_tiny_model

TO = 'text.targets=["de", "fr", "zh-Hans"]'
TEXTS = [line for line in LINES if line != LINES[3]]
ENGINES = ["torch", "native", *(["ctranslate2"] if find_spec("ctranslate2") else [])]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("several") / "model", TO)


@pytest.fixture(scope="module")
def translator(model: Path) -> Translator:
    return Translator.load(model, device="cpu", engine="torch")


def test_it_is_one_more_token_before_the_source(translator: Translator) -> None:
    search, found = Search(beam=3), {}
    for code in translator.targets:
        ids = [[translator.source.target_id(code), *translator.source.encode(text)] for text in TEXTS]
        best = [hypotheses[0] for hypotheses in translator.engines.torch.search(ids, search)]
        found[code] = [one.text for one in translator.translate(TEXTS, search=search, to=code, split="never")]
        assert found[code] == [translator.target.decode(one.ids).strip() for one in best]
    assert len({tuple(texts) for texts in found.values()}) == 3  # and it matters


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same(model: Path, translator: Translator, engine: str) -> None:
    other = Translator.load(model, device="cpu", engine=engine, precision="float32", threads=1)
    for beam in (1, 4):
        asked: dict[str, Any] = {"beam": beam, "to": ["fr", "de", "zh-Hans", "de", "fr"]}
        ours, theirs = translator.translate(TEXTS, **asked), other.translate(TEXTS, **asked)
        if beam == 1 or engine != "ctranslate2":  # whose beam search is its own
            assert [one.text for one in ours] == [one.text for one in theirs]
        if engine != "ctranslate2":  # it does not count EOS in truncated outputs
            assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-3)


def test_each_line_may_have_its_own(translator: Translator) -> None:
    codes = ["fr", "de", "zh-Hans", "fr", "de"]
    apart = [translator.translate(text, to=code) for text, code in zip(TEXTS, codes, strict=True)]
    together = translator.translate(TEXTS, to=codes, reproducible=True)
    assert [one.text for one in together] == [one.text for one in apart]
    german = translator.translate(TEXTS[0], to="de").text
    twice = translator.translate([TEXTS[0], "", TEXTS[0]], to=["de", "fr", "fr"], reproducible=True)
    assert [one.text for one in twice] == [german, "", apart[0].text]
    assert list(translator.stream(iter(TEXTS), to=codes, reproducible=True)) == together


@pytest.mark.parametrize(
    ("to", "code", "mention"),
    [
        (None, "missing_language", "de, fr, zh-Hans"),
        ("it", "unknown_language", "de, fr, zh-Hans"),
        ("zh-hans", "unknown_language", "did you mean 'zh-Hans'?"),
        (["de"], "count_mismatch", "1 language for 5 texts"),
        (["de"] * 4 + [3], "wrong_type", "int 3"),
        ({"de"}, "wrong_type", "{'de'}"),
        (7, "wrong_type", "int 7"),
    ],
)
def test_invalid_target_languages(translator: Translator, to: Any, code: str, mention: str) -> None:
    with raises(SearchError, code, mention):
        translator.translate(TEXTS, to=to)


def test_as_many_languages_as_texts_that_come_one_by_one(translator: Translator) -> None:
    with raises(SearchError, "count_mismatch", "2 languages"):
        list(translator.stream(iter(TEXTS), to=["de", "fr"]))
    with raises(SearchError, "count_mismatch", "6 languages", "5 texts"):
        list(translator.stream(iter(TEXTS), to=["de"] * 6))


def test_source_tokens_attention_and_alignment_are_of_the_text_alone(translator: Translator) -> None:
    text = TEXTS[0]
    found = translator.translate(text, to="fr", alignment=True, attention=True)
    ids, written = translator.source.encode(text), translator.target.to_ids(found.tokens)
    assert found.source_tokens == tuple(translator.source.tokens(ids))
    read = (translator.source.target_id("fr"), *ids)
    (whole,) = cross_attention(translator.engines.torch, [(read, written)])
    assert found.attention.shape == (len(written), len(ids))
    np.testing.assert_allclose(found.attention, whole[:, 1:], atol=1e-6)
    ((_, weights),) = cross_maps(translator.engines.torch, [(read, written)])
    rows = translator.alignment_head.select(weights)
    # The language token and EOS are not words: target words that attend to them most have no link.
    masked = np.concatenate([rows[:, 1:-1], np.maximum(rows[:, :1], rows[:, -1:])], axis=1)
    assert list(found.alignment) == align(masked, translator.source.tokens(ids), found.tokens)


def test_long_text_is_split_and_every_part_is_told(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(TEXTS * 3)
    assert translator.longest == translator.recipe.data.max_tokens - 1
    engine, seen = translator.engines.torch, []
    search = engine.search
    monkeypatch.setattr(engine, "search", lambda sources, *more: seen.extend(sources) or search(sources, *more))
    found = translator.translate(text, to="de", alignment=True)
    assert found.split and len(seen) > 3
    head = translator.source.target_id("de")
    for ids in seen:
        assert ids[0] == head and head not in ids[1:] and len(ids) <= translator.recipe.data.max_tokens
    assert found.source_tokens and not any(token.startswith("<2") for token in found.source_tokens)
    words = len(text.split())
    assert all(0 <= source < words for source, _ in found.alignment)


def test_a_prefix_and_sampling_go_together_with_a_language(translator: Translator) -> None:
    begun = translator.translate(TEXTS[0], to="fr", prefix="the old")
    assert begun.text.startswith("the old")
    from dragoman.search.types import Sampling

    drawn = {code: translator.translate(TEXTS[0], to=code, sampling=Sampling(seed=4)).text for code in ("de", "fr")}
    assert drawn["de"] != drawn["fr"]
    assert drawn["de"] == translator.translate(TEXTS[:2], to=["de", "fr"], sampling=Sampling(seed=4))[0].text


def test_scores_are_of_the_language_asked_for(translator: Translator) -> None:
    pairs = [(TEXTS[0], TEXTS[4]), (TEXTS[1], TEXTS[0])]
    found = translator.score(pairs, to=["fr", "de"])
    ids = [
        ((translator.source.target_id(code), *translator.source.encode(source)), translator.target.encode(target))
        for code, (source, target) in zip(("fr", "de"), pairs, strict=True)
    ]
    rows = forced_log_probabilities(translator.engines.torch, ids)
    assert [one.log_probability for one in found] == pytest.approx([sum(row) for row in rows], rel=1e-4)
    other = translator.score(pairs, to="de")
    assert other[0].log_probability != pytest.approx(found[0].log_probability, rel=1e-4)
    with raises(SearchError, "missing_language"):
        translator.score(pairs)


def test_a_model_of_one_language_takes_no_other(tmp_path: Path) -> None:
    unknown = Translator.load(write_tiny_model(tmp_path / "unknown"), device="cpu", engine="torch")
    with raises(SearchError, "unknown_language", "'de'"):
        unknown.translate(TEXTS, to="de")
    one = write_tiny_model(tmp_path / "one", languages=(("en",), ("de",)))
    plain = Translator.load(one, device="cpu", engine="torch")
    told = plain.translate(TEXTS, to="deu")
    assert told == plain.translate(TEXTS)
    with raises(SearchError, "unknown_language", "'fr'", "'de'"):
        plain.translate(TEXTS, to=["de", "fr", "de", "de", "de"])
    assert plain.targets == () and plain.n_language_tokens == 0


def test_separate_vocabularies(tmp_path: Path) -> None:
    apart = Translator.load(write_tiny_model(tmp_path / "m", TO, shared=False), device="cpu", engine="torch")
    assert apart.targets == ("de", "fr", "zh-Hans") and apart.target.targets == ()
    assert apart.translate(TEXTS[0], to="de").text != apart.translate(TEXTS[0], to="fr").text


def test_the_pointer_is_found_with_languages_before_the_words(translator: Translator) -> None:
    seen: list[Any] = []
    engine = translator.engines.torch

    class Watched:
        cross_maps = staticmethod(engine.cross_maps)

        def search(self, sources: Any, search: Search) -> Any:
            seen.extend(sources)
            return engine.search(sources, search)

    from dragoman.translation.alignment_head import find_alignment_head

    find_alignment_head(Watched(), translator.source)  # type: ignore[arg-type]
    heads = {ids[0] for ids in seen}
    assert heads <= {translator.source.target_id(code) for code in translator.targets} and (not seen or len(heads) == 3)
    assert all(EOS not in ids for ids in seen)


def test_scores_of_pairs_that_come_one_by_one(translator: Translator) -> None:
    pairs, codes = [(text, TEXTS[0]) for text in TEXTS], ["fr", "de", "fr", "zh-Hans", "de"]
    streamed = list(translator.stream_scores(iter(pairs), to=codes, batch=1))
    alone = [translator.score([pair], to=code, batch=1)[0] for pair, code in zip(pairs, codes, strict=True)]
    assert streamed == alone
    with raises(SearchError, "count_mismatch", "2 languages"):
        list(translator.stream_scores(iter(pairs), to=["de", "fr"]))
    with raises(SearchError, "count_mismatch", "6 languages", "5 pairs"):
        list(translator.stream_scores(iter(pairs), to=[*codes, "de"]))
