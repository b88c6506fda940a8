"""Two layers learn to write digit strings backwards, on strings that they never saw."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import pytest
import reverse_digits


@pytest.mark.slow
def test_two_layers_learn_to_reverse_digits() -> None:
    model = reverse_digits.train()
    stream = reverse_digits.strings(seed=2, held_out=True)
    unseen = [next(stream) for _ in range(1000)]
    answers = reverse_digits.write(model, unseen)
    exact = sum(answer == text[::-1] for text, answer in zip(unseen, answers, strict=True))
    assert exact >= 990
    # and it does so by looking where it should: from right to left, at the digit that it writes next
    drawn = reverse_digits.look(model, "31415926").splitlines()[1:]
    looked_at = [max(range(8), key=lambda i, row=row: "  ░▒▓█".index(row[17 + 3 * i])) for row in drawn]
    assert sum(a == b for a, b in zip(looked_at, range(7, -1, -1), strict=True)) >= 6


def test_held_out_strings_are_never_trained_on() -> None:
    train, test = reverse_digits.strings(1, held_out=False), reverse_digits.strings(1, held_out=True)
    assert not {next(train) for _ in range(20_000)} & {next(test) for _ in range(5_000)}
