"""Required and avoided phrases with a Translator on a model directory."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dragoman import Constraints, Sampling, Terms, Translation, Translator
from dragoman.engines.torch_forced import forced_log_probabilities
from dragoman.errors import SearchError
from dragoman.search.constraints.phrases import count_occurrences
from dragoman.translation.alignment import align
from raising import raises
from tiny_model import LINES, write_tiny_model

SHORT = {"max_length": 14, "split": "never"}  # a model with weights by chance goes on and on
TEXTS = ["the old box", "", "seven halls", "Good morning!", "the hall is new", "我们去学校。"]


def demanding(n: int) -> tuple[list[str], list[Constraints]]:
    """Texts by chance, and for each some words to write and some not to."""
    draw = random.Random(n)
    words = " ".join(LINES).replace(",", "").split()
    texts = [" ".join(draw.choices(words, k=draw.randrange(1, 7))) for _ in range(n)]
    constraints = []
    for _ in range(n):
        asked = draw.sample(["box", "der alte", "Flur", "学校", "nine", "Thank you", "Ωμέγα"], draw.randrange(0, 3))
        constraints.append(Constraints.of(asked, draw.sample(["the", "is", "im", "und"], draw.randrange(0, 3))))
    return texts, constraints


def test_every_translation_has_what_is_required_and_nothing_that_is_avoided(translator: Translator) -> None:
    texts, constraints = demanding(24)
    for settings in ({"beam": 1}, {"beam": 3, "n_best": 2}, {"no_repeat": 3}, {"length_penalty": 1.5}):
        found = translator.translate(texts, constraints=constraints, max_length=30, split="never", **settings)
        for one, asked in zip(found, constraints, strict=True):
            for each in (one, *one.alternatives):
                assert not any(count_occurrences(each.text, (word,)) for word in asked.avoid)
                assert (list(each.met), list(each.unmet)) == asked.met_and_unmet(each.text)
                assert not each.unmet or "unmet" in each.flags
                assert len(each.met) + len(each.unmet) == len(asked.require)
        if "no_repeat" not in settings:
            assert not any(one.unmet for one in found)


def test_scores_are_those_of_the_model(translator: Translator) -> None:
    found = translator.translate("the old box", require=["Flur", "nine"], **SHORT)
    ids = translator.target.to_ids(found.tokens)
    assert found.log_probability < translator.translate("the old box", **SHORT).log_probability
    (each,) = forced_log_probabilities(translator.engines.torch, [(translator.source.encode("the old box"), ids)])
    assert sum(each) == pytest.approx(found.log_probability, abs=1e-3)
    assert found.score == pytest.approx(sum(each) / ((5 + len(ids) + 1) / 6) ** 0.6, abs=1e-3)


def test_company_changes_nothing(translator: Translator) -> None:
    texts, constraints = demanding(17)
    alone = [translator.translate(t, constraints=[d], **SHORT) for t, d in zip(texts, constraints, strict=True)]
    mixed = random.Random(2).sample(range(17), 17)
    for settings in ({"batch": 5, "reproducible": True}, {"batch": 5}):
        asked = [constraints[i] for i in mixed]
        found = translator.translate([texts[i] for i in mixed], constraints=asked, **SHORT, **settings)
        assert [one.text for one in found] == [alone[i].text for i in mixed]
        if "reproducible" in settings:
            assert found == [alone[i] for i in mixed]


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_texts_without_demands_are_translated_as_ever(directory: Path, engine: str) -> None:
    translator = Translator.load(directory, device="cpu", engine=engine)
    plain = translator.translate(TEXTS, reproducible=True, **SHORT)
    constraints = [None, None, Constraints.of(["Flur"]), None, Constraints(), None]
    found = translator.translate(TEXTS, constraints=constraints, reproducible=True, **SHORT)
    assert [one for i, one in enumerate(found) if i != 2] == [one for i, one in enumerate(plain) if i != 2]
    assert found[2].met == ("Flur",)
    assert translator.translate(TEXTS, terms={"nothing of it": "x"}, reproducible=True, **SHORT) == plain
    assert translator.running_for(constraints=True).engine in ("torch", "native")


def test_an_engine_that_cannot_says_so(directory: Path) -> None:
    translator = Translator.load(directory, device="cpu", engine="ctranslate2")
    with raises(SearchError, "unsupported_by_engine", "'ctranslate2'", "required or avoided phrases"):
        translator.stream(TEXTS, avoid="box")
    eight = Translator.load(directory, device="cpu", precision="int8")
    assert len(eight.translate(TEXTS, terms={}, **SHORT)) == len(TEXTS)  # which constraints nothing
    with raises(SearchError, "unsupported_by_engine", "another precision"):
        eight.stream(TEXTS, require="box", beam=65)


def test_terms_are_found_in_the_source(translator: Translator) -> None:
    terms = Terms({"box": ["Kasten", "Kiste"], "old box": "Truhe", "hall": "Flur", "学校": "school"})
    found = translator.translate([*TEXTS, "hall hall"], terms=terms, **SHORT)
    assert [one.met for one in found] == [("Truhe",), (), (), (), ("Flur",), ("school",), ("Flur", "Flur")]
    assert found[6].text.count("Flur") >= 2
    one = translator.translate("box", terms={"box": ["Kasten", "Kiste"]}, **SHORT)
    assert one.met == ("Kasten | Kiste",) and ("Kasten" in one.text or "Kiste" in one.text)


def test_a_long_text_has_its_terms_in_their_sentences(translator: Translator) -> None:
    text, short = "The box is old. " * 9 + "The hall is new.", {"max_length": 14}
    found = translator.translate(text, terms={"hall": "Flur"}, avoid=["und"], **short)
    assert found.split and found.met == ("Flur",) and "Flur" in found.text
    answered: list[Translation] = []
    with raises(SearchError, "constraints_with_splitting", "'Flur'"):
        answered.extend(translator.stream(["a box", text], require="Flur", **short))
    assert [one.met for one in answered] == [("Flur",)]  # those before it


def test_translations_with_required_words_are_aligned(translator: Translator) -> None:
    found = translator.translate("the old box", require=["Kasten"], beam=2, n_best=2, alignment=True, **SHORT)
    for one in (found, *found.alternatives):
        assert one.met == ("Kasten",)
        assert one.alignment == tuple(align(one.alignment_weights, one.source_tokens, one.tokens)) != ()


def test_what_has_no_room_is_told(translator: Translator) -> None:
    found = translator.translate(["the old box", "seven"], require=["der alte Kasten", "nine"], max_length=2)
    for one in found:
        assert one.unmet and "unmet" in one.flags
        assert set(one.met) | set(one.unmet) == {"der alte Kasten", "nine"}


def test_a_prefix_counts_and_stands_above(translator: Translator) -> None:
    found = translator.translate("seven", prefix="the old", require=["old", "nine"], avoid=["the"], **SHORT)
    assert found.text.startswith("the old")
    assert found.met == ("old", "nine")
    assert found.text.count("the ") == 1


def test_several_models_heed_it_together(directory: Path, tmp_path: Path) -> None:
    other = write_tiny_model(tmp_path / "other", "model.d_model=18", seed=5)
    translator = Translator.load(directory, device="cpu", ensemble=other)
    found = translator.translate(TEXTS, require="Flur", avoid="the", **SHORT)
    assert all(one.met == ("Flur",) for one, text in zip(found, TEXTS, strict=True) if text)
    assert not any(count_occurrences(one.text, ("the",)) for one in found)


def test_draws_avoid_and_are_not_searched(translator: Translator) -> None:
    drawn = translator.translate(["the box"] * 2, avoid=["the", "is"], sampling=Sampling(), beam=9, n_best=9, **SHORT)
    assert not any(count_occurrences(each.text, ("the", "is")) for one in drawn for each in (one, *one.alternatives))
    with raises(SearchError, "constraints_with_sampling", "`sampling` or `require`", "`avoid`"):
        translator.stream(TEXTS, require="box", sampling=Sampling())


def test_demands_that_do_not_fit_the_texts_are_refused(translator: Translator) -> None:
    with raises(SearchError, "count_mismatch", "2 constraints for 6 texts"):
        translator.stream(TEXTS, constraints=[None, None])
    with raises(SearchError, "count_mismatch", "1 constraint "):
        list(translator.stream(iter(TEXTS), constraints=[Constraints.of("box")], **SHORT))
    with raises(SearchError, "conflicting_constraints", "'box'"):
        translator.stream(TEXTS, require="box", avoid="box")
    found = translator.stream(["seven", "the box"], terms={"box": "Kasten"}, avoid="Kasten", **SHORT)
    with raises(SearchError, "conflicting_constraints", "'Kasten'"):
        list(found)
    with raises(SearchError, "count_mismatch", "2 constraints", "1 text;"):
        list(translator.stream(iter(["seven"]), constraints=[None, None], **SHORT))
