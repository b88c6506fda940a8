"""Attention (section 3.2): masks, attention functions and multi-head attention."""

from dragoman.nn.attention.additive import Additive
from dragoman.nn.attention.function import (
    Attended,
    AttentionFunction,
    MakesKeys,
    attend_made,
    made_keys,
    weigh,
)
from dragoman.nn.attention.gated import Gated
from dragoman.nn.attention.low_rank import LowRank
from dragoman.nn.attention.multi_head import (
    MultiHeadCrossAttention,
    MultiHeadSelfAttention,
    PackedKeyValues,
    start_projection,
)
from dragoman.nn.attention.scaled_dot_product import ScaledDotProduct, fused_scaled_dot_product, scaled_dot_product
from dragoman.nn.attention.sees import (
    Rule,
    Sees,
    both,
    causal,
    either,
    everything,
    first,
    look,
    scattered,
    window,
)

__all__ = [
    "Additive",
    "Attended",
    "AttentionFunction",
    "Gated",
    "LowRank",
    "MakesKeys",
    "MultiHeadCrossAttention",
    "MultiHeadSelfAttention",
    "PackedKeyValues",
    "Rule",
    "ScaledDotProduct",
    "Sees",
    "attend_made",
    "both",
    "causal",
    "either",
    "everything",
    "first",
    "fused_scaled_dot_product",
    "look",
    "made_keys",
    "scaled_dot_product",
    "scattered",
    "start_projection",
    "weigh",
    "window",
]
