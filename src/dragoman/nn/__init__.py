"""The layers of section 3: tensors in, tensors out. Nothing here depends on recipes, files or ranks.

Dimension letters, as suffixes where a tensor's shape is not obvious:

    B  sentences in the batch      D  d_model                H  heads
    S  source positions            K  d_k, size of a key     W  beams
    T  target positions            C  any number of features
    N  tokens, packed end to end     F  d_ff
    L  the longest sentence        V  vocabulary (or d_v, beside a K)
"""

from dragoman.nn.attention.additive import Additive
from dragoman.nn.attention.function import AttentionFunction, attend_made, made_keys
from dragoman.nn.attention.gated import Gated
from dragoman.nn.attention.low_rank import LowRank
from dragoman.nn.attention.multi_head import MultiHeadCrossAttention, MultiHeadSelfAttention, PackedKeyValues
from dragoman.nn.attention.scaled_dot_product import ScaledDotProduct, scaled_dot_product
from dragoman.nn.attention.sees import Rule, Sees, both, causal, either, everything, first, look, scattered, window
from dragoman.nn.cache import Cache, CellCache, GrowingCache, KeyValues
from dragoman.nn.dropout import Dropout
from dragoman.nn.embedding import Embeddings
from dragoman.nn.feed_forward import ACTIVATIONS, FeedForward
from dragoman.nn.layout import Layout, Packed, Padded
from dragoman.nn.norm import BatchNorm, LayerNorm, Norm
from dragoman.nn.position import NoPositions, PositionCode
from dragoman.nn.position.alibi import LinearBias
from dragoman.nn.position.index import IndexPositions, NormalizedIndexPositions
from dragoman.nn.position.learned import LearnedPositions
from dragoman.nn.position.relative import RelativePositions
from dragoman.nn.position.rotary import RotaryPositions
from dragoman.nn.position.sinusoidal import SinusoidalPositions, sinusoid
from dragoman.nn.position.syntax import SyntaxPositions
from dragoman.nn.residual import PostNorm, PreNorm, Residual
from dragoman.nn.ssru import SSRU

__all__ = [
    "ACTIVATIONS",
    "SSRU",
    "Additive",
    "AttentionFunction",
    "BatchNorm",
    "Cache",
    "CellCache",
    "Dropout",
    "Embeddings",
    "FeedForward",
    "Gated",
    "GrowingCache",
    "IndexPositions",
    "KeyValues",
    "LayerNorm",
    "Layout",
    "LearnedPositions",
    "LinearBias",
    "LowRank",
    "MultiHeadCrossAttention",
    "MultiHeadSelfAttention",
    "NoPositions",
    "Norm",
    "NormalizedIndexPositions",
    "Packed",
    "PackedKeyValues",
    "Padded",
    "PositionCode",
    "PostNorm",
    "PreNorm",
    "RelativePositions",
    "Residual",
    "RotaryPositions",
    "Rule",
    "ScaledDotProduct",
    "Sees",
    "SinusoidalPositions",
    "SyntaxPositions",
    "attend_made",
    "both",
    "causal",
    "either",
    "everything",
    "first",
    "look",
    "made_keys",
    "scaled_dot_product",
    "scattered",
    "sinusoid",
    "window",
]
