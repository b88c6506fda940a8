"""Turn recipe settings into model parts; the only module that does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from dragoman.config import ModelRecipe
from dragoman.nn import SSRU, Additive, AttentionFunction, LowRank, MultiHeadCrossAttention, MultiHeadSelfAttention
from dragoman.nn.attention.scaled_dot_product import ScaledDotProduct
from dragoman.nn.attention.sees import Rule, both, causal, either, everything, first, scattered, window
from dragoman.nn.cache import Cache, CellCache, GrowingCache
from dragoman.nn.feed_forward import ACTIVATIONS, FeedForward
from dragoman.nn.linear import Linear
from dragoman.nn.norm import BatchNorm, LayerNorm, Norm
from dragoman.nn.position import NoPositions, PositionCode
from dragoman.nn.position.alibi import LinearBias
from dragoman.nn.position.index import IndexPositions, NormalizedIndexPositions
from dragoman.nn.position.learned import LearnedPositions
from dragoman.nn.position.relative import RelativePositions
from dragoman.nn.position.rotary import RotaryPositions
from dragoman.nn.position.sinusoidal import SinusoidalPositions
from dragoman.nn.position.syntax import SyntaxPositions
from dragoman.nn.residual import PostNorm, PreNorm, Residual


@dataclass(frozen=True)
class Parts:
    """Factories for the parts of a model; each call returns a new part with its own weights."""

    encoder_attention: Callable[[], MultiHeadSelfAttention]
    decoder_attention: Callable[[], MultiHeadSelfAttention | SSRU]
    decoder_cache: Callable[[], Cache]
    cross_attention: Callable[[], MultiHeadCrossAttention]
    feed_forward: Callable[[], FeedForward]
    residual: Callable[[], Residual]
    last_norm: Callable[[], Norm | None]
    source_positions: Callable[[], PositionCode]
    target_positions: Callable[[], PositionCode]
    encoder_sees: Rule
    decoder_sees: Rule


def parts(recipe: ModelRecipe) -> Parts:
    """Choose the part that the recipe names for each seam."""

    def content() -> AttentionFunction:
        assert recipe.attention != "none"  # ModelRecipe allows it in recurrent models only
        match recipe.attention:
            case "scaled_dot_product":
                return ScaledDotProduct()
            case "additive":
                return Additive(recipe.key_size, n_heads=recipe.n_heads)

    def within() -> AttentionFunction:
        """Self-attention, where the distance between two tokens may matter."""
        match recipe.positions:
            case "relative":
                return RelativePositions(recipe.key_size, recipe.value_size, recipe.max_distance)
            case "rotary":
                return RotaryPositions(recipe.key_size, content())
            case "alibi":
                return LinearBias(recipe.n_heads)
            case "sinusoidal" | "learned" | "index" | "normalized_index" | "syntax" | "none":
                return content()

    def reading() -> AttentionFunction:
        """Self-attention in the encoder, where the whole source is visible."""
        return LowRank(recipe.rank, recipe.max_positions) if recipe.pattern == "low_rank" else within()

    def pattern() -> Rule:
        match recipe.pattern:
            case "full" | "low_rank":
                return everything
            case "local":
                return window(recipe.window)
            case "sparse":
                return either(window(recipe.window), first(recipe.global_tokens), scattered(recipe.random_tokens))

    def norm() -> Norm:
        match recipe.norm:
            case "layer":
                return LayerNorm(recipe.d_model, eps=recipe.norm_epsilon)
            case "batch":
                return BatchNorm(recipe.d_model)

    def residual() -> Residual:
        match recipe.norm_order:
            case "post":
                return PostNorm(norm(), recipe.dropout)
            case "pre":
                return PreNorm(norm(), recipe.dropout)

    def positions() -> PositionCode:
        match recipe.positions:
            case "sinusoidal" | "syntax":
                return SinusoidalPositions(recipe.d_model)
            case "learned":
                return LearnedPositions(recipe.max_positions, recipe.d_model)
            case "index":
                return IndexPositions()
            case "normalized_index":
                return IndexPositions(1 / recipe.max_positions)
            case "relative" | "rotary" | "alibi" | "none":
                return NoPositions()

    def source_positions() -> PositionCode:
        """Positions in the source; it may have a tree, and its length is known. An unfinished target has neither."""
        match recipe.positions:
            case "syntax":
                return SyntaxPositions(recipe.d_model)
            case "normalized_index":
                return NormalizedIndexPositions()
            case _:
                return positions()

    heads: dict[str, Any] = {
        "d_model": recipe.d_model,
        "n_heads": recipe.n_heads,
        "d_k": recipe.key_size,
        "d_v": recipe.value_size,
        "bias": recipe.attention_bias,
        "dropout": recipe.attention_dropout,
    }

    def decoder_attention() -> MultiHeadSelfAttention | SSRU:
        """What gives a decoder layer the target tokens before each token."""
        match recipe.autoregression:
            case "self_attention":
                return MultiHeadSelfAttention(**heads, function=within())
            case "ssru":
                return SSRU(recipe.d_model)

    activation: Callable[[Tensor], Tensor] = ACTIVATIONS[recipe.activation]
    rule = pattern()
    return Parts(
        encoder_attention=lambda: MultiHeadSelfAttention(**heads, function=reading()),
        decoder_attention=decoder_attention,
        decoder_cache=CellCache if recipe.autoregression == "ssru" else GrowingCache,
        cross_attention=lambda: MultiHeadCrossAttention(**heads, function=content()),
        feed_forward=lambda: FeedForward(recipe.d_model, recipe.d_ff, activation, recipe.feed_forward_dropout),
        residual=residual,
        last_norm=lambda: norm() if recipe.norm_order == "pre" else None,
        source_positions=source_positions,
        target_positions=positions,
        encoder_sees=rule,
        decoder_sees=causal if rule is everything else both(causal, rule),  # kernels have a fast path for `causal`
    )


def recurrent_attention(recipe: ModelRecipe, d_memory: int) -> tuple[nn.Module, nn.Module]:
    """A recurrent decoder's attention to the source: the score, and the projection from encoder output to keys."""
    assert recipe.attention != "none"  # that model is `Bottleneck`
    match recipe.attention:
        case "additive":
            return Additive(recipe.d_model, d_memory), nn.Identity()  # has its own key matrix
        case "scaled_dot_product":
            return ScaledDotProduct(), Linear(d_memory, recipe.d_model, bias=False)
