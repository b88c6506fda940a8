"""Multi-head attention, section 3.2.2: within one sequence, and from one sequence to another."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor, nn

from dragoman.errors import ShapeError
from dragoman.nn.attention.function import AttentionFunction, attend_made, made_keys
from dragoman.nn.attention.scaled_dot_product import ScaledDotProduct
from dragoman.nn.attention.sees import Sees
from dragoman.nn.cache import GrowingCache, KeyValues
from dragoman.nn.kernels import packed_attention as packed
from dragoman.nn.layout import Layout, Packed
from dragoman.nn.linear import Linear


class _MultiHead(nn.Module):
    """Common to both kinds: h heads of any size, the attention function, and the output projection W^O."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        d_k: int | None = None,
        d_v: int | None = None,
        bias: bool = False,
        dropout: float = 0.0,
        function: AttentionFunction | None = None,
    ) -> None:
        super().__init__()
        if (d_k is None or d_v is None) and d_model % n_heads:
            raise ShapeError(
                f"d_model={d_model} is not divisible by n_heads={n_heads}; give both d_k and d_v", code="not_divisible"
            )
        self.n_heads = n_heads
        self.d_k = d_k if d_k is not None else d_model // n_heads
        self.d_v = d_v if d_v is not None else d_model // n_heads
        self.dropout = dropout
        self.function: AttentionFunction = function if function is not None else ScaledDotProduct()
        self.output = Linear(n_heads * self.d_v, d_model, bias=bias)
        start_projection(self.output)

    def _flat(self, projected: Tensor) -> bool:
        """Whether the kernels for packed sentences support this attention."""
        plain = isinstance(self.function, ScaledDotProduct) and not (self.training and self.dropout)
        return plain and self.d_k == self.d_v and packed.supports(self.d_k, projected.dtype)

    def _heads(self, x: Tensor) -> Tensor:
        """`[B, T, H*C]` to `[B, H, T, C]`."""
        return x.reshape(*x.shape[:2], self.n_heads, x.shape[-1] // self.n_heads).transpose(1, 2)

    def _attend(self, q: Tensor, past: KeyValues, sees: Sees, weights: list[Tensor] | None) -> Tensor:
        """Attend with all heads, `[B, T, H*V]`; append the weights to the caller's list, if given."""
        dropout = self.dropout if self.training else 0.0
        asked = weights is not None
        attended = attend_made(self.function, q, past.keys, past.values, sees, dropout=dropout, weights=asked)
        if weights is not None and attended.weights is not None:
            weights.append(attended.weights)
        return attended.output.transpose(1, 2).flatten(2)


class MultiHeadSelfAttention(_MultiHead):
    """Queries, keys and values from the same sequence, so one matrix product computes all three."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        d_k: int | None = None,
        d_v: int | None = None,
        bias: bool = False,
        dropout: float = 0.0,
        function: AttentionFunction | None = None,
    ) -> None:
        super().__init__(d_model, n_heads, d_k=d_k, d_v=d_v, bias=bias, dropout=dropout, function=function)
        self.widths = [n_heads * self.d_k, n_heads * self.d_k, n_heads * self.d_v]
        self.qkv = Linear(d_model, sum(self.widths), bias=bias)
        start_projection(self.qkv, self.widths)

    def forward(
        self, x: Tensor, sees: Sees, *, cache: GrowingCache | None = None, weights: list[Tensor] | None = None
    ) -> Tensor:
        """Attend within `x`, laid out as `sees.queries`; with a cache, also to earlier positions."""
        qkv = self.qkv(x)
        if sees.tiled is not None and cache is None and weights is None and self._flat(qkv):
            flat: Tensor = self.output(packed.attend(qkv, None, self.n_heads, sees.tiled))
            return flat
        q, k, v = sees.queries.to_grid(qkv).split_with_sizes(self.widths, dim=-1)
        past = KeyValues(made_keys(self.function, self._heads(k), sees.queries), self._heads(v))
        if cache is not None:
            past = cache.extend(past)
        y: Tensor = self.output(sees.queries.from_grid(self._attend(self._heads(q), past, sees, weights)))
        return y


@dataclass(frozen=True)
class PackedKeyValues:
    """Keys and values of packed sentences as one projection, `[M, H*K + H*V]`, and their layout."""

    together: Tensor
    layout: Packed


@dataclass(frozen=True)
class HeadTap:
    """Collects the attention logits `[B, T, S]` of one head, while all heads attend with the fastest kernel."""

    head: int
    logits: list[Tensor] = field(default_factory=list)


class MultiHeadCrossAttention(_MultiHead):
    """Queries from one sequence, keys and values from another: the decoder attends to the encoder's output."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        d_memory: int | None = None,
        d_k: int | None = None,
        d_v: int | None = None,
        bias: bool = False,
        dropout: float = 0.0,
        function: AttentionFunction | None = None,
    ) -> None:
        super().__init__(d_model, n_heads, d_k=d_k, d_v=d_v, bias=bias, dropout=dropout, function=function)
        self.widths = [n_heads * self.d_k, n_heads * self.d_v]
        self.query = Linear(d_model, n_heads * self.d_k, bias=bias)
        self.key_value = Linear(d_memory if d_memory is not None else d_model, sum(self.widths), bias=bias)
        start_projection(self.query)
        start_projection(self.key_value, self.widths)

    def remember(self, memory: Tensor, layout: Layout) -> KeyValues:
        """The memory's keys and values, computed once for all queries."""
        return self._spread(self.key_value(memory), layout)

    def remember_packed(self, memory: Tensor, layout: Packed) -> PackedKeyValues:
        """The same for packed queries; the memory stays packed."""
        return PackedKeyValues(self.key_value(memory), layout)

    def _spread(self, together: Tensor, layout: Layout) -> KeyValues:
        k, v = layout.to_grid(together).split_with_sizes(self.widths, dim=-1)
        return KeyValues(made_keys(self.function, self._heads(k), layout), self._heads(v))

    def forward(
        self,
        x: Tensor,
        past: KeyValues | PackedKeyValues,
        sees: Sees,
        *,
        weights: list[Tensor] | None = None,
        tap: HeadTap | None = None,
    ) -> Tensor:
        """Attend from `x` to the cached keys; `tap` asks for the logits of one head.

        Where `x` has W rows (beams) per cached sentence, the rows of a sentence become W queries to it, and the memory
        is not copied.
        """
        query = self.query(x)
        if tap is not None:
            tap.logits.append(self._head_logits(query, past, sees, tap.head))
        if isinstance(past, PackedKeyValues):
            if sees.tiled is not None and weights is None and self._flat(query):
                flat: Tensor = self.output(packed.attend(query, past.together, self.n_heads, sees.tiled))
                return flat
            past = self._spread(past.together, past.layout)
        q = sees.queries.to_grid(query)
        rows, width = len(q), q.shape[1]
        sentences = len(past.keys)
        beams = rows // max(1, sentences)
        folded = self._heads(q.reshape(sentences, beams * width, q.shape[-1]))
        seen: list[Tensor] | None = None if weights is None else []
        mixed = self._attend(folded, past, sees, seen)
        if weights is not None and seen:
            apart = seen[0].reshape(sentences, self.n_heads, beams, width, seen[0].shape[-1])  # [B, H, W, T, S]
            weights.append(apart.transpose(1, 2).flatten(0, 1))
        y: Tensor = self.output(sees.queries.from_grid(mixed.reshape(rows, width, mixed.shape[-1])))
        return y

    def _head_logits(self, query: Tensor, past: KeyValues | PackedKeyValues, sees: Sees, head: int) -> Tensor:
        """The scaled dot products `[B, T, S]` of one head's queries and keys, before the mask."""
        part = slice(head * self.d_k, (head + 1) * self.d_k)
        if isinstance(past, PackedKeyValues):
            keys = past.layout.to_grid(past.together[..., part])
        else:
            keys = past.keys[:, head]
        logits: Tensor = sees.queries.to_grid(query[..., part]) @ keys.mT * self.d_k**-0.5
        return logits


def start_projection(linear: nn.Linear, widths: list[int] | None = None) -> None:
    """Xavier uniform initialization, separately for each matrix inside a fused one; zero biases."""
    for matrix in linear.weight.data.split_with_sizes(widths if widths is not None else [linear.out_features]):
        nn.init.xavier_uniform_(matrix)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)
