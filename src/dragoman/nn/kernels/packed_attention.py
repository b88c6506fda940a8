"""Scaled dot-product attention on packed sentences: Triton kernels as PyTorch operators.

Inputs and outputs are whole projections (`[N, 3*H*K]`, or `[N, H*K]` with `[M, 2*H*K]`): neither queries nor gradients
are split and concatenated in memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dragoman.nn.attention.sees import Tiled
from dragoman.nn.layout import TILE

ATTENTION_BLOCK = 64
EXTRA_PROGRAMS = 16  # programs per head that loop over the tiles beyond the usual number
HEAD_SIZES = (16, 32, 64, 128)  # values of d_k that the matrix units support
MAX_FLOAT32_HEAD_SIZE = 64  # above this, gradients need more shared memory than most GPUs have


def supports(d_k: int, dtype: torch.dtype) -> bool:
    """Whether the kernels support heads of this size and type."""
    if dtype == torch.float64:
        return False  # their sums are float32
    return d_k in HEAD_SIZES and (d_k <= MAX_FLOAT32_HEAD_SIZE or dtype.itemsize < torch.float32.itemsize)


def attend(q: Tensor, kv: Tensor | None, heads: int, tiled: Tiled) -> Tensor:
    """Attention `[N, H*K]` from whole projections; see `packed_attention`."""
    out: Tensor
    out, _ = packed_attention(
        q, kv, heads, tiled.causal, tiled.q_tiles, tiled.k_tiles, tiled.low, tiled.high, tiled.first, tiled.final
    )
    return out


def _views(q: Tensor, kv: Tensor | None, width: int) -> tuple[Tensor, Tensor, Tensor]:
    if kv is None:
        return q, q[:, width:], q[:, 2 * width :]
    return q, kv, kv[:, width:]


def _options(q: Tensor, heads: int, width: int, registers: int) -> dict[str, Any]:
    exact = q.dtype == torch.float32
    return {
        "HEADS": heads,
        "K": width // heads,
        "TILE": TILE,
        "BLOCK": ATTENTION_BLOCK,
        # Three matrix-unit products keep float32 precision and are far faster than computing without matrix units.
        "PRECISION": "tf32x3" if exact else "tf32",
        "num_warps": 4,
        "num_stages": 1,
        # More concurrent programs gain more than the few spilled registers cost.
        "maxnreg": None if exact or width // heads > 64 else registers,
    }


def _launch(
    main_kernel: Any, overflow_kernel: Any, heads: int, tiles: Tensor, arguments: tuple[Any, ...], **options: Any
) -> None:
    """One program per head for each of the usual number of tiles, and a few that loop over the rest of the table.

    Full tiles take a sixth of the table, and sentences in random order mostly less than a quarter.
    """
    capacity = len(tiles) - 1
    main_tiles = -(-capacity // 4)
    main_kernel[(heads, main_tiles)](*arguments, **options)
    if capacity > main_tiles:
        overflow_kernel[(heads, min(capacity - main_tiles, EXTRA_PROGRAMS))](
            *arguments, main_tiles, capacity, **options
        )


@torch.library.custom_op("dragoman::packed_attention", mutates_args=())
def packed_attention(
    q: Tensor,
    kv: Tensor | None,
    heads: int,
    causal: bool,
    q_tiles: Tensor,
    k_tiles: Tensor,
    low: Tensor,
    high: Tensor,
    first: Tensor,
    final: Tensor,
) -> tuple[Tensor, Tensor]:
    """Attend from `q [N, H*K]` to `kv [M, 2*H*K]`, or within `q [N, 3*H*K]` if `kv` is None.

    A query sees the keys `low .. high - 1` (up to itself, if causal); a key is seen by queries among
    `first .. final - 1`. Tiles, equally many for queries and keys, are the first rows of programs. Returns the
    output `[N, H*K]` and a log-sum-exp for the backward pass.
    """
    from dragoman.nn.kernels.packed_attention_triton import attention_kernel, other_tiles_kernel

    width = q.shape[1] // 3 if kv is None else q.shape[1]
    q_view, k_view, v_view = _views(q, kv, width)
    out, lse = q.new_empty(len(q), width), q.new_empty(heads, len(q), dtype=torch.float32)
    arguments = (
        q_view, k_view, v_view, out, lse, q_tiles, k_tiles, low, high,
        len(q), q_view.stride(0), k_view.stride(0), (width // heads) ** -0.5,
    )  # fmt: skip
    options = _options(q, heads, width, registers=96)
    _launch(attention_kernel, other_tiles_kernel, heads, q_tiles, arguments, CAUSAL=causal, **options)
    return out, lse


@packed_attention.register_fake
def _(q: Tensor, kv: Tensor | None, heads: int, *_: Any) -> tuple[Tensor, Tensor]:
    width = q.shape[1] // 3 if kv is None else q.shape[1]
    return q.new_empty(len(q), width), q.new_empty(heads, len(q), dtype=torch.float32)


@torch.library.custom_op("dragoman::packed_attention_backward", mutates_args=())
def packed_attention_backward(
    grad: Tensor,
    out: Tensor,
    lse: Tensor,
    q: Tensor,
    kv: Tensor | None,
    heads: int,
    causal: bool,
    q_tiles: Tensor,
    k_tiles: Tensor,
    low: Tensor,
    high: Tensor,
    first: Tensor,
    final: Tensor,
) -> tuple[Tensor, Tensor]:
    """The gradients of `q` and `kv`; the latter is empty if `kv` is None."""
    from dragoman.nn.kernels.packed_attention_triton import attention_backward_kernel, other_tiles_backward_kernel

    width = out.shape[1]
    dq = torch.empty_like(q)
    dkv = q.new_empty(0) if kv is None else torch.empty_like(kv)
    q_view, k_view, v_view = _views(q, kv, width)
    dq_view, dk_view, dv_view = _views(dq, None if kv is None else dkv, width)
    arguments = (
        q_view, k_view, v_view, out, grad, lse, dq_view, dk_view, dv_view,
        q_tiles, k_tiles, low, high, first, final,
        len(q), q_view.stride(0), k_view.stride(0), (width // heads) ** -0.5,
    )  # fmt: skip
    options = _options(q, heads, width, registers=128)
    _launch(attention_backward_kernel, other_tiles_backward_kernel, heads, q_tiles, arguments, CAUSAL=causal, **options)
    return dq, dkv


@packed_attention_backward.register_fake
def _(grad: Tensor, out: Tensor, lse: Tensor, q: Tensor, kv: Tensor | None, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(q), q.new_empty(0) if kv is None else torch.empty_like(kv)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, kv, heads, causal, *bounds = inputs
    ctx.heads, ctx.causal = heads, causal
    ctx.save_for_backward(*output, q, kv, *bounds)


def _backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    out, lse, q, kv, *bounds = ctx.saved_tensors
    dq, dkv = packed_attention_backward(grad.contiguous(), out, lse, q, kv, ctx.heads, ctx.causal, *bounds)
    return dq, None if kv is None else dkv, None, None, *(None for _ in bounds)


packed_attention.register_autograd(_backward, setup_context=_save)
