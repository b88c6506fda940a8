"""The SSRU against a loop over its equation: padded, packed, step by step, and its gradients."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dragoman.nn import SSRU, CellCache, Layout, Packed, Padded, causal, look

D, LENGTHS = 5, (7, 1, 4)


@torch.no_grad()
def loop(unit: SSRU, x: Tensor) -> Tensor:
    """The equation of Kim et al. (2019), a token and a feature at a time."""
    rows, cell = [], [0.0] * D
    for token in x:
        row = []
        for i in range(D):
            forget = 1 / (1 + math.exp(-float(unit.gate.weight[i] @ token + unit.gate.bias[i])))
            cell[i] = forget * cell[i] + (1 - forget) * float(unit.value.weight[i] @ token)
            row.append(max(0.0, cell[i]))
        rows.append(row)
    return torch.tensor(rows)


def run(unit: SSRU, x: Tensor, layout: Layout, cache: CellCache | None = None) -> Tensor:
    y: Tensor = unit(x, look(layout, layout, causal, x.device), cache=cache)
    return y


def random_unit() -> SSRU:
    unit = SSRU(D)
    with torch.no_grad():
        for weight in unit.parameters():
            weight.normal_()
    return unit


def test_padded_and_packed_are_the_loop() -> None:
    unit, sentences = random_unit(), [torch.randn(n, D) for n in LENGTHS]
    grid = torch.nn.utils.rnn.pad_sequence(sentences, batch_first=True, padding_value=9.0)
    padded = run(unit, grid, Padded(max(LENGTHS), torch.tensor(LENGTHS)))
    filler = torch.full((2, D), 9.0)
    packed = run(unit, torch.cat([*sentences, filler]), Packed.of([*LENGTHS], size=sum(LENGTHS) + 2))
    for row, (of, found) in enumerate(zip(sentences, packed.split([*LENGTHS, 2]), strict=False)):
        torch.testing.assert_close(padded[row, : len(of)], loop(unit, of))
        torch.testing.assert_close(found, loop(unit, of))


def test_steps_of_any_length_continue_the_loop() -> None:
    unit, x = random_unit(), torch.randn(2, 9, D)
    cache, parts, first = CellCache(), [], 0
    for size in (1, 1, 3, 1, 3):
        layout = Padded(size, offset=first)
        before = cache.fork()
        parts.append(run(unit, x[:, first : first + size], layout, cache))
        assert first == 0 or not torch.equal(before.cells, cache.cells)  # the state before a step stays
        first += size
    for row, found in zip(x, torch.cat(parts, 1), strict=True):
        torch.testing.assert_close(found, loop(unit, row))
    assert cache.rows == 2 and torch.equal(cache.select(torch.tensor([1, 1, 0])).cells, cache.cells[[1, 1, 0]])


def test_gradients() -> None:
    unit, layout = random_unit().double(), Padded(6)
    x = torch.randn(2, 6, D, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: run(unit, x, layout), (x,))


def test_long_texts_forget_without_overflow() -> None:
    unit, x = random_unit(), 50 * torch.randn(1, 300, D)
    found = run(unit, x, Padded(300))
    assert found.isfinite().all()
    torch.testing.assert_close(found[0], loop(unit, x[0]), rtol=1e-4, atol=1e-3)
