"""Model directories to export: random weights whose choices are clear, and tokenizers of the embedded corpus."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch

from dragoman.config import ModelRecipe, Recipe, TextRecipe
from dragoman.demo.corpus import pairs
from dragoman.modeldir.info import ModelInfo
from dragoman.modeldir.save import save_model
from dragoman.modeldir.weights import EMBEDDING_TABLES
from dragoman.models.loading import as_arrays, build_model
from dragoman.text import Tokenizer
from dragoman.text.learn import learn
from dragoman.text.special_tokens import EOS, PAD, UNK
from dragoman.text.token_table import FIRST_LEARNED
from dragoman.text.tokenizer import vocabulary_sizes

POST = ModelRecipe(d_model=32, n_heads=4, d_ff=43, encoder_layers=2, decoder_layers=3)
PRE = ModelRecipe(d_model=24, n_heads=3, d_ff=35, encoder_layers=1, decoder_layers=2, norm_order="pre")


@cache
def lines(side: int) -> tuple[str, ...]:
    return tuple(pair[side] for pair in pairs(200, split="train"))


@cache
def tokenizer(kind: str, side: int | None, size: int) -> Tokenizer:
    """A tokenizer of English (0), German (1) or both."""
    return learn(kind, [*lines(0), *lines(1)] if side is None else lines(side), size)


def exportable(
    place: Path,
    model: ModelRecipe = POST,
    *,
    kind: str = "bpe",
    targets: tuple[str, ...] = (),
    languages: tuple[str, str] = ("en", "de"),
    seed: int = 5,
) -> Path:
    """A model directory; with `tie` other than "all", source and target have their own tokenizers."""
    source = tokenizer(kind, None if model.tie == "all" else 0, 420).with_targets(targets)
    target = source if model.tie == "all" else tokenizer(kind, 1, 391)
    sizes = vocabulary_sizes(source, target)
    torch.manual_seed(seed)
    built = build_model(model, sizes, PAD)
    # attention to few tokens, which counts for more than the residual stream, or one token is written again and again
    strong = ("qkv.weight", "query.weight", "key_value.weight", "output.weight")
    weights = {
        name: w + (0.8 if name.endswith(strong) else 0.1) * torch.randn_like(w)
        for name, w in built.state_dict().items()
    }
    for table in (weights[f"embeddings.tables.{name}"] for name in {*EMBEDDING_TABLES[model.tie]}):
        table[UNK:FIRST_LEARNED] *= 0.05  # hardly ever written: bytes at random are not UTF-8
    if model.output_bias:
        weights["embeddings.output_bias"][EOS] += 2
    recipe = Recipe(model, TextRecipe(kind, source.vocabulary_size, targets=targets))  # type: ignore[arg-type]
    info = ModelInfo(sizes, (languages[0],), targets or (languages[1],))
    save_model(
        place, recipe=recipe, info=info, weights=as_arrays(weights), tokenizers=(source, target), card="# random\n"
    )
    return place
