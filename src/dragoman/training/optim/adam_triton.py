# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""A Triton kernel for Adam on many weights at once: each number is read once and written once.

A table holds the addresses of the weights, a row for each chunk.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _place(row, column, kind):
    """The address in a column of the table, which is a multiple of 16."""
    return tl.multiple_of(tl.load(row + column).to(tl.pointer_type(kind)), 16)


@triton.jit
def _move(
    weights, gradients, means, squares, halves, count, rate, step, correction, factor, beta2, rest1, rest2, epsilon,
    decay, HALF: tl.constexpr, DECOUPLED: tl.constexpr, BLOCK: tl.constexpr, FULL: tl.constexpr,
):  # fmt: skip
    for start in range(0, count, BLOCK):
        places = start + tl.arange(0, BLOCK)
        inside = None if FULL else places < count  # without a mask, a thread reads and writes 16 bytes at once
        gradient = tl.load(gradients + places, mask=inside).to(tl.float32) * factor
        weight = tl.load(weights + places, mask=inside)
        mean = tl.load(means + places, mask=inside)
        square = tl.load(squares + places, mask=inside)
        if DECOUPLED:
            weight -= rate * decay * weight
        else:
            gradient += decay * weight
        mean += rest1 * (gradient - mean)
        square = beta2 * square + rest2 * gradient * gradient
        weight -= step * mean / (tl.sqrt(square) * correction + epsilon)
        tl.store(weights + places, weight, mask=inside)
        tl.store(means + places, mean, mask=inside)
        tl.store(squares + places, square, mask=inside)
        tl.store(halves + places, weight.to(HALF), mask=inside)


@triton.jit
def adam_kernel(
    table, numbers, beta2, rest1, rest2, epsilon, decay,
    HALF: tl.constexpr, DECOUPLED: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Update one chunk from a gradient in half precision: moments, weight, and the weight in half precision.

    `numbers` are the rate, the rate over the first moment's correction, one over the root of the second's, the factor
    for gradients, and whether to do anything at all; `rest1` and `rest2` are 1 minus the betas, which float32 could not
    compute accurately.
    """
    row = table + tl.program_id(0) * 6
    count = tl.load(row + 5)
    if (count > 0) & (tl.load(numbers + 4) != 0.0):
        weights, gradients = _place(row, 0, tl.float32), _place(row, 1, HALF)
        means, squares = _place(row, 2, tl.float32), _place(row, 3, tl.float32)
        halves = _place(row, 4, HALF)
        rate, step = tl.load(numbers), tl.load(numbers + 1)
        correction, factor = tl.load(numbers + 2), tl.load(numbers + 3)
        if count == CHUNK:
            _move(
                weights, gradients, means, squares, halves, CHUNK, rate, step, correction, factor,
                beta2, rest1, rest2, epsilon, decay, HALF, DECOUPLED, BLOCK, True,
            )  # fmt: skip
        else:
            _move(
                weights, gradients, means, squares, halves, count.to(tl.int32), rate, step, correction, factor,
                beta2, rest1, rest2, epsilon, decay, HALF, DECOUPLED, BLOCK, False,
            )  # fmt: skip
