"""Model directories with random weights, for engines to agree on; sizes that all differ."""

from __future__ import annotations

import random
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from dragoman.config import ModelRecipe, Recipe
from dragoman.files import write_manifest
from dragoman.modeldir.info import ModelInfo
from dragoman.modeldir.layout import WEIGHTS
from dragoman.modeldir.save import write_model_files
from dragoman.models.loading import as_arrays, build_model
from dragoman.text.special_tokens import PAD

PAPER = ModelRecipe(d_model=48, n_heads=3, d_ff=80, encoder_layers=2, decoder_layers=3)
TOLD = {  # positions that attention is told
    "rotary": ModelRecipe(
        d_model=52, n_heads=3, d_k=10, d_v=7, d_ff=90, encoder_layers=3, decoder_layers=2, positions="rotary"
    ),
    "rotary, many heads": ModelRecipe(
        d_model=72, n_heads=19, d_k=6, d_v=11, d_ff=70, encoder_layers=1, decoder_layers=2, positions="rotary",
        attention_bias=True, norm_order="pre",
    ),
    "rotary, one head": ModelRecipe(
        d_model=36, n_heads=1, d_k=38, d_v=5, d_ff=75, encoder_layers=2, decoder_layers=1, positions="rotary"
    ),
    "alibi": ModelRecipe(
        d_model=58, n_heads=6, d_k=9, d_v=11, d_ff=85, encoder_layers=2, decoder_layers=3, positions="alibi"
    ),
    "alibi, many heads": ModelRecipe(
        d_model=70, n_heads=21, d_k=5, d_v=8, d_ff=60, encoder_layers=1, decoder_layers=2, positions="alibi",
        attention_bias=True, norm_order="pre",
    ),
    "relative": ModelRecipe(
        d_model=50, n_heads=7, d_k=8, d_v=12, d_ff=95, encoder_layers=3, decoder_layers=2, positions="relative",
        max_distance=4,
    ),
    "relative, many heads": ModelRecipe(
        d_model=66, n_heads=18, d_k=9, d_v=5, d_ff=84, encoder_layers=1, decoder_layers=2, positions="relative",
        max_distance=1, attention_bias=True, norm_order="pre",
    ),
    "relative, one head, far": ModelRecipe(
        d_model=44, n_heads=1, d_k=23, d_v=150, d_ff=76, encoder_layers=2, decoder_layers=1, positions="relative",
        max_distance=77,
    ),
}  # fmt: skip
RECIPES = {
    "paper": (PAPER, 137),
    **{name: (recipe, 100 + len(name)) for name, recipe in TOLD.items()},
    "pre, gelu, learned, biases, free heads, nothing tied, other epsilon": (
        ModelRecipe(
            d_model=40, n_heads=5, d_k=6, d_v=9, d_ff=72, encoder_layers=1, decoder_layers=2, activation="gelu",
            attention_bias=True, positions="learned", max_positions=64, norm_order="pre", tie="none",
            norm_epsilon=0.05,
        ),
        (90, 151),
    ),
    "ssru": (
        ModelRecipe(
            d_model=44, n_heads=3, d_k=5, d_v=9, d_ff=86, encoder_layers=2, decoder_layers=3, autoregression="ssru"
        ),
        143,
    ),
    "ssru, pre, relative": (
        ModelRecipe(
            d_model=132, n_heads=2, d_k=7, d_v=6, d_ff=71, encoder_layers=1, decoder_layers=2, positions="relative",
            max_distance=3, norm_order="pre", autoregression="ssru",
        ),
        117,
    ),
    "silu, no positions, target tied, output bias": (
        ModelRecipe(
            d_model=64, n_heads=1, d_ff=100, encoder_layers=2, decoder_layers=1, activation="silu", positions="none",
            tie="target", output_bias=True,
        ),
        (70, 203),
    ),
    "tanh, many heads": (
        ModelRecipe(
            d_model=128, n_heads=20, d_k=7, d_v=5, d_ff=65, encoder_layers=1, decoder_layers=1, activation="tanh"
        ),
        601,
    ),
}  # fmt: skip


def write_random(directory: Path, recipe: ModelRecipe, vocabulary: int | tuple[int, int], seed: int = 3) -> Path:
    """A model whose weights, biases and norms are all random, and large enough that its choices are clear."""
    torch.manual_seed(seed)
    model = build_model(recipe, vocabulary, PAD)
    weights = {name: w + 0.1 * torch.randn_like(w) for name, w in model.state_dict().items()}
    directory.mkdir(parents=True)
    write_model_files(directory, Recipe(model=recipe), ModelInfo(vocabulary), as_arrays(weights))
    write_manifest(directory)
    return directory


def write_with_nan(directory: Path, recipe: ModelRecipe, vocabulary: int) -> Path:
    """A random model with NaN in a norm of its decoder."""
    write_random(directory, recipe, vocabulary)
    weights = load_file(directory / WEIGHTS)
    weights["decoder.0.around_cross.norm.weight"] *= torch.nan
    save_file(weights, directory / WEIGHTS)
    return directory


def sentences(n: int, vocabulary: int, longest: int = 19, seed: int = 5) -> list[list[int]]:
    """Random sources of every length up to `longest`."""
    rng = random.Random(seed)
    return [[rng.randrange(4, vocabulary) for _ in range(rng.randrange(0, longest + 1))] for _ in range(n)]
