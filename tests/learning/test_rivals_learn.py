"""The rivals learn to write digit strings backwards, on strings that they never saw, and look where they should."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from dragoman.config import ModelRecipe
from dragoman.models.loading import build_model

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from reverse_digits import BOS, EOS, PAD, VOCABULARY, attention, ids, strings, tensor, write

SIZES = {"d_model": 48, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}
RECIPES = {
    "lstm": ModelRecipe(architecture="recurrent", attention="additive", **SIZES),
    "lstm without attention": ModelRecipe(architecture="recurrent", attention="none", **SIZES),
    "convolutional": ModelRecipe(architecture="convolutional", **SIZES),
}


def short(seed: int, held_out: bool) -> Iterator[str]:
    return (text for text in strings(seed, held_out) if 2 <= len(text) <= 6)


@pytest.mark.parametrize("name", RECIPES)
def test_a_rival_learns_to_reverse_digits(name: str) -> None:
    steps, stream = 250, short(1, held_out=False)
    model = build_model(RECIPES[name], VOCABULARY, pad=PAD)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = 5e-3 * min(step / 40, 1 - step / (steps + 1))
        texts = [next(stream) for _ in range(64)]
        source, target = (
            tensor([[*ids(text), EOS] for text in texts]),
            tensor([[BOS, *ids(text[::-1]), EOS] for text in texts]),
        )
        loss = F.cross_entropy(model(source, target[:, :-1]).flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()
    unseen = [text for text, _ in zip(short(2, held_out=True), range(400), strict=False)]
    answers = write(model, unseen, longest=8)  # type: ignore[arg-type]
    correct = sum(answer == text[::-1] for text, answer in zip(unseen, answers, strict=True))
    if RECIPES[name].attention == "none":
        assert correct >= 340  # all digits go through one vector
        return
    assert correct >= 380
    maps = attention(model, "314159")  # type: ignore[arg-type]
    looked_at = [weights[0, 0, :6].argmax(-1).tolist() for weights in maps.cross]
    # At the digit itself or at a neighbor, whose state knows it: either way it goes from right to left.
    walks = [row for row in looked_at if all(a >= b for a, b in pairwise(row)) and row[0] - row[-1] >= 3]
    assert walks, looked_at
