"""A task that only the tree decides: words stand in any order, and are to be written from the root downwards.

The same string of digits has every order for its answer, each under another tree. So positions in the string alone can
tell nothing: whatever a model learns of them, it is right by luck, once in n! times.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from reverse_digits import BOS, EOS, PAD, RECIPE, VOCABULARY, ZERO, tensor

from dragoman import Padded, Transformer
from dragoman.text.trees.dependency import Tree

Example = tuple[list[int], list[int], list[int]]  # digits, how deep each stands, and the digits in that order


def examples(seed: int, n: int) -> list[Example]:
    """Chains of 3 to 6 different digits, each the head of the next, in any order."""
    draw, found = random.Random(seed), []
    for _ in range(n):
        digits = draw.sample(range(10), draw.randint(3, 6))
        chain = draw.sample(range(len(digits)), len(digits))  # the root's place, then that of its only child, ...
        heads = [0] * len(digits)
        for above, below in pairwise(chain):
            heads[below] = above + 1
        tree = Tree.of([str(digit) for digit in digits], heads)
        found.append((digits, list(tree.depths), [digits[place] for place in chain]))
    return found


def read(some: list[Example]) -> tuple[torch.Tensor, Padded]:
    source = tensor([[*(ZERO + digit for digit in digits), EOS] for digits, _, _ in some])
    depths = [[*deep, *[0] * (source.shape[1] - len(deep))] for _, deep, _ in some]
    return source, replace(Padded.of(source, PAD), depths=torch.tensor(depths))


def exact(positions: str, steps: int = 200) -> float:
    """The share of 500 unseen examples that come out right."""
    torch.manual_seed(1)
    model = Transformer(replace(RECIPE, positions=positions), VOCABULARY)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(step / 50, 1 - step / (steps + 1))
        some = examples(step, 64)
        source, layout = read(some)
        target = tensor([[BOS, *(ZERO + digit for digit in right), EOS] for _, _, right in some])
        logits = model(source, target[:, :-1], layout)
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    some = examples(-1, 500)
    with torch.inference_mode():
        state = model.eval().start(model.encode(*read(some)))
        token, rows = torch.full((len(some),), BOS), []
        for _ in range(7):
            logits, state = model.step(token, state)
            token = logits.argmax(-1)
            rows.append(token)
    written = torch.stack(rows, 1).tolist()
    right = [[*(ZERO + digit for digit in order), EOS] for _, _, order in some]
    return sum(row[: len(r)] == r for row, r in zip(written, right, strict=True)) / len(some)


@pytest.mark.slow
def test_the_tree_tells() -> None:
    assert exact("syntax") >= 0.9  # all of them


@pytest.mark.slow
def test_the_order_alone_cannot() -> None:
    assert exact("sinusoidal") <= 0.15  # 0.07; luck alone is 0.05
