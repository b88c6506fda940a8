"""The operations of a step in PyTorch: the reference for the Triton kernels, and the fallback without Triton."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.engines.cuda.rules import follow_tokens
from dragoman.engines.cuda.selection import Likeliest, forbid_tokens, select_step
from dragoman.engines.cuda.state import Affine, ModelWeights, NormWeights, SearchState
from dragoman.search.constraints.batch import BatchAutomata
from dragoman.search.constraints.beam import ConstraintProgress
from dragoman.text.special_tokens import BOS, EOS, PAD


class TorchKernels:
    """Each operation as a few tensor operations; attention reads the whole caches."""

    def embed(self, w: ModelWeights, s: SearchState) -> Tensor:
        """The newest tokens of all rows, `[R, D]`: embedding and position, summed in float32."""
        at = s.position.repeat_interleave(s.shape.beam).long()
        tokens = s.history.gather(0, at[None])[0]
        x: Tensor = F.embedding(tokens, w.table).float() * w.scale + s.positions[at]
        return x.to(w.dtype)

    def enter(
        self, w: ModelWeights, x: Tensor, y: Tensor | None, norm: NormWeights | None, into: Affine, active: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Add the last sublayer's output to the residual stream, normalize, multiply; return stream and product."""
        x, h = self._normalized(w, x, y, norm)
        out = self.linear(h, into)
        return x, w.activation(out) if active else out

    def linear(self, x: Tensor, by: Affine) -> Tensor:
        """x W^T + b."""
        return F.linear(x, by.weight, by.bias)

    def logits(self, w: ModelWeights, x: Tensor, y: Tensor | None, norm: NormWeights | None) -> Tensor:
        """Logits `[R, V or wider]`, accumulated in float32 where the device supports it: rounded logits would tie."""
        _, h = self._normalized(w, x, y, norm)
        if h.is_cuda and w.dtype != torch.float32:
            logits = torch.mm(h, w.projection.weight.t(), out_dtype=torch.float32)
        else:
            logits = F.linear(h, w.projection.weight).float()
        return logits if w.projection.bias is None else logits.add_(w.projection.bias)

    def attend_all(self, w: ModelWeights, qkv: Tensor, lengths: Tensor) -> Tensor:
        """Encoder self-attention, `[B * S, H * V]`; no token sees padding."""
        sentences = len(lengths)
        grid = qkv.view(sentences, len(qkv) // sentences, -1)
        parts = grid.split_with_sizes([w.heads * w.d_k, w.heads * w.d_k, w.heads * w.d_v], -1)
        q, k, v = (x.view(*x.shape[:2], w.heads, -1).transpose(1, 2) for x in parts)
        seen = (torch.arange(grid.shape[1], device=qkv.device) < lengths[:, None])[:, None, None]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).reshape(len(qkv), -1)

    def attend_own(self, w: ModelWeights, s: SearchState, layer: int, qkv: Tensor) -> Tensor:
        """Attend from each row to itself and its ancestors; store its keys and values.

        The caches are gathered by lineage, unless every row is its own ancestor.
        """
        rows, beam, steps = s.shape.rows, s.shape.beam, s.shape.steps
        q, k, v = qkv.split_with_sizes([w.heads * w.d_k, w.heads * w.d_k, w.heads * w.d_v], -1)
        row = torch.arange(rows, device=q.device)
        position = s.position.repeat_interleave(beam).long()
        here = position * rows + row
        keys, values = s.keys[layer].flatten(0, 1), s.values[layer].flatten(0, 1)
        keys.index_copy_(0, here, k)
        values.index_copy_(0, here, v)
        column = torch.arange(steps, device=q.device)
        slot = row[:, None]
        if beam > 1:
            ancestor = row[:, None] // beam * beam + s.lineage.view(rows, steps)
            slot = torch.where(column == position[:, None], slot, ancestor)
        at = column * rows + slot  # [R, T]
        past_k = keys[at].view(rows, steps, w.heads, w.d_k).transpose(1, 2)
        past_v = values[at].view(rows, steps, w.heads, w.d_v).transpose(1, 2)
        seen = (column <= position[:, None])[:, None, None]
        out = F.scaled_dot_product_attention(q.view(rows, w.heads, 1, w.d_k), past_k, past_v, attn_mask=seen)
        return out.view(rows, -1)

    def attend_source(self, w: ModelWeights, s: SearchState, layer: int, q: Tensor) -> Tensor:
        """Attend from each row to its sentence's source; the beams of a sentence are queries to the same source."""
        sentences, beam, room = s.shape.sentences, s.shape.beam, s.shape.source
        k, v = s.source[:, :, layer].split_with_sizes([w.heads * w.d_k, w.heads * w.d_v], -1)
        keys = k.view(sentences, room, w.heads, w.d_k).transpose(1, 2)
        values = v.view(sentences, room, w.heads, w.d_v).transpose(1, 2)
        seen = (torch.arange(room, device=q.device) < s.source_length[:, None])[:, None, None]
        asked = q.view(sentences, beam, w.heads, w.d_k).transpose(1, 2)
        out = F.scaled_dot_product_attention(asked, keys, values, attn_mask=seen)
        return out.transpose(1, 2).reshape(s.shape.rows, -1)

    def record(self, w: ModelWeights, s: SearchState, layer: int, q: Tensor) -> None:
        """Store the attention weights of the recorded heads of a layer."""
        heads = [(i, recorded.head) for i, recorded in enumerate(s.shape.recorded) if recorded.layer == layer]
        if not heads:
            return
        sentences, beam, room, rows = s.shape.sentences, s.shape.beam, s.shape.source, s.shape.rows
        keys = s.source[:, :, layer, : w.heads * w.d_k].view(sentences, room, w.heads, w.d_k)
        asked = q.view(sentences, beam, w.heads, w.d_k)
        seen = (torch.arange(room, device=q.device) < s.source_length[:, None])[:, None, None]
        position = torch.where(s.done == 0, s.position, s.shape.steps).repeat_interleave(beam).long()
        here = position * rows + torch.arange(rows, device=q.device)
        for i, head in heads:
            which = slice(None) if head is None else slice(head, head + 1)
            scores = torch.einsum("bwhk,bshk->bhws", asked[:, :, which].float(), keys[:, :, which].float())
            weights = (scores * w.d_k**-0.5).masked_fill(~seen, -torch.inf).softmax(-1).mean(1)
            s.maps[i].flatten(0, 1).index_copy_(0, here, weights.flatten(0, 1))

    def follow(
        self, automata: BatchAutomata, before: ConstraintProgress, tokens: Tensor, lengths: Tensor
    ) -> ConstraintProgress:
        """Progress in the automata of lexical constraints after one more token."""
        return follow_tokens(automata, before, tokens, lengths)

    def select(self, w: ModelWeights, s: SearchState, logits: Tensor) -> None:
        """Extend the open hypotheses by every token, keep the likeliest (see `Search`), and advance one position."""
        select_step(s, self.likeliest(w, s, logits), logits)

    def likeliest(self, w: ModelWeights, s: SearchState, logits: Tensor) -> Likeliest:
        """The likeliest allowed tokens of each row; logits of tokens forbidden by what was written are overwritten."""
        logits = logits[:, : w.vocabulary]
        total = logits.logsumexp(-1, keepdim=True)  # before masking: probabilities are over the whole vocabulary
        forced = s.forced()
        if s.shape.rules.forbids:
            forbid_tokens(s, logits, forced)
        allowed = logits.clone()
        allowed[:, PAD : BOS + 1] = -torch.inf
        too_short = (s.position < s.min_length).repeat_interleave(s.shape.beam)
        allowed[:, EOS].masked_fill_(too_short, -torch.inf)
        if forced is not None:
            at = forced[:, None]
            only = torch.full_like(allowed, -torch.inf).scatter_(1, at, logits.gather(1, at))
            allowed = torch.where(at == PAD, allowed, only)
        return Likeliest(*allowed.topk(min(s.shape.beam, w.vocabulary)), total)

    def _normalized(
        self, w: ModelWeights, x: Tensor, y: Tensor | None, norm: NormWeights | None
    ) -> tuple[Tensor, Tensor]:
        x = x if y is None else x + y
        if norm is None:
            return x, x
        h = F.layer_norm(x, (w.d_model,), norm.weight, norm.bias, norm.eps)
        return (x if w.pre_norm else h), h
