"""A whole model directory with weights by chance: it knows no language, but answers different texts differently."""

from __future__ import annotations

from pathlib import Path

import torch

from dragoman.config import Recipe
from dragoman.modeldir.info import ModelInfo
from dragoman.modeldir.save import save_model
from dragoman.models.loading import as_arrays, build_model
from dragoman.text import vocabulary_sizes
from dragoman.text.learn import learn
from dragoman.text.special_tokens import EOS, PAD

LINES = [
    "the old box stands in the hall",
    "we’ll see: the box is old, and the hall is new",
    "Good morning! How are you? I am fine. Thank you.",
    "我们去学校。你也来吗？",
    "der alte Kasten steht im Flur, und niemand sieht ihn",
    "seven boxes, eight halls, nine mornings",
]


def write_tiny_model(
    directory: Path,
    *changes: str,
    shared: bool = True,
    seed: int = 3,
    noise: float = 0.25,
    languages: tuple[tuple[str, ...], tuple[str, ...]] = ((), ()),
) -> Path:
    """A model that has been written as training writes one; `languages` are those of source and target."""
    settings = ("model.d_model=24", "model.encoder_layers=1")
    if not any(change.startswith("model.architecture=") for change in changes):
        settings += ("model.n_heads=3", "model.d_ff=40")
    settings += ("model.decoder_layers=2", "data.max_tokens=30", f"text.shared={str(shared).lower()}")
    tie = () if shared else ("model.tie=target",)
    recipe = Recipe.load("base", [*settings, *tie, *changes])
    tokenizers = [learn("bpe", LINES * 4, 340)] if shared else [learn("bpe", LINES * 4, n) for n in (340, 350)]
    if recipe.text.targets:
        tokenizers[0] = tokenizers[0].with_targets(recipe.text.targets)
    both = tokenizers[0], tokenizers[-1]
    vocabulary = vocabulary_sizes(*both)
    torch.manual_seed(seed)
    model = build_model(recipe.model, vocabulary, PAD)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * noise)
        model.embeddings.tables["shared" if shared else "target"][EOS] *= 1.6
    info, weights = ModelInfo(vocabulary, *languages), as_arrays(model.state_dict())
    save_model(directory, recipe=recipe, info=info, weights=weights, tokenizers=both, card="# tiny\n")
    return directory
