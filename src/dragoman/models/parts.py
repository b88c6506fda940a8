"""The one place where the words of a recipe become the objects of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from dragoman.config import ModelRecipe
from dragoman.nn import (
    ACTIVATIONS,
    Additive,
    AttentionFunction,
    BatchNorm,
    FeedForward,
    LayerNorm,
    LearnedPositions,
    MultiHeadCrossAttention,
    MultiHeadSelfAttention,
    NoPositions,
    Norm,
    PositionCode,
    PostNorm,
    PreNorm,
    Residual,
    ScaledDotProduct,
    SinusoidalPositions,
)


@dataclass(frozen=True)
class Parts:
    """Makers of the parts of a model; each call makes a new part with weights of its own."""

    self_attention: Callable[[], MultiHeadSelfAttention]
    cross_attention: Callable[[], MultiHeadCrossAttention]
    feed_forward: Callable[[], FeedForward]
    residual: Callable[[], Residual]
    last_norm: Callable[[], Norm | None]
    positions: Callable[[], PositionCode]


def parts(recipe: ModelRecipe) -> Parts:
    """Choose the object for each seam that the recipe names."""

    def attention_function() -> AttentionFunction:
        match recipe.attention:
            case "scaled_dot_product":
                return ScaledDotProduct()
            case "additive":
                return Additive(recipe.key_size, n_heads=recipe.n_heads)

    def norm() -> Norm:
        match recipe.norm:
            case "layer":
                return LayerNorm(recipe.d_model)
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
            case "sinusoidal":
                return SinusoidalPositions(recipe.d_model)
            case "learned":
                return LearnedPositions(recipe.max_positions, recipe.d_model)
            case "none":
                return NoPositions()

    heads: dict[str, Any] = {
        "d_model": recipe.d_model,
        "n_heads": recipe.n_heads,
        "d_k": recipe.key_size,
        "d_v": recipe.value_size,
        "bias": recipe.attention_bias,
        "dropout": recipe.attention_dropout,
    }
    activation: Callable[[Tensor], Tensor] = ACTIVATIONS[recipe.activation]
    return Parts(
        self_attention=lambda: MultiHeadSelfAttention(**heads, function=attention_function()),
        cross_attention=lambda: MultiHeadCrossAttention(**heads, function=attention_function()),
        feed_forward=lambda: FeedForward(recipe.d_model, recipe.d_ff, activation, recipe.feed_forward_dropout),
        residual=residual,
        last_norm=lambda: norm() if recipe.norm_order == "pre" else None,
        positions=positions,
    )
