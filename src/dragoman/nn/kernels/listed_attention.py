"""Attention to few keys on a GPU: the Triton kernels of `gathered_attention_triton.py` as a PyTorch operator.

Each block of queries has a list of keys, and for the gradients each block of keys a list of queries. The first
positions, which see all or are seen by all, have no lists: they are few, and their products are computed as they are.
"""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor

from dragoman.nn.attention.key_blocks import KeyLists, key_lists
from dragoman.nn.attention.random_pairs import capacity_for
from dragoman.nn.attention.sees import SEED_FACTOR, Sparsity, scattered
from dragoman.nn.kernels import uses_triton
from dragoman.nn.kernels.packed_attention import supports

LISTED_AT_ONCE: Final = 64  # keys; half as many in float32, for GPUs with 100 KiB of shared memory
LOG2E: Final = math.log2(math.e)


def supported(q: Tensor, v: Tensor) -> bool:
    """Whether the kernels support queries and values like these."""
    return uses_triton(q) and q.shape[-1] == v.shape[-1] and q.dtype == v.dtype and supports(q.shape[-1], q.dtype)


def listed_attention(
    q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, slopes: Tensor | None, sparsity: Sparsity
) -> Tensor:
    """The same as `gathered_attention`, without tables and dropout."""
    random = sparsity.random if sparsity.random is not None else scattered(0)
    shape = sparsity.radius, sparsity.n_first, random.count, random.seed, sparsity.causal
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    out: Tensor
    out, _ = _listed_attention(q, k, v, lengths, slopes, *shape)
    return out


def _sparsity(radius: int, n_first: int, n_random: int, random_seed: int, causal: bool) -> Sparsity:
    return Sparsity(radius, n_first, scattered(n_random, random_seed) if n_random else None, causal)


def _run(
    kernel: Any, tensors: tuple[Tensor, ...], q: Tensor, strided: tuple[Tensor, ...], lists: KeyLists,
    lengths: Tensor | None, slopes: Tensor | None, sparsity: Sparsity,
) -> None:  # fmt: skip
    """Launch a program for each block, head and sentence."""
    batch, heads, length, width = q.shape
    random = sparsity.random if sparsity.random is not None else scattered(0)
    strides = [stride for x in strided for stride in x.stride()[:3]]
    n_blocks = lists.count(length)
    if not n_blocks or not batch:
        return
    kernel[(n_blocks, heads, batch)](
        *tensors, slopes if slopes is not None else q, lengths if lengths is not None else q, lists.index, lists.ends,
        *strides, lists.start, length, sparsity.radius, sparsity.n_first,
        min(random.count, 1 << 30) << 32, random.seed * SEED_FACTOR & 0xFFFFFFFF, width**-0.5,
        CAUSAL=sparsity.causal, RANDOM=random.count > 0, ALIBI=slopes is not None, LENGTHS=lengths is not None,
        K=width, TILE=lists.size, BLOCK=LISTED_AT_ONCE // (2 if q.dtype == torch.float32 else 1),
        PRECISION="tf32x3" if q.dtype == torch.float32 else "tf32", num_warps=4, num_stages=2,
    )  # fmt: skip


def _zeros(like: Tensor) -> Tensor:
    """`[B, H, L, C]` in the order of memory that projections have, `[B, L, H, C]`."""
    return like.new_zeros(like.transpose(1, 2).shape).transpose(1, 2)


def _first_scores(
    first: Tensor, others: Tensor, lengths: Tensor | None, slopes: Tensor | None, *, keys: bool, causal: bool
) -> Tensor:
    """Scores times log2 e of the first positions with all, `[B, H, n_first, L]`, very low where hidden.

    If `keys`, the first ones are the keys and the others the queries.
    """
    scores: Tensor = (first @ others.mT).float() * (first.shape[-1] ** -0.5 * LOG2E)
    position = torch.arange(others.shape[2], device=first.device)
    own = torch.arange(first.shape[2], device=first.device)[:, None]
    if slopes is not None:
        scores = scores - slopes[:, None, None] * LOG2E * (position - own).abs()
    if keys and causal:
        scores = scores.masked_fill(position < own, -1e30)
    if lengths is not None:
        scores = scores.masked_fill((own if keys else position) >= lengths[:, None, None, None], -1e30)
    return scores


@torch.library.custom_op("dragoman::listed_attention", mutates_args=())
def _listed_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lengths: Tensor | None,
    slopes: Tensor | None,
    radius: int,
    n_first: int,
    n_random: int,
    random_seed: int,
    causal: bool,
) -> tuple[Tensor, Tensor]:
    """The output and the log-sum-exp of scores (times log2 e) for the backward pass."""
    from dragoman.nn.kernels.gathered_attention_triton import listed_keys_kernel

    sparsity = _sparsity(radius, n_first, n_random, random_seed, causal)
    out, lse = _zeros(q), q.new_zeros(q.shape[:3], dtype=torch.float32)
    lists = key_lists(sparsity, capacity_for(q.shape[2]), q.device)
    _run(listed_keys_kernel, (q, k, v, out, lse), q, (q, k, v), lists, lengths, slopes, sparsity)
    if lists.start:
        scores = _first_scores(q[:, :, : lists.start], k, lengths, slopes, keys=False, causal=causal)
        found = torch.logsumexp(scores / LOG2E, -1) * LOG2E
        lse[:, :, : lists.start] = found
        out[:, :, : lists.start] = _weights(scores, found[..., None]).to(v.dtype) @ v
    return out, lse


def _weights(scores: Tensor, lse: Tensor) -> Tensor:
    """Softmax weights, zero where scores are hidden."""
    return torch.where(scores > -1e29, torch.exp2(scores - lse), 0.0)


@_listed_attention.register_fake
def _(q: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return _zeros(q), q.new_zeros(q.shape[:3], dtype=torch.float32)


@torch.library.custom_op("dragoman::listed_attention_backward", mutates_args=())
def _listed_attention_backward(
    grad: Tensor,
    out: Tensor,
    lse: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lengths: Tensor | None,
    slopes: Tensor | None,
    radius: int,
    n_first: int,
    n_random: int,
    random_seed: int,
    causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    from dragoman.nn.kernels.gathered_attention_triton import keys_gradient_kernel, queries_gradient_kernel

    sparsity, capacity = _sparsity(radius, n_first, n_random, random_seed, causal), capacity_for(q.shape[2])
    dq, dk, dv = _zeros(q), _zeros(k), _zeros(v)
    along, scale = (grad.float() * out.float()).sum(-1), q.shape[-1] ** -0.5
    common, strided, rest = (q, k, v, grad, lse, along), (q, k, v, grad), (lengths, slopes, sparsity)
    lists, back = key_lists(sparsity, capacity, q.device), key_lists(sparsity, capacity, q.device, reverse=True)
    _run(queries_gradient_kernel, (*common, dq), q, strided, lists, *rest)
    _run(keys_gradient_kernel, (*common, dk, dv), q, strided, back, *rest)
    if lists.start:
        first = slice(lists.start)
        scores = _first_scores(q[:, :, first], k, lengths, slopes, keys=False, causal=causal)
        weights = _weights(scores, lse[:, :, first, None])
        of_scores = weights * ((grad[:, :, first] @ v.mT).float() - along[:, :, first, None])
        dq[:, :, first] = (of_scores.to(k.dtype) @ k) * scale
    if back.start:
        first = slice(back.start)
        scores = _first_scores(k[:, :, first], q, lengths, slopes, keys=True, causal=causal)
        weights = _weights(scores, lse[:, :, None])
        dv[:, :, first] = weights.to(grad.dtype) @ grad
        of_scores = weights * ((v[:, :, first] @ grad.mT).float() - along[:, :, None])
        dk[:, :, first] = (of_scores.to(q.dtype) @ q) * scale
    return dq, dk, dv


@_listed_attention_backward.register_fake
def _(
    grad: Tensor, out: Tensor, lse: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor]:
    return _zeros(q), _zeros(k), _zeros(v)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*output, *inputs[:5])
    ctx.settings = inputs[5:]


def _backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    out, lse, *tensors = ctx.saved_tensors
    grad = grad if grad.stride(-1) == 1 else grad.contiguous()
    dq, dk, dv = _listed_attention_backward(grad, out, lse, *tensors, *ctx.settings)
    return dq, dk, dv, *(None for _ in range(2 + len(ctx.settings)))


_listed_attention.register_autograd(_backward, setup_context=_save)
