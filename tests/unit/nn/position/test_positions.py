import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import ShapeError
from dragoman.nn import (
    IndexPositions,
    LearnedPositions,
    NoPositions,
    NormalizedIndexPositions,
    Packed,
    Padded,
    SinusoidalPositions,
    sinusoid,
)
from raising import raises


def test_the_sinusoid_is_the_equation() -> None:
    table = sinusoid(torch.arange(60), 14)
    for pos in (0, 1, 7, 59):
        for i in range(7):
            angle = pos / 10000 ** (2 * i / 14)
            assert math.isclose(float(table[pos, 2 * i]), math.sin(angle), abs_tol=1e-6)
            assert math.isclose(float(table[pos, 2 * i + 1]), math.cos(angle), abs_tol=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1_000_000), st.sampled_from([2, 6, 64, 512]))
def test_bounded_at_any_length(position: int, d_model: int) -> None:
    code = sinusoid(torch.tensor([position]), d_model)
    assert (code.abs() <= 1).all()
    # sine and cosine of one angle lie on the circle, so that every position has the same length
    assert math.isclose(float(code.square().sum()), d_model / 2, rel_tol=1e-5)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 100_000))
def test_unique(start: int) -> None:
    table = sinusoid(torch.arange(start, start + 300), 64).double()
    distance = torch.cdist(table, table) + 10 * torch.eye(300)
    assert distance.min() > 0.1


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 5000), st.integers(-200, 200))
def test_a_shift_is_a_fixed_linear_map(position: int, k: int) -> None:
    """PE(pos + k) = M_k PE(pos) with M_k made of rotations that do not depend on pos."""
    d_model = 16
    m = torch.zeros(d_model, d_model, dtype=torch.float64)
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        m[2 * i, 2 * i] = m[2 * i + 1, 2 * i + 1] = math.cos(angle)
        m[2 * i, 2 * i + 1] = math.sin(angle)
        m[2 * i + 1, 2 * i] = -math.sin(angle)
    here = sinusoid(torch.tensor(position), d_model).double()
    there = sinusoid(torch.tensor(position + k), d_model).double()
    torch.testing.assert_close(m @ here, there, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "code", [SinusoidalPositions(6), LearnedPositions(20, 6), IndexPositions(), IndexPositions(0.25), NoPositions()]
)
def test_a_token_gets_the_code_of_its_place_in_its_sentence(code: torch.nn.Module) -> None:
    lengths = torch.tensor([3, 0, 2])
    rows = code(torch.zeros(3, 4, 6), Padded(4, lengths))
    rows = rows.expand(3, 4, 6)
    packed = code(torch.zeros(7, 6), Packed.of(lengths, size=7, longest=4))
    assert torch.equal(packed[:3], rows[0, :3])
    assert torch.equal(packed[3:5], rows[2, :2])
    later = code(torch.zeros(3, 2, 6), Padded(2, offset=2))
    assert torch.equal(later.expand(3, 2, 6), rows[:, 2:])


def test_learned_positions_end_somewhere_and_say_so() -> None:
    with raises(ShapeError, "text_too_long", "9 tokens", "8"):
        LearnedPositions(8, 6)(torch.zeros(1, 9, 6), Padded(9))


def test_the_index_is_added_to_every_feature() -> None:
    x = torch.randn(2, 5, 3)
    for scale in (1.0, 1 / 30):
        coded = IndexPositions(scale)(x, Padded(5, offset=7))
        for row in range(2):
            for t in range(5):
                torch.testing.assert_close(coded[row, t], x[row, t] + (7 + t) * scale)


def test_the_normalized_index_is_divided_by_the_length_of_the_sentence() -> None:
    lengths, code = [4, 0, 7, 1], NormalizedIndexPositions()
    x = torch.randn(4, 7, 3)
    coded = code(x, Padded(7, torch.tensor(lengths)))
    flat = torch.cat([*(x[row, :n] for row, n in enumerate(lengths)), torch.zeros(2, 3)])
    packed = code(flat, Packed.of(lengths, size=14, longest=8))
    start = 0
    for row, n in enumerate(lengths):
        for t in range(n):
            torch.testing.assert_close(coded[row, t], x[row, t] + t / n)
            torch.testing.assert_close(packed[start + t], x[row, t] + t / n)
        start += n
    assert coded.isfinite().all() and packed.isfinite().all()
    torch.testing.assert_close(code(x, Padded(7))[0], x[0] + torch.arange(7)[:, None] / 7)
