"""A whole model directory with weights by chance: it knows no language, but answers different texts differently."""

from __future__ import annotations

from pathlib import Path

import torch

from dragoman.config import Recipe
from dragoman.files import write_manifest
from dragoman.models.directory import build, write_model
from dragoman.text import learn
from dragoman.text.special_tokens import EOS, PAD

LINES = [
    "the old box stands in the hall",
    "we’ll see: the box is old, and the hall is new",
    "Good morning! How are you? I am fine. Thank you.",
    "我们去学校。你也来吗？",
    "der alte Kasten steht im Flur, und niemand sieht ihn",
    "seven boxes, eight halls, nine mornings",
]


def write_tiny_model(directory: Path, *changes: str, shared: bool = True, seed: int = 3, noise: float = 0.25) -> Path:
    """A model that has been written as training writes one."""
    directory.mkdir(parents=True, exist_ok=True)
    settings = ("model.d_model=24", "model.encoder_layers=1")
    if not any(change.startswith("model.architecture=") for change in changes):
        settings += ("model.n_heads=3", "model.d_ff=40")
    settings += ("model.decoder_layers=2", "data.max_tokens=30", f"text.shared={str(shared).lower()}")
    tie = () if shared else ("model.tie=target",)
    recipe = Recipe.load("base", [*settings, *tie, *changes])
    tokenizers = [learn("bpe", LINES * 4, 340)] if shared else [learn("bpe", LINES * 4, n) for n in (340, 350)]
    if recipe.text.targets:
        tokenizers[0] = tokenizers[0].with_targets(recipe.text.targets)
    for tokenizer, name in zip(tokenizers, ("shared",) if shared else ("source", "target"), strict=True):
        tokenizer.save(directory, name)
    sizes = [tokenizer.vocabulary_size for tokenizer in tokenizers]
    vocabulary = sizes[0] if shared else (sizes[0], sizes[1])
    torch.manual_seed(seed)
    model = build(recipe.model, vocabulary, PAD)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * noise)
        model.embeddings.tables["shared" if shared else "target"][EOS] *= 1.6
    write_model(directory, recipe, vocabulary, model.state_dict())
    write_manifest(directory)
    return directory
