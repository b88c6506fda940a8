"""The operations of a step in Triton: few launches; caches are never copied, gathered or read beyond their end."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
import triton
from torch import Tensor

from dragoman.engines.cuda import triton_jit
from dragoman.engines.cuda.kernels_torch import TorchKernels
from dragoman.engines.cuda.selection import Likeliest, forbid_tokens
from dragoman.engines.cuda.state import Affine, ModelWeights, NormWeights, SearchState
from dragoman.search.constraints.batch import BatchAutomata
from dragoman.search.constraints.beam import ConstraintProgress
from dragoman.search.constraints.token_bytes import SYMBOLS
from dragoman.text.special_tokens import PAD


class Tile(NamedTuple):
    """Block sizes of a program, and its number of warps."""

    block: int
    warps: int


FEW_ROWS = 2  # up to this many, one kernel adds, normalizes and multiplies; for more, the library's products are faster
FEW_ROWS_TILE = 8192
MANY_ROWS = 64
OWN, OWN_OF_MANY = Tile(32, 2), Tile(16, 1)
SOURCE = Tile(32, 2)
LIKELIEST, LIKELIEST_OF_MANY = Tile(1024, 1), Tile(4096, 4)


class TritonKernels(TorchKernels):
    """The library computes matrix products of many rows; each operation between them is one kernel."""

    def __init__(self, few_rows: int = FEW_ROWS) -> None:
        self.few_rows = few_rows

    def embed(self, w: ModelWeights, s: SearchState) -> Tensor:
        """Embedding and position, summed in float32."""
        out = torch.empty(s.shape.rows, w.d_model, dtype=w.dtype, device=w.device)
        block = triton.next_power_of_2(w.d_model)
        triton_jit.embed_kernel[(s.shape.rows,)](
            out, w.table, s.positions, s.history, s.position, w.scale, s.shape.rows, s.shape.beam, w.d_model, block
        )
        return out

    def enter(
        self, w: ModelWeights, x: Tensor, y: Tensor | None, norm: NormWeights | None, into: Affine, active: bool = False
    ) -> tuple[Tensor, Tensor]:
        """All in one kernel for few rows; otherwise a kernel for the sum and the norm, and a matrix product."""
        relu = active and w.activation is F.relu
        if len(x) <= self.few_rows:
            x, out = few_rows(w.pre_norm, x, y, norm, into, relu, w.dtype)
        else:
            x, h = self._normalized(w, x, y, norm)
            if relu and into.bias is not None and h.is_cuda:
                return x, torch._addmm_activation(into.bias, h, into.weight.t())  # the bias and ReLU at its end
            out = F.linear(h, into.weight, into.bias)
            out = F.relu(out) if relu else out
        return x, w.activation(out) if active and not relu else out

    def linear(self, x: Tensor, by: Affine) -> Tensor:
        """x W^T + b."""
        if len(x) <= self.few_rows:
            return few_rows(False, x, None, None, by, False, x.dtype)[1]
        return F.linear(x, by.weight, by.bias)

    def logits(self, w: ModelWeights, x: Tensor, y: Tensor | None, norm: NormWeights | None) -> Tensor:
        """Accumulated in float32: rounded logits would tie."""
        if len(x) <= self.few_rows:
            return few_rows(False, x, y, norm, w.projection, False, torch.float32, last=True)[1]
        return super().logits(w, x, y, norm)

    def attend_own(self, w: ModelWeights, s: SearchState, layer: int, qkv: Tensor) -> Tensor:
        """Each row reads its ancestors' keys and values where they were written."""
        tile = OWN if s.shape.rows < MANY_ROWS else OWN_OF_MANY
        out = torch.empty(s.shape.rows, w.heads * w.d_v, dtype=w.dtype, device=w.device)
        triton_jit.attend_own_kernel[(w.heads, s.shape.rows)](
            out, qkv, s.keys[layer], s.values[layer], s.lineage, s.position, s.done, s.shape.rows, s.shape.steps,
            w.d_k**-0.5, s.shape.beam, s.shape.beam > 1, w.heads, w.d_k, w.d_v,
            triton.next_power_of_2(w.d_k), triton.next_power_of_2(w.d_v), tile.block, num_warps=tile.warps,
        )  # fmt: skip
        return out

    def attend_source(self, w: ModelWeights, s: SearchState, layer: int, q: Tensor) -> Tensor:
        """All beams of a sentence in one program."""
        each = w.heads * (w.d_k + w.d_v)
        place = s.shape.source, each * len(w.layers), each * layer
        return self._attend(w, q, s.source, s.source_length, s.done, place, s.shape.beam)

    def attend_all(self, w: ModelWeights, qkv: Tensor, lengths: Tensor) -> Tensor:
        """The same kernel, with the tokens of a sentence in place of beams."""
        tokens = len(qkv) // len(lengths)
        place = tokens, qkv.shape[1], w.heads * w.d_k
        return self._attend(w, qkv, qkv, lengths, torch.zeros_like(lengths), place, tokens)

    def _attend(
        self,
        w: ModelWeights,
        query: Tensor,
        source: Tensor,
        lengths: Tensor,
        done: Tensor,
        place: tuple[int, int, int],
        queries: int,
    ) -> Tensor:
        out = torch.empty(len(query), w.heads * w.d_v, dtype=w.dtype, device=w.device)
        block = min(64, max(16, triton.next_power_of_2(queries)))
        triton_jit.attend_source_kernel[(w.heads, len(lengths), triton.cdiv(queries, block))](
            out, query, source, lengths, done, query.stride(0), *place, w.d_k**-0.5, queries, w.heads, w.d_k, w.d_v,
            block, max(16, triton.next_power_of_2(w.d_k)), max(16, triton.next_power_of_2(w.d_v)), SOURCE.block,
            num_warps=SOURCE.warps if block <= 16 else 4,
        )  # fmt: skip
        return out

    def select(self, w: ModelWeights, s: SearchState, logits: Tensor) -> None:
        """The likeliest of each block of the vocabulary, then the likeliest of each sentence."""
        if s.required is not None:
            super().select(w, s, logits)
            return
        rows, beam, steps = s.shape.rows, s.shape.beam, s.shape.steps
        values, tokens, tops, masses = self._blocks(w, s, logits)
        blocks = tops.shape[1]
        triton_jit.select_kernel[(s.shape.sentences,)](
            values, tokens, tops, masses, logits, logits.stride(0), s.score, s.finished, s.length, s.lineage,
            s.history, s.position, s.limit, s.done, s.n_best, s.normalizer, rows, steps, s.shape.rules.forbids,
            beam, triton.next_power_of_2(beam), blocks, triton.next_power_of_2(blocks),
            triton.next_power_of_2(blocks * beam), 32,
        )  # fmt: skip

    def likeliest(self, w: ModelWeights, s: SearchState, logits: Tensor) -> Likeliest:
        """Of the likeliest of each block; those of sentences that are done were not computed."""
        values, tokens, tops, masses = self._blocks(w, s, logits)
        done = (s.done != 0).repeat_interleave(s.shape.beam)[:, None]
        best, where = values.flatten(1).masked_fill(done, -torch.inf).topk(s.shape.beam)
        chosen = tokens.flatten(1).gather(1, where).masked_fill(done, PAD)
        total = (tops + masses.log()).masked_fill(done, 0.0).logsumexp(1, keepdim=True)
        return Likeliest(best, chosen.long(), total)

    def _blocks(self, w: ModelWeights, s: SearchState, logits: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The likeliest tokens of each block of the vocabulary, with their logits, and the parts of the softmax."""
        rows, beam = s.shape.rows, s.shape.beam
        tile = LIKELIEST if beam <= 8 else LIKELIEST_OF_MANY
        blocks = triton.cdiv(w.vocabulary, tile.block)
        values = torch.empty(rows, blocks, beam, device=w.device)
        tokens = torch.empty(rows, blocks, beam, dtype=torch.int32, device=w.device)
        tops, masses = torch.empty(2, rows, blocks, device=w.device)

        def run(add: bool, pick: bool) -> None:
            triton_jit.likeliest_kernel[(rows, blocks)](
                values, tokens, tops, masses, logits, s.position, s.done, s.min_length, s.prefixes, s.shape.steps,
                logits.stride(0), w.vocabulary, add, pick, s.prefixes is not None, beam, blocks, tile.block,
                num_warps=tile.warps,
            )  # fmt: skip

        if s.shape.rules.forbids:
            run(add=True, pick=False)
            forbid_tokens(s, logits, s.forced())
            run(add=False, pick=True)
        else:
            run(add=True, pick=True)
        return values, tokens, tops, masses

    def follow(
        self, automata: BatchAutomata, before: ConstraintProgress, tokens: Tensor, lengths: Tensor
    ) -> ConstraintProgress:
        """All symbols of a token in one kernel."""
        groups = lengths.shape[1]
        old = before.states, before.last, before.length, before.met, before.reached
        new = [torch.empty_like(x) for x in old]
        triton_jit.follow_kernel[(len(tokens),)](
            *new, *old, tokens, automata.delta, lengths, automata.stream, automata.first, automata.last,
            automata.between, automata.stream.shape[1], groups, groups > 0, triton.next_power_of_2(max(1, groups)),
            SYMBOLS, automata.between.shape[1], num_warps=1,
        )  # fmt: skip
        return ConstraintProgress(*new)

    def _normalized(
        self, w: ModelWeights, x: Tensor, y: Tensor | None, norm: NormWeights | None
    ) -> tuple[Tensor, Tensor]:
        if norm is None:
            return super()._normalized(w, x, y, norm)
        out = torch.empty_like(x)
        total = torch.empty_like(x) if w.pre_norm and y is not None else None
        triton_jit.add_norm_kernel[(len(x),)](
            total, out, x, y, norm.weight, norm.bias, norm.eps, w.d_model,
            y is not None, total is not None, triton.next_power_of_2(w.d_model),
        )  # fmt: skip
        if w.pre_norm:
            return (x if total is None else total), out
        return out, out


def few_rows(
    pre_norm: bool,
    x: Tensor,
    y: Tensor | None,
    norm: NormWeights | None,
    by: Affine,
    relu: bool,
    dtype: torch.dtype,
    last: bool = False,
) -> tuple[Tensor, Tensor]:
    """The stream, and act(norm(x + y) W^T + b) in `dtype`; the last layer's stream is not needed."""
    rows, width, n = len(x), x.shape[1], len(by.weight)
    out = torch.empty(rows, n, dtype=dtype, device=x.device)
    stream = torch.empty_like(x) if norm is not None and not last and not (pre_norm and y is None) else None
    wide = triton.next_power_of_2(width)
    # One program per multiprocessor, unless the blocks of columns would be too narrow or too wide.
    block = max(1, min(FEW_ROWS_TILE // wide, max(4, triton.next_power_of_2(n // 128 + 1) // 2)))
    triton_jit.few_rows_kernel[(triton.cdiv(n, block),)](
        out, stream, x, y, *((None, None, 0.0) if norm is None else (norm.weight, norm.bias, norm.eps)),
        by.weight, by.bias, n, width, rows, y is not None, norm is not None,
        stream is not None and pre_norm, stream is not None and not pre_norm, by.bias is not None, relu, block, wide,
    )  # fmt: skip
    return (x if stream is None else stream), out
