"""Scores against sacreBLEU called directly, and its paired test."""

from __future__ import annotations

from typing import Any

import pytest
import sacrebleu

from dragoman.errors import DataError
from dragoman.evaluation.metrics import choose_tokenizer, compare_systems, score_corpus, sentence_scores
from raising import raises

REFERENCES = [
    "The bridge was built in 1931.",
    "Nobody knows who painted it.",
    "We'll meet at the station.",
    "It rained.",
    "Please close the window!",
]
OURS = [
    "The bridge was built in 1931.",
    "Nobody knows who has painted it.",
    "We will meet at a station.",
    "It rains.",
    "Close the windows please!",
]
WORSE = ["The bridge built.", "Nobody painted.", "Meet station.", "Rain.", "Window!"]


def test_figures_and_signatures_are_sacrebleus_own() -> None:
    found = {s.metric: s for s in score_corpus(OURS, REFERENCES)}
    assert list(found) == ["BLEU", "chrF", "TER"]
    assert found["BLEU"].value == sacrebleu.corpus_bleu(OURS, [REFERENCES]).score
    assert found["chrF"].value == sacrebleu.corpus_chrf(OURS, [REFERENCES]).score
    assert found["TER"].value == sacrebleu.corpus_ter(OURS, [REFERENCES]).score
    version = sacrebleu.__version__
    assert found["BLEU"].signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}"
    assert "nc:6|nw:0" in found["chrF"].signature
    assert "tok:tercom" in found["TER"].signature


@pytest.mark.parametrize("tokenize", ["13a", "intl", "char", "none"])
def test_the_tokenizer_asked_for_is_used_and_shown(tokenize: str) -> None:
    (found,) = score_corpus(OURS, REFERENCES, ["BLEU"], tokenize=tokenize)
    assert found.value == sacrebleu.corpus_bleu(OURS, [REFERENCES], tokenize=tokenize).score
    assert f"|tok:{tokenize}|" in found.signature


def test_lower_case() -> None:
    loud = [line.upper() for line in REFERENCES]
    assert score_corpus(loud, REFERENCES, ["BLEU"])[0].value < 20
    for found in score_corpus(loud, REFERENCES, lowercase=True):
        assert found.value == pytest.approx(0 if found.metric == "TER" else 100)
        assert "case:lc" in found.signature  # which is how sacreBLEU's TER always is


def test_chinese_is_cut_into_characters_for_bleu_and_for_ter() -> None:
    ours, right = ["今天天气很好。", "他去学校。"], ["今天天气不好。", "他去学校了。"]
    bleu, ter = score_corpus(ours, right, ["BLEU", "TER"])
    assert bleu.value == sacrebleu.corpus_bleu(ours, [right], tokenize="zh").score
    assert ter.value == sacrebleu.corpus_ter(ours, [right], normalized=True, asian_support=True).score
    assert 0 < ter.value < 50  # one character of seven and one of six; as words, both lines would be all wrong


def test_text_without_spaces_is_cut_for_bleu() -> None:
    assert choose_tokenizer(["今天天气很好。"]) == "zh"
    assert choose_tokenizer(["これはペンです。"]) == "char"
    assert choose_tokenizer(["Das Wetter ist gut."]) == "13a"
    assert choose_tokenizer([]) == "13a"


def test_the_paired_bootstrap_is_sacrebleus_own() -> None:
    from sacrebleu.metrics import BLEU, CHRF
    from sacrebleu.significance import PairedTest

    ours, worse, references = OURS * 8, WORSE * 8, REFERENCES * 8
    found = compare_systems(ours, worse, references, ["BLEU", "chrF"], resamples=150)
    test = PairedTest([("a", worse), ("b", ours)], {"BLEU": BLEU(), "chrF": CHRF()}, [references], "bs", 150)
    expected = test()[1]
    for ours_found, name in zip(found, ("BLEU", "chrF2"), strict=True):
        other, this = expected[name]
        assert (ours_found.value, ours_found.other, ours_found.p) == (this.score, other.score, this.p_value)
        assert ours_found.difference > 0
        assert ours_found.p < 0.05
        assert "bs:150|seed:12345" in ours_found.signature


def test_a_system_does_not_differ_from_itself() -> None:
    (found,) = compare_systems(OURS, OURS, REFERENCES, ["chrF"], resamples=50)
    assert found.difference == 0
    assert found.p == 1


def test_sentence_scores_find_the_perfect_and_the_wrong() -> None:
    marks = sentence_scores(OURS, REFERENCES)
    assert marks == [sacrebleu.sentence_chrf(h, [r]).score for h, r in zip(OURS, REFERENCES, strict=True)]
    assert marks[0] == pytest.approx(100)


def test_what_cannot_be_scored_is_refused() -> None:
    with raises(DataError, "count_mismatch", "4 translations", "5 references"):
        score_corpus(OURS[:4], REFERENCES)
    with raises(DataError, "no_data"):
        score_corpus([], [])
    with raises(DataError, "unknown_choice", "'blue'", "BLEU"):
        score_corpus(OURS, REFERENCES, ["blue"])
    with raises(DataError, "unknown_choice", "'13b'; did you mean '13a'"):
        score_corpus(OURS, REFERENCES, tokenize="13b")


@pytest.mark.parametrize("texts", ["ab", [None, "b"], [b"a", b"b"]])
def test_what_are_no_texts_is_not_scored(texts: Any) -> None:
    for hypotheses, references in ((texts, ["a", "b"]), (["a", "b"], texts)):
        with raises(DataError, "wrong_type"):
            score_corpus(hypotheses, references)
