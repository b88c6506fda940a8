"""Adapters with random weights for any model directory, as training writes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from dragoman.config import Recipe
from dragoman.files import sha256
from dragoman.modeldir.adapter import AdapterInfo
from dragoman.modeldir.info import read_info
from dragoman.modeldir.layout import RECIPE, WEIGHTS
from dragoman.modeldir.save import save_model
from dragoman.models.loading import as_arrays, build_model
from dragoman.nn.lora import add_adapters, trained_weights
from dragoman.text.special_tokens import PAD


def write_adapter(place: Path, base: Path, rank: int = 3, seed: int = 7, scale: float = 1.5) -> Path:
    """An adapter of `base` that changes its translations."""
    recipe, info = Recipe.load(base / RECIPE), read_info(base)
    torch.manual_seed(seed)
    model = build_model(recipe.model, info.vocabulary, PAD)
    add_adapters(model, rank, scale)
    weights = {name: torch.randn_like(w) * 0.3 for name, w in trained_weights(model).items()}
    save_model(
        place,
        recipe=replace(recipe, train=replace(recipe.train, lora=rank)),
        info=info,
        weights=as_arrays(weights),
        tokenizers=None,
        card=f"# An adapter of {base.name}\n",
        adapter=AdapterInfo(rank, scale, base.name, sha256(base / WEIGHTS)),
    )
    return place
