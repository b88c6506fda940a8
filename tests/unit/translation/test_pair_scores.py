"""Scores of given translations: each token against a plain loop, in any batch, nothing dropped or truncated."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from dragoman import Translator
from dragoman.engines import torch_forced as forced
from dragoman.engines.forced import length_batches
from dragoman.engines.torch_forced import forced_log_probabilities
from dragoman.errors import SearchError, TextError
from dragoman.text.trees.dependency import Tree, TreeAligner
from dragoman.translation import scoring
from forced_by_hand import by_hand
from raising import raises
from tiny_model import LINES, write_tiny_model

KINDS = {
    "transformer": (),
    "two vocabularies": (),
    "recurrent": ("model.architecture=recurrent", "model.attention=additive", "model.cell=gru"),
    "convolutional": ("model.architecture=convolutional", "model.positions=learned", "model.max_positions=90"),
}


@pytest.fixture(scope="module", params=KINDS)
def translator(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Translator:
    place = tmp_path_factory.mktemp("scored") / "tiny"
    write_tiny_model(place, *KINDS[request.param], shared=request.param != "two vocabularies", noise=0.15)
    return Translator.load(place, device="cpu")


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    changes = ("model.positions=learned", "model.max_positions=9")
    return Translator.load(write_tiny_model(tmp_path_factory.mktemp("learned") / "tiny", *changes), device="cpu")


def made_up(n: int, seed: int = 1) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    words = " ".join(LINES).split()
    some = [" ".join(draw.choices(words, k=draw.randrange(0, 9))) for _ in range(2 * n)]
    return list(zip(some[::2], some[1::2], strict=True))


def test_every_token_has_what_it_has_by_hand(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forced, "LOGIT_ROWS", 7)  # parts that end inside of sentences
    pairs = [*made_up(11), ("", "der Kasten"), ("the old box", ""), ("", "")]
    found = translator.score(pairs, length_penalty=0.9)
    assert len(found) == len(pairs)
    model = translator.engines.torch.model
    for (source, target), scored in zip(pairs, found, strict=True):
        ids = translator.target.encode(target)
        with torch.inference_mode():
            expected = by_hand([model], translator.source.encode(source), ids)
        assert scored.tokens == (*translator.target.tokens(ids), "</s>")
        assert scored.token_log_probabilities == pytest.approx(expected, abs=2e-4)
        assert scored.log_probability == pytest.approx(sum(expected), abs=1e-3)
        assert scored.per_token == pytest.approx(sum(expected) / len(expected), abs=1e-4)
        assert scored.score == pytest.approx(sum(expected) / ((5 + len(expected)) / 6) ** 0.9, abs=1e-3)
    assert len({round(scored.log_probability, 3) for scored in found}) > 11


def test_batches_and_windows_change_nothing(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = made_up(40, seed=2)
    alone = translator.score(pairs, batch=1)
    monkeypatch.setattr(scoring, "WINDOW_BATCHES", 2)
    for batch in (3, 7):
        for one, other in zip(alone, translator.stream_scores(iter(pairs), batch=batch), strict=True):
            assert one.tokens == other.tokens
            assert one.token_log_probabilities == pytest.approx(other.token_log_probabilities, abs=2e-4)
    mixed = random.Random(5).sample(range(len(pairs)), len(pairs))
    again = translator.score([pairs[i] for i in mixed], batch=1)
    assert again == [alone[i] for i in mixed]  # one at a time: to the last bit


def test_nothing_is_split(translator: Translator) -> None:
    long = " ".join(LINES[:2])  # more tokens than data.max_tokens, which translate would split
    assert len(translator.source.encode(long)) > translator.longest
    ((scored),) = translator.score([(long, long)])
    with torch.inference_mode():
        model, ids = translator.engines.torch.model, translator.target.encode(long)
        expected = by_hand([model], translator.source.encode(long), ids)
    assert scored.token_log_probabilities == pytest.approx(expected, abs=5e-4)


def test_what_has_no_positions_is_refused_by_its_line(learned: Translator) -> None:
    pairs = [("the", "der"), ("box", "im"), ("the old box stands in the hall", "der"), ("the", "der")]
    found = learned.stream_scores(pairs)
    assert [next(found), next(found)] == learned.score(pairs[:2])
    with raises(SearchError, "text_too_long", "line 3, 'the old box", "its source has", "positions for 8"):
        next(found)
    with raises(SearchError, "text_too_long", "line 1,001,", "its target has"):
        list(learned.stream_scores([("the", "der alte Kasten steht im Flur")], before=1000))
    fits = next(n for n in range(20, 0, -1) if len(learned.target.encode("a" * n)) == 8)
    assert len(learned.score([("the", "a" * fits)])[0].tokens) == 9  # the longest there are positions for


def test_pairs_before_what_is_none_are_answered(learned: Translator) -> None:
    found = learned.stream_scores([("the", "der"), ("box", 3)])  # type: ignore[list-item]
    assert next(found) == learned.score([("the", "der")])[0]
    with raises(SearchError, "wrong_type", "('box', 3)"):
        next(found)


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"batch": 0}, "out_of_range"),
        ({"batch": "x"}, "wrong_type"),
        ({"length_penalty": "x"}, "wrong_type"),
        ({"before": -1}, "out_of_range"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_once(learned: Translator, settings: dict[str, object], code: str) -> None:
    with raises(SearchError, code, next(iter(settings))):
        learned.stream_scores([], **settings)  # type: ignore[arg-type]


def test_two_windows_are_read_ahead_and_no_more(learned: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "WINDOW_CHARACTERS", 30)
    taken = 0

    def pairs() -> Iterator[tuple[str, str]]:
        nonlocal taken
        while True:
            taken += 1
            yield "the", "box"

    found = learned.stream_scores(pairs(), batch=2)
    next(found)
    assert taken == 12  # windows of 36 characters, fewer than the 32 pairs of 16 batches


def test_memory_does_not_grow_with_the_pairs(learned: Translator) -> None:
    def most(n: int) -> int:
        tracemalloc.start()
        assert sum(1 for _ in learned.stream_scores((("the", "der") for _ in range(n)), batch=8)) == n
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    most(300)  # what is made once and kept
    assert most(3000) < 3 * most(300)  # ten times, if anything of each pair stayed


def test_long_pairs_come_in_smaller_batches() -> None:
    pairs = [([5] * s, [5] * t) for s, t in [(3, 2), (800, 3), (4, 700), (5, 5), (2000, 1), (3, 1), (80, 80)]]
    found = list(length_batches(pairs, 16))
    assert sorted(i for here in found for i in here) == list(range(7))
    for here in found:
        longest = max(len(side) for i in here for side in pairs[i])
        assert len(here) == 1 or len(here) * longest <= 16 * 80
    assert [len(here) for here in length_batches(pairs[:1] * 37, 16)] == [16, 16, 5]
    assert list(length_batches([], 16)) == []


def test_weights_that_are_no_numbers(tmp_path: Path) -> None:
    translator = Translator.load(write_tiny_model(tmp_path / "tiny"), device="cpu", engine="torch")
    with torch.no_grad():
        next(translator.engines.torch.model.parameters()).fill_(torch.nan)
    with raises(SearchError, "not_finite"):
        translator.score([("the", "der")])


def test_trees(tmp_path: Path) -> None:
    place = write_tiny_model(tmp_path / "tiny", "model.positions=syntax", noise=0.4)
    translator = Translator.load(place, device="cpu")
    box, flat, deep = ["the", "old", "box"], [3, 3, 0], [2, 3, 0]
    pairs = [("the old box", "der"), ("", "im"), ("the old box", "der")]
    trees = [Tree.of(box, flat), Tree.of(box, deep)]
    one, _, other = translator.score(pairs, trees=trees)
    assert one.log_probability != pytest.approx(other.log_probability, abs=1e-4)
    sources = translator.encoded([source for source, _ in pairs], trees)
    rows = forced_log_probabilities(translator.engines.torch, [(sources[2], translator.target.encode("der"))])
    assert other.token_log_probabilities == pytest.approx(rows[0], abs=1e-4)
    found = translator.stream_scores(pairs, trees=trees[:1])
    assert [next(found).tokens, next(found).tokens] == [one.tokens, (*translator.target.tokens(
        translator.target.encode("im")), "</s>")]  # fmt: skip
    with pytest.raises(TextError, match="only 1 tree, and none for line 3"):
        next(found)
    with raises(TextError, "count_mismatch"):
        translator.score(pairs[:2], trees=trees)
    grown = TreeAligner(trees)
    assert len(list(translator.stream_scores(pairs[:2], trees=grown))) == 2  # as many as are needed
    grown.byte_depths("the old box")
