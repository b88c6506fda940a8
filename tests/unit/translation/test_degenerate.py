"""Degenerate output is flagged and has a low confidence."""

from __future__ import annotations

import math

import pytest

from dragoman import Translator
from dragoman.search.types import Hypothesis
from dragoman.text.line_lengths import LineLengths
from dragoman.translation.assembly import Assembly
from dragoman.translation.result import Translation
from tiny_model import write_tiny_model

# pairs of about equal length, none with more than 30 tokens
KNOWN = LineLengths(30, (1.0,), ((8, 20, 25),), (0.7, 1.4))


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return Translator.load(write_tiny_model(tmp_path_factory.mktemp("flags") / "model"), device="cpu", engine="torch")


def flags(translator: Translator, source: str, output: str, lengths: LineLengths | None = KNOWN) -> tuple[str, ...]:
    assembly = Assembly(translator.source, translator.target, lengths=lengths)
    ids = tuple(translator.source.encode(source))
    hypothesis = Hypothesis(translator.target.encode(output), -1.0, -1.0)
    (found,) = assembly.translations([ids], [[hypothesis]])
    if set(found.flags) - {"unseen_length", "empty"}:
        assert found.confidence <= 0.1
    return found.flags


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        ("the old box stands in the hall", "der alte Kasten steht im Flur", ()),
        ("the old box stands in the hall " * 2, "der", ("too_short",)),
        ("the box", "der alte Kasten steht im Flur und niemand sieht den alten Kasten im Flur", ("too_long",)),
        ("the old box stands in the hall", "the old box stands in the hall", ("copied",)),
        ("Anna Berlin", "Anna Berlin", ()),
        ("7 7 7 7 7", "7 7 7 7 7", ()),
        ("the old box", "7 .", ("no_letters",)),
        ("7 7", "7 .", ()),
        ("the old box", "", ("empty",)),
        ("the old box " * 12, "der alte Kasten " * 12, ("unseen_length",)),
        ("the old box stands", "hall " * 9, ("repetitive",)),
    ],
)
def test_flags(translator: Translator, source: str, output: str, expected: tuple[str, ...]) -> None:
    found = flags(translator, source, output)
    assert set(expected) <= set(found)
    if not expected:
        assert found == ()


def test_a_model_without_a_record_has_wider_bounds(translator: Translator) -> None:
    source, output = "the old box stands in the hall", "im Flur"
    assert flags(translator, source, output, LineLengths(30, (1.0,), ((8, 20, 25),), (0.99, 1.1))) == ("too_short",)
    assert flags(translator, source, output, None) == ()


def test_confidence_is_the_geometric_mean_of_the_probabilities() -> None:
    probabilities = [0.5, 0.9, 0.8]  # two tokens and the EOS token
    total = sum(map(math.log, probabilities))
    good = Translation("x y", log_probability=total, tokens=("▁x", "▁y"))
    assert good.confidence == pytest.approx(math.prod(probabilities) ** (1 / 3))
    assert Translation("x y", log_probability=total, tokens=("▁x", "▁y"), copied=True).confidence == 0.1
    assert Translation("").confidence == 0.0
    assert Translation("x y", log_probability=total, tokens=("▁x", "▁y"), split=True).confidence == good.confidence
