"""The operations of a step in PyTorch: the reference for the Triton kernels, and the fallback without Triton."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.engines.cuda.state import Affine, ModelWeights, NormWeights, SearchState
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
        """Add the last sub-layer's output to the residual stream, normalize, multiply; return stream and product."""
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

    def select(self, w: ModelWeights, s: SearchState, logits: Tensor) -> None:
        """Extend the open hypotheses by every token, keep the likeliest (see `Search`), and advance one position.

        Finished hypotheses are candidates that always win, and so keep their slot.
        """
        sentences, beam = s.shape.sentences, s.shape.beam
        logits = logits[:, : w.vocabulary].view(sentences, beam, -1)
        total = logits.logsumexp(-1, keepdim=True)  # before masking: probabilities are over the whole vocabulary
        end = logits[:, :, EOS : EOS + 1] - total
        at = s.position[:, None].long()
        allowed = logits.clone()
        allowed[:, :, PAD : BOS + 1] = -torch.inf
        allowed[:, :, EOS].masked_fill_(at < s.min_length, -torch.inf)
        value, token = allowed.topk(min(beam, w.vocabulary))
        first = torch.arange(value.shape[2], device=value.device) == 0
        full = (at >= s.limit[:, None])[:, :, None]
        gain = torch.where(full, torch.where(first, end, -torch.inf), value - total)
        token = token.masked_fill(full, EOS)
        held = s.finished.bool()
        always = torch.where(first, torch.inf, -torch.inf)
        candidates = torch.where(held[:, :, None], always, s.score[:, :, None] + gain)
        best, chosen = candidates.flatten(1).topk(beam)
        parent = chosen // value.shape[2]
        held = held.gather(1, parent) & (best == torch.inf)  # not where a slot found nothing: its parent is arbitrary
        score = torch.where(held, s.score.gather(1, parent), best)
        token = token.flatten(1).gather(1, chosen).masked_fill(held, EOS)
        ends = ~held & (token == EOS) & (score > -torch.inf)
        length = torch.where(ends, at + 1, s.length.gather(1, parent))  # the EOS token is counted
        finished = held | ends
        going = s.done == 0

        hope = score.masked_fill(finished, -torch.inf).amax(1, keepdim=True)
        most = s.normalizer[s.limit.long() + 1].maximum(s.normalizer[(at[:, 0] + 2).clamp(max=len(s.normalizer) - 1)])
        beaten = finished & (score / s.normalizer[length.long()] >= hope / most[:, None])
        decided = (beaten.sum(1) >= s.n_best) | full.flatten()

        lineage = s.lineage.gather(1, parent[:, :, None].expand(-1, -1, s.shape.steps))
        lineage.scatter_(2, at[:, :, None].expand(-1, beam, 1), parent[:, :, None].int())
        put = (s.position + 1).repeat_interleave(beam).long()[None]
        kept = s.history.gather(0, put)
        s.history.scatter_(0, put, torch.where(going.repeat_interleave(beam), token.flatten().int(), kept[0])[None])
        for mine, new in ((s.score, score), (s.length, length), (s.finished, finished), (s.lineage, lineage)):
            mine.copy_(torch.where(going.view(-1, *[1] * (mine.dim() - 1)), new.to(mine.dtype), mine))
        s.done.copy_((~going | decided).int())
        s.position.add_((s.done == 0).int())

    def _normalized(
        self, w: ModelWeights, x: Tensor, y: Tensor | None, norm: NormWeights | None
    ) -> tuple[Tensor, Tensor]:
        x = x if y is None else x + y
        if norm is None:
            return x, x
        h = F.layer_norm(x, (w.d_model,), norm.weight, norm.bias, norm.eps)
        return (x if w.pre_norm else h), h
