"""Positions in a tree: sinusoids of a token's position and, through a matrix, of its depth."""

from __future__ import annotations

import math

import torch

from dragoman.errors import ShapeError
from dragoman.nn import Packed, Padded, SyntaxPositions
from raising import raises


def test_the_code_is_the_equation() -> None:
    code = SyntaxPositions(6)
    depths = torch.tensor([[2, 0, 1, 7], [1, 1, 0, 255]])
    found = code(torch.ones(2, 4, 6), Padded(4, depths=depths))
    matrix = code.depth.weight.tolist()
    for row in range(2):
        for place in range(4):
            order, deep = (
                [wave(n / 10000 ** (2 * i / 6)) for i in range(3) for wave in (math.sin, math.cos)]
                for n in (place, int(depths[row, place]))
            )
            told = [sum(m * d for m, d in zip(line, deep, strict=True)) for line in matrix]
            expected = [1 + a + b for a, b in zip(order, told, strict=True)]
            torch.testing.assert_close(found[row, place], torch.tensor(expected), atol=1e-5, rtol=0)


def test_padded_and_packed_have_the_same_code() -> None:
    code, lengths = SyntaxPositions(8), torch.tensor([3, 0, 2])
    depths = torch.tensor([[2, 0, 1, 9], [9, 9, 9, 9], [0, 3, 9, 9]])
    rows = code(torch.zeros(3, 4, 8), Padded(4, lengths, depths=depths))
    flat = torch.tensor([2, 0, 1, 0, 3, 0, 0])
    packed = code(torch.zeros(7, 8), Packed.of(lengths, size=7, longest=4, depths=flat))
    assert torch.equal(packed[:3], rows[0, :3])
    assert torch.equal(packed[3:5], rows[2, :2])


def test_place_and_depth_are_not_mistaken_for_each_other() -> None:
    code = SyntaxPositions(16)
    depths = torch.arange(12).expand(12, 12).T  # row i has all its places at depth i
    found = code(torch.zeros(12, 12, 16), Padded(12, depths=depths)).flatten(0, 1)
    distance = torch.cdist(found, found) + 10 * torch.eye(144)
    assert distance.min() > 0.05


def test_the_matrix_learns_and_the_sinusoids_do_not() -> None:
    code = SyntaxPositions(6)
    code(torch.zeros(1, 3, 6), Padded(3, depths=torch.tensor([[1, 0, 1]]))).square().sum().backward()
    assert [name for name, p in code.named_parameters() if p.grad is not None and p.grad.any()] == ["depth.weight"]
    assert list(code.state_dict()) == ["depth.weight"]


def test_the_code_of_a_depth_is_about_as_large_as_that_of_a_place() -> None:
    codes = SyntaxPositions(256).codes()
    assert codes.shape == (256, 256)
    assert 0.35 < float(codes[:30].square().mean().detach()) < 0.65  # a sinusoid's is a half


def test_without_trees_it_says_what_to_give() -> None:
    with raises(ShapeError, "missing_trees", "--source-trees"):
        SyntaxPositions(6)(torch.zeros(2, 4, 6), Padded(4))
    with raises(ShapeError, "shape_mismatch", "(2, 3)", "(2, 4)"):
        SyntaxPositions(6)(torch.zeros(2, 4, 6), Padded(4, depths=torch.zeros(2, 3, dtype=torch.long)))


def test_what_is_deeper_than_the_deepest_counts_as_that() -> None:
    code, layouts = SyntaxPositions(6), [Padded(2, depths=torch.tensor([[0, n]])) for n in (254, 255, 256, 9999)]
    found = [code(torch.zeros(1, 2, 6), layout) for layout in layouts]
    assert torch.equal(found[1], found[2]) and torch.equal(found[1], found[3]) and not torch.equal(found[0], found[1])


def test_half_precision_stays() -> None:
    layout = Padded(2, depths=torch.tensor([[1, 0]]))
    assert SyntaxPositions(6)(torch.zeros(1, 2, 6, dtype=torch.bfloat16), layout).dtype == torch.bfloat16
