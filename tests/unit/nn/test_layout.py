from typing import Any

import pytest
import torch

from dragoman.errors import ShapeError
from dragoman.nn import Packed, Padded
from raising import raises

CPU = torch.device("cpu")


def test_padded_ends_a_sentence_at_its_last_token_that_is_not_padding() -> None:
    ids = torch.tensor([[5, 6, 0, 0], [5, 0, 7, 0], [0, 0, 0, 0], [5, 6, 7, 8]])
    layout = Padded.of(ids, pad=0)
    assert layout.lengths is not None
    assert layout.lengths.tolist() == [2, 3, 0, 4]  # a pad inside a sentence hides nothing after it
    real = layout.real(CPU)
    assert real is not None
    assert real.sum(-1).tolist() == [2, 3, 0, 4]


def test_padded_of_no_columns() -> None:
    layout = Padded.of(torch.zeros(3, 0, dtype=torch.long), pad=0)
    assert layout.lengths is not None
    assert layout.lengths.tolist() == [0, 0, 0]


def test_an_offset_moves_positions() -> None:
    layout = Padded(3, offset=4)
    assert layout.positions(CPU).tolist() == [4, 5, 6]
    assert layout.longest == 7
    assert layout.real(CPU) is None


def test_packed_takes_a_list_of_lengths() -> None:
    layout = Packed.of([3, 0, 2, 1])
    assert (layout.size, layout.longest) == (6, 3)
    assert layout.position.tolist() == [0, 1, 2, 0, 1, 0]


def test_packed_knows_each_tokens_place(device: torch.device) -> None:
    lengths = torch.tensor([3, 0, 2, 1], device=device)
    layout = Packed.of(lengths, size=8, longest=5)
    assert layout.position.tolist() == [0, 1, 2, 0, 1, 0, 0, 0]
    assert layout.filled.tolist() == [True] * 6 + [False] * 2
    assert layout.slot.tolist() == [0, 1, 2, 10, 11, 15, 20, 20]


def test_grid_and_back(device: torch.device) -> None:
    lengths = torch.tensor([3, 0, 2, 1], device=device)
    layout = Packed.of(lengths, size=8, longest=5)
    x = torch.randn(8, 7, device=device, requires_grad=True)
    grid = layout.to_grid(x)
    assert grid.shape == (4, 5, 7)
    start = 0
    for row, length in enumerate(lengths.tolist()):
        assert torch.equal(grid[row, :length], x[start : start + length])
        assert not grid[row, length:].any()
        start += length
    back = layout.from_grid(grid)
    assert torch.equal(back[:6], x[:6])
    assert not back[6:].any()
    back.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad[:6], torch.ones_like(x.grad[:6]))
    assert not x.grad[6:].any()


def test_packed_sizes_come_from_the_lengths_where_they_are_not_given() -> None:
    layout = Packed.of(torch.tensor([3, 4]))
    assert (layout.size, layout.longest) == (7, 4)


def test_packed_refuses_what_does_not_fit() -> None:
    with raises(ShapeError, "shape_mismatch", "7 tokens", "6"):
        Packed.of(torch.tensor([3, 4]), size=6)
    with raises(ShapeError, "text_too_long", "4 tokens", "longest=3"):
        Packed.of(torch.tensor([3, 4]), longest=3)


@pytest.mark.parametrize("lengths", [[3, -1], [], [1.5], [[2], [3]], "ab", None, [2, None], torch.tensor([2.0])])
def test_lengths_that_are_none_are_refused(lengths: Any) -> None:
    with raises(ShapeError, "wrong_type", "lengths"):
        Packed.of(lengths)
