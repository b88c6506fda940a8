"""A survey of all heads: of a model with known heads, and of random models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.engines.torch_forced import cross_maps
from dragoman.errors import SearchError
from dragoman.inspect.heads import passes
from dragoman.inspect.heads.gates import HeadId
from dragoman.inspect.heads.passes import punctuation_mask
from dragoman.inspect.heads.picture import draw_survey
from dragoman.inspect.heads.survey import HeadSurvey, spearman, survey_heads
from dragoman.nn import sinusoid
from dragoman.text.learn import learn
from dragoman.translation.alignment_head import AlignmentAttention, alignment_attention
from dragoman.translation.translator import Translator
from raising import raises
from small_model import model_at
from tiny_model import write_tiny_model

SOURCES = ["one two three four", "five six", "seven eight nine ten one two", "two", "three two one. six"]
TARGETS = ["eins zwei drei vier", "fünf sechs", "sieben acht neun zehn eins zwei", "zwei", "drei zwei eins. sechs"]


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    made = Translator.load(model_at(tmp_path_factory.mktemp("heads") / "model"), device="cpu", engine="torch")
    torch.manual_seed(4)
    with torch.no_grad():
        for weights in made.engines.torch.model.parameters():
            weights.add_(torch.randn_like(weights) * 0.3)
    return made


@pytest.fixture(scope="module")
def found(translator: Translator) -> HeadSurvey:
    return survey_heads(translator, SOURCES, TARGETS, curve=True)


def test_heads_that_were_made_for_a_trade_are_named_after_it(tmp_path: Path) -> None:
    """Queries that are the code of the place before, of the same place, or nothing; keys that are that of their own."""
    d, far = 24, 40
    made = Translator.load(
        model_at(tmp_path / "model", d_model=d, d_k=d, d_v=5, decoder_layers=1), device="cpu", engine="torch"
    )
    codes = sinusoid(torch.arange(far), d).double()
    back = torch.linalg.lstsq(codes[1:], codes[:-1]).solution  # a place's code times this is the one's before
    wanted = [back, torch.eye(d).double(), torch.zeros(d, d).double()]
    model = made.engines.torch.model
    with torch.no_grad():
        for table in model.embeddings.tables.values():
            table.zero_()  # so that all a layer reads is where a token stands
        for attention in (model.encoder[0].attention, model.decoder[0].attention):
            query, key = attention.qkv.weight.split_with_sizes(attention.widths)[:2]
            query.copy_(torch.cat([60 * matrix.T for matrix in wanted]))
            key.copy_(torch.eye(d).repeat(3, 1))
    found = survey_heads(made, SOURCES, TARGETS)
    for kind in ("encoder", "decoder"):
        (row,) = found.layers(kind)
        assert [head.label for head in row] == ["the previous token (100 %)", "itself (100 %)", "spreads evenly"]
        before, itself, even = (head.statistics for head in row)
        assert before and itself and even
        assert before.offsets[-1] == itself.offsets[0] == 1.0
        assert before.confidence > 0.95 and itself.confidence > 0.95
        assert itself.offset == pytest.approx(0.0, abs=0.05)
        assert even.uniformity == pytest.approx(1.0, abs=1e-5)
    lengths = [len(ids) + 1 for ids in made.source.encode_many(SOURCES)]
    even = found.layers("encoder")[0][2].statistics
    assert even is not None
    queries = sum(lengths)
    assert even.end == even.first == pytest.approx(len(lengths) / queries, abs=1e-5)  # 1 / n at n queries of each
    assert even.entropy == pytest.approx(sum(n * np.log(n) for n in lengths) / queries, abs=1e-5)
    nothing = sum(abs(head.ablation or 0) + head.sensitivity for head in found.heads)
    assert nothing == pytest.approx(0.0, abs=1e-6)  # without embeddings every token is as likely, heads or not
    assert found.cross_entropy == pytest.approx(np.log(made.target.vocabulary_size), abs=1e-5)


def test_all_heads_in_order_with_their_worth(translator: Translator, found: HeadSurvey) -> None:
    layers = {"encoder": 1, "decoder": 2, "cross": 2}
    assert [head.id for head in found.heads] == [
        HeadId(kind, layer, head) for kind, n in layers.items() for layer in range(1, n + 1) for head in (1, 2, 3)
    ]
    assert (found.sentences, found.skipped_pairs, found.ablated) == (5, 0, True)
    assert found.tokens == sum(len(ids) + 1 for ids in translator.target.encode_many(TARGETS))
    scores = [score.log_probability for score in translator.score(list(zip(SOURCES, TARGETS, strict=True)))]
    assert found.cross_entropy == pytest.approx(-sum(scores) / found.tokens, abs=1e-5)
    assert all(abs(head.gradient) <= head.sensitivity + 1e-9 for head in found.heads)  # a sum and the sum of the sizes
    worths = {head.id: head.importance for head in found.heads}
    assert [worths[place] for place in found.by_importance()] == sorted(worths.values())


def test_the_sensitivity_is_of_sentences_one_by_one(translator: Translator, found: HeadSurvey) -> None:
    alone = [survey_heads(translator, [source], [target]) for source, target in zip(SOURCES, TARGETS, strict=True)]
    for i, head in enumerate(found.heads):
        sizes = [abs(one.heads[i].gradient) * one.tokens for one in alone]
        assert head.sensitivity == pytest.approx(sum(sizes) / found.tokens, abs=1e-5)
        removals = [(one.heads[i].ablation or 0.0) * one.tokens for one in alone]
        assert head.ablation == pytest.approx(sum(removals) / found.tokens, abs=1e-5)


def test_agreement_with_the_pointer_is_that_of_the_maps(translator: Translator, found: HeadSurvey) -> None:
    """Token by token, from the maps that alignments are read from."""
    encoded = translator.encoded(SOURCES), translator.target.encode_many(TARGETS)
    pairs = list(zip(*encoded, strict=True))
    goals = alignment_attention(translator.engines.torch, pairs, AlignmentAttention(translator.alignment_head))
    for head in (head for head in found.heads if head.id.kind == "cross"):
        hits: dict[str, list[bool]] = {"writes": [], "reads": []}
        for i, weights in cross_maps(translator.engines.torch, pairs):
            best = weights[head.id.layer - 1, head.id.head - 1].argmax(1)
            for t, goal in enumerate(goals[i].argmax(1)):
                if goal < len(pairs[i][0]):  # not the EOS token
                    hits["writes"].append(best[t] == goal)
                    hits["reads"].append(best[t + 1] == goal)
        shares = {step: float(np.mean(each)) for step, each in hits.items()}
        assert head.statistics is not None and head.statistics.alignment_agreement == pytest.approx(
            max(shares.values()), abs=1e-6
        )
        assert shares[head.statistics.alignment_step or ""] == max(shares.values())


def test_removal_in_turn_is_the_first_step_of_a_curve(found: HeadSurvey) -> None:
    assert [point.removed for point in found.curve] == list(range(16))
    assert found.curve[0].cross_entropy == pytest.approx(found.cross_entropy, abs=1e-5)
    least = min(head.ablation for head in found.heads if head.ablation is not None)
    assert found.curve[1].cross_entropy - found.curve[0].cross_entropy == pytest.approx(least, abs=1e-5)
    assert all(point.bleu is None for point in found.curve)


def test_a_long_curve_has_some_points(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "MAX_CURVE_POINTS", 4)
    found = survey_heads(translator, SOURCES[:1], TARGETS[:1], curve=True, ablate=False)
    assert [point.removed for point in found.curve] == [0, 4, 8, 11, 15]


def test_the_estimate_alone(translator: Translator, found: HeadSurvey, monkeypatch: pytest.MonkeyPatch) -> None:
    estimated = survey_heads(translator, SOURCES, TARGETS, ablate=False)
    assert not estimated.ablated and estimated.rank_correlations() == {}
    assert [head.importance for head in estimated.heads] == pytest.approx([head.sensitivity for head in found.heads])
    monkeypatch.setattr("dragoman.inspect.heads.survey.MAX_DEFAULT_ABLATION", 1e6)
    assert not survey_heads(translator, SOURCES, TARGETS).ablated  # what would take long is asked for
    assert survey_heads(translator, SOURCES[:1], TARGETS[:1], ablate=True).ablated


def test_slopes_are_the_worth_of_heads_that_do_little(tmp_path: Path) -> None:
    """To first order, removal is minus the slope: the less a head adds, the nearer."""
    made = Translator.load(
        model_at(tmp_path / "model", encoder_layers=2, norm_order="pre"), device="cpu", engine="torch"
    )
    model = made.engines.torch.model
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if name.endswith(("attention.output.weight", "cross.output.weight")):
                weights.mul_(0.03)
    found = survey_heads(made, SOURCES, TARGETS)
    removals = np.array([head.ablation for head in found.heads])
    slopes = np.array([head.gradient for head in found.heads])
    np.testing.assert_allclose(slopes, removals, atol=0.05 * np.abs(removals).max())
    assert found.rank_correlations()["gradient"] > 0.95


def test_translations_are_scored_as_heads_go(translator: Translator) -> None:
    given: list[tuple[list[str], list[str]]] = []

    def score(hypotheses: Any, references: Any) -> float:
        given.append((list(hypotheses), list(references)))
        return float(len(given))

    found = survey_heads(translator, ["", *SOURCES[:2]], ["x", *TARGETS[:2]], bleu=score)
    assert [point.bleu for point in found.curve] == [float(i) for i in range(1, 17)]
    assert found.skipped_pairs == 1
    assert all(references == TARGETS[:2] for _, references in given)
    assert given[0][0] == [translation.text for translation in translator.translate(SOURCES[:2], beam=1)]
    assert given[-1][0] != given[0][0]  # with no head at all, it writes something else


@pytest.mark.parametrize(
    "changes",
    [
        {"positions": "rotary"},
        {"attention": "additive"},
        {"pattern": "low_rank", "rank": 3},
        {"n_heads": 1},
        {"autoregression": "ssru"},
    ],
    ids=lambda changes: " ".join(map(str, changes.values())),
)
def test_other_models_that_have_heads(changes: dict[str, Any], tmp_path: Path) -> None:
    made = Translator.load(model_at(tmp_path / "model", **changes), device="cpu", engine="torch")
    found = survey_heads(made, SOURCES, TARGETS)
    assert json.loads(json.dumps(found.to_dict()))["heads"][0]["kind"] == "encoder"
    assert found.ablated and draw_survey(found, tmp_path / "a.png") == ""
    if "pattern" in changes:
        assert [head.label for head in found.layers("encoder")[0]] == ["mixes positions"] * 3
        assert all(head.statistics is not None for head in found.layers("cross")[0])
    assert {head.id.kind for head in found.heads} == {
        *("encoder", "cross"),
        *(() if "autoregression" in changes else ("decoder",)),
    }
    if "n_heads" in changes:
        assert [head.alignment_head for head in found.heads].count(True) == 1
        pointing = next(head for head in found.heads if head.alignment_head)
        assert pointing.statistics is not None and pointing.statistics.alignment_agreement == 1.0


def test_the_mark_of_a_language_is_the_first_key_and_nothing_to_align(tmp_path: Path) -> None:
    made = Translator.load(write_tiny_model(tmp_path / "m", 'text.targets=["de", "fr"]'), device="cpu", engine="torch")
    found = survey_heads(made, ["the old box", "the hall"], ["der alte Kasten", "im Flur"], to=["de", "fr"])
    assert found.sentences == 2
    labels = " ".join(head.label for head in found.heads)
    assert "the first token" not in labels


def test_punctuation_is_of_signs_alone() -> None:
    tokenizer = learn("bpe", ["one, two. three! 4 — five"] * 9, 300)
    tokens = tokenizer.tokens(range(tokenizer.vocabulary_size))
    marked = {token for token, sign in zip(tokens, punctuation_mask(tokenizer), strict=True) if sign}
    assert {",", ".", "!"} <= {token.strip("▁") for token in marked}
    assert not any(letter.isalnum() for token in marked for letter in token) and "▁" not in marked


def test_spearman_is_the_correlation_of_ranks() -> None:
    torch.manual_seed(1)
    one, other = torch.randn(11).tolist(), torch.randn(11).tolist()
    squares = sum((sorted(one).index(a) - sorted(other).index(b)) ** 2 for a, b in zip(one, other, strict=True))
    assert spearman(one, other) == pytest.approx(1 - 6 * squares / (11 * (11**2 - 1)))
    assert spearman([1, 2, 2, 3], [1, 2, 2, 3]) == pytest.approx(1.0)
    assert spearman([1, 1, 2, 3], [3, 2, 1, 1]) == pytest.approx(
        float(np.corrcoef([1.5, 1.5, 3, 4], [4, 3, 1.5, 1.5])[0, 1])
    )
    assert spearman([1, 1, 1], [1, 2, 3]) == 0.0


def test_what_cannot_be_asked_about_is_refused(translator: Translator, tmp_path: Path) -> None:
    with raises(SearchError, "no_pairs_left", "2 pairs", "a few hundred sentences"):
        survey_heads(translator, ["one", ""], [" ", "zwei"])
    with raises(SearchError, "no_pairs_left", "512 tokens"):
        survey_heads(translator, ["one " * 600], ["eins"])
    with raises(SearchError, "count_mismatch"):
        survey_heads(translator, ["one"], [])
    with raises(SearchError, "wrong_type", "Translator"):
        survey_heads("my-model", ["one"], ["eins"])  # type: ignore[arg-type]
    place = model_at(tmp_path / "one")
    broken = Translator.load(place, device="cpu", engine="torch")
    assert broken.alignment_head is not None  # found while it had numbers
    with torch.no_grad():
        broken.engines.torch.model.decoder[1].cross.output.weight[0, 0] = torch.nan
    with raises(SearchError, "not_finite"):
        survey_heads(broken, SOURCES, TARGETS)
    with raises(SearchError, "unsupported_ensemble"):
        survey_heads(Translator.load(place, device="cpu", engine="torch", ensemble=place), SOURCES, TARGETS)
    for architecture in ("recurrent", "convolutional"):
        rival = Translator.load(
            model_at(tmp_path / architecture, architecture=architecture), device="cpu", engine="torch"
        )
        with raises(SearchError, "unsupported_model", architecture):
            survey_heads(rival, SOURCES, TARGETS)


@pytest.mark.gpu
def test_a_survey_on_a_gpu_is_that_of_the_cpu(tmp_path: Path) -> None:
    place, surveys = write_tiny_model(tmp_path / "model"), []
    for device in ("cpu", "cuda"):
        made = Translator.load(place, device=device, engine="torch", precision="float32")
        surveys.append(survey_heads(made, SOURCES, TARGETS, curve=True))
    here, there = surveys
    assert there.cross_entropy == pytest.approx(here.cross_entropy, abs=1e-4)
    assert [head.id for head in there.heads] == [head.id for head in here.heads]
    for ours, theirs in zip(there.heads, here.heads, strict=True):
        for name in ("ablation", "gradient", "sensitivity"):
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), abs=1e-4), (ours.id, name)
        assert ours.statistics is not None and theirs.statistics is not None
        assert ours.statistics.entropy == pytest.approx(theirs.statistics.entropy, abs=1e-4)
    assert there.curve[0].cross_entropy == pytest.approx(here.curve[0].cross_entropy, abs=1e-4)
