"""A survey of all heads: of a model whose heads are known, and of models by chance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.engines.forced_decoding import cross_maps
from dragoman.errors import SearchError
from dragoman.inspect import head_passes
from dragoman.inspect.gates import Place
from dragoman.inspect.head_passes import is_punctuation
from dragoman.inspect.heads import Survey, spearman, survey
from dragoman.inspect.heads_picture import draw_survey
from dragoman.nn import sinusoid
from dragoman.text import learn
from dragoman.translation.alignment_head import head_attention
from dragoman.translation.translator import Translator
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
def found(translator: Translator) -> Survey:
    return survey(translator, SOURCES, TARGETS, curve=True)


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
    found = survey(made, SOURCES, TARGETS)
    for kind in ("encoder", "decoder"):
        (row,) = found.of_kind(kind)
        assert [head.label for head in row] == ["the previous token (100 %)", "itself (100 %)", "spreads evenly"]
        before, itself, even = (head.does for head in row)
        assert before and itself and even
        assert before.at[-1] == itself.at[0] == 1.0
        assert before.confidence > 0.95 and itself.confidence > 0.95
        assert itself.offset == pytest.approx(0.0, abs=0.05)
        assert even.evenness == pytest.approx(1.0, abs=1e-5)
    lengths = [len(ids) + 1 for ids in made.source.encode_many(SOURCES)]
    even = found.of_kind("encoder")[0][2].does
    assert even is not None
    queries = sum(lengths)
    assert even.end == even.first == pytest.approx(len(lengths) / queries, abs=1e-5)  # 1 / n at n queries of each
    assert even.entropy == pytest.approx(sum(n * np.log(n) for n in lengths) / queries, abs=1e-5)
    nothing = sum(abs(head.removal or 0) + head.sensitivity for head in found.heads)
    assert nothing == pytest.approx(0.0, abs=1e-6)  # without embeddings every token is as likely, heads or not
    assert found.cross_entropy == pytest.approx(np.log(made.target.vocabulary_size), abs=1e-5)


def test_all_heads_in_order_with_their_worth(translator: Translator, found: Survey) -> None:
    layers = {"encoder": 1, "decoder": 2, "cross": 2}
    assert [head.place for head in found.heads] == [
        Place(kind, layer, head) for kind, n in layers.items() for layer in range(1, n + 1) for head in (1, 2, 3)
    ]
    assert (found.sentences, found.left_out, found.exact) == (5, 0, True)
    assert found.tokens == sum(len(ids) + 1 for ids in translator.target.encode_many(TARGETS))
    scores = [score.log_probability for score in translator.score(list(zip(SOURCES, TARGETS, strict=True)))]
    assert found.cross_entropy == pytest.approx(-sum(scores) / found.tokens, abs=1e-5)
    assert all(abs(head.slope) <= head.sensitivity + 1e-9 for head in found.heads)  # a sum and the sum of the sizes
    worths = {head.place: head.worth for head in found.heads}
    assert [worths[place] for place in found.order()] == sorted(worths.values())


def test_the_sensitivity_is_of_sentences_one_by_one(translator: Translator, found: Survey) -> None:
    alone = [survey(translator, [source], [target]) for source, target in zip(SOURCES, TARGETS, strict=True)]
    for i, head in enumerate(found.heads):
        sizes = [abs(one.heads[i].slope) * one.tokens for one in alone]
        assert head.sensitivity == pytest.approx(sum(sizes) / found.tokens, abs=1e-5)
        removals = [(one.heads[i].removal or 0.0) * one.tokens for one in alone]
        assert head.removal == pytest.approx(sum(removals) / found.tokens, abs=1e-5)


def test_agreement_with_the_pointer_is_that_of_the_maps(translator: Translator, found: Survey) -> None:
    """Token by token, from the maps that alignments are read from."""
    encoded = translator.encoded(SOURCES), translator.target.encode_many(TARGETS)
    pairs = list(zip(*encoded, strict=True))
    goals = head_attention(translator.engines.torch, pairs, translator.alignment_head)
    for head in (head for head in found.heads if head.place.kind == "cross"):
        hits: dict[str, list[bool]] = {"writes": [], "reads": []}
        for i, weights in cross_maps(translator.engines.torch, pairs):
            best = weights[head.place.layer - 1, head.place.head - 1].argmax(1)
            for t, goal in enumerate(goals[i].argmax(1)):
                if goal < len(pairs[i][0]):  # not the end mark
                    hits["writes"].append(best[t] == goal)
                    hits["reads"].append(best[t + 1] == goal)
        shares = {step: float(np.mean(each)) for step, each in hits.items()}
        assert head.does is not None and head.does.aligns == pytest.approx(max(shares.values()), abs=1e-6)
        assert shares[head.does.step or ""] == max(shares.values())


def test_removal_in_turn_is_the_first_step_of_a_curve(found: Survey) -> None:
    assert [point.removed for point in found.curve] == list(range(16))
    assert found.curve[0].cross_entropy == pytest.approx(found.cross_entropy, abs=1e-5)
    least = min(head.removal for head in found.heads if head.removal is not None)
    assert found.curve[1].cross_entropy - found.curve[0].cross_entropy == pytest.approx(least, abs=1e-5)
    assert all(point.bleu is None for point in found.curve)


def test_a_long_curve_has_some_points(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_passes, "POINTS", 4)
    found = survey(translator, SOURCES[:1], TARGETS[:1], curve=True, ablate=False)
    assert [point.removed for point in found.curve] == [0, 4, 8, 11, 15]


def test_the_estimate_alone(translator: Translator, found: Survey, monkeypatch: pytest.MonkeyPatch) -> None:
    estimated = survey(translator, SOURCES, TARGETS, ablate=False)
    assert not estimated.exact and estimated.agreement() == {}
    assert [head.worth for head in estimated.heads] == pytest.approx([head.sensitivity for head in found.heads])
    monkeypatch.setattr("dragoman.inspect.heads.CHEAP", 1e6)
    assert not survey(translator, SOURCES, TARGETS).exact  # what would take long is asked for
    assert survey(translator, SOURCES[:1], TARGETS[:1], ablate=True).exact


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
    found = survey(made, SOURCES, TARGETS)
    removals = np.array([head.removal for head in found.heads])
    slopes = np.array([head.slope for head in found.heads])
    np.testing.assert_allclose(slopes, removals, atol=0.05 * np.abs(removals).max())
    assert found.agreement()["slope"] > 0.95


def test_translations_are_scored_as_heads_go(translator: Translator) -> None:
    given: list[tuple[list[str], list[str]]] = []

    def score(hypotheses: Any, references: Any) -> float:
        given.append((list(hypotheses), list(references)))
        return float(len(given))

    found = survey(translator, ["", *SOURCES[:2]], ["x", *TARGETS[:2]], bleu=score)
    assert [point.bleu for point in found.curve] == [float(i) for i in range(1, 17)]
    assert found.left_out == 1
    assert all(references == TARGETS[:2] for _, references in given)
    assert given[0][0] == [translation.text for translation in translator.translate(SOURCES[:2], beam=1)]
    assert given[-1][0] != given[0][0]  # with no head at all, it writes something else


@pytest.mark.parametrize(
    "changes",
    [{"positions": "rotary"}, {"attention": "additive"}, {"pattern": "low_rank", "rank": 3}, {"n_heads": 1}],
    ids=lambda changes: " ".join(map(str, changes.values())),
)
def test_other_models_that_have_heads(changes: dict[str, Any], tmp_path: Path) -> None:
    made = Translator.load(model_at(tmp_path / "model", **changes), device="cpu", engine="torch")
    found = survey(made, SOURCES, TARGETS)
    assert json.loads(json.dumps(found.data()))["heads"][0]["kind"] == "encoder"
    assert found.exact and draw_survey(found, tmp_path / "a.png") == ""
    if "pattern" in changes:
        assert [head.label for head in found.of_kind("encoder")[0]] == ["mixes positions"] * 3
        assert all(head.does is not None for head in found.of_kind("cross")[0])
    if "n_heads" in changes:
        assert [head.points for head in found.heads].count(True) == 1
        pointing = next(head for head in found.heads if head.points)
        assert pointing.does is not None and pointing.does.aligns == 1.0


def test_the_mark_of_a_language_is_the_first_key_and_nothing_to_align(tmp_path: Path) -> None:
    made = Translator.load(write_tiny_model(tmp_path / "m", 'text.targets=["de", "fr"]'), device="cpu", engine="torch")
    found = survey(made, ["the old box", "the hall"], ["der alte Kasten", "im Flur"], to=["de", "fr"])
    assert found.sentences == 2
    labels = " ".join(head.label for head in found.heads)
    assert "the first token" not in labels


def test_punctuation_is_of_signs_alone() -> None:
    tokenizer = learn("bpe", ["one, two. three! 4 — five"] * 9, 300)
    tokens = tokenizer.tokens(range(tokenizer.vocabulary_size))
    marked = {token for token, sign in zip(tokens, is_punctuation(tokenizer), strict=True) if sign}
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
    with pytest.raises(SearchError, match="none of 2 has something on both sides"):
        survey(translator, ["one", ""], [" ", "zwei"])
    with pytest.raises(SearchError, match=r"none of 1 has .* at most 512 tokens"):
        survey(translator, ["one " * 600], ["eins"])
    with pytest.raises(SearchError, match="as many sentences each"):
        survey(translator, ["one"], [])
    with pytest.raises(SearchError, match="survey takes a Translator"):
        survey("my-model", ["one"], ["eins"])  # type: ignore[arg-type]
    place = model_at(tmp_path / "one")
    broken = Translator.load(place, device="cpu", engine="torch")
    assert broken.alignment_head is not None  # found while it had numbers
    with torch.no_grad():
        broken.engines.torch.model.decoder[1].cross.output.weight[0, 0] = torch.nan
    with pytest.raises(SearchError, match="NaN"):
        survey(broken, SOURCES, TARGETS)
    with pytest.raises(SearchError, match="ask one of them alone"):
        survey(Translator.load(place, device="cpu", engine="torch", ensemble=place), SOURCES, TARGETS)
    for architecture in ("recurrent", "convolutional"):
        rival = Translator.load(
            model_at(tmp_path / architecture, architecture=architecture), device="cpu", engine="torch"
        )
        with pytest.raises(SearchError, match=f"a {architecture} model has attention to the source alone"):
            survey(rival, SOURCES, TARGETS)
