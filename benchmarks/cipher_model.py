"""Write a model of a given size that translates word by word, to measure speed without training.

    python benchmarks/cipher_model.py TEXT OUT [--encoder-layers 6] [--decoder-layers 2] [--d-model 256] [--d-ff 1536]

TEXT has sentences, one per line, from which the vocabulary is learned. The last decoder layer attends to the source
token at its own position and writes another token instead, always the same one, so that translations have the length
of their source and attention is a clear alignment. All other weights are random and small. It does the same work as a
trained model of its size.
"""

from __future__ import annotations

import argparse
import random
from itertools import groupby
from pathlib import Path

import torch

from dragoman.config import Recipe
from dragoman.modeldir.info import ModelInfo
from dragoman.modeldir.save import save_model
from dragoman.models.loading import as_arrays, build_model
from dragoman.text import Tokenizer
from dragoman.text.learn import learn
from dragoman.text.special_tokens import PAD

FIRST_TOKEN = 4  # after the special tokens


def substitutes(tokenizer: Tokenizer) -> list[int]:
    """The token that each token becomes: letters become other letters, and words begin where they began."""
    names, found = tokenizer.tokens(range(tokenizer.vocabulary_size)), list(range(tokenizer.vocabulary_size))

    def kind(token: int) -> tuple[bool, bool]:
        return names[token].startswith("▁"), names[token].strip("▁").isalpha()

    generator = random.Random(1)
    for (_, letters), group in groupby(sorted(found[FIRST_TOKEN:], key=kind), kind):
        if letters:
            tokens = list(group)
            for token, other in zip(tokens, generator.sample(tokens, len(tokens)), strict=True):
                found[token] = other
    return found


def main() -> None:
    """Write the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--encoder-layers", type=int, default=6)
    parser.add_argument("--decoder-layers", type=int, default=2)
    parser.add_argument("--d-model", type=int, default=256)
    parser.add_argument("--n-heads", type=int, default=4)
    parser.add_argument("--d-ff", type=int, default=1536)
    parser.add_argument("--vocabulary", type=int, default=10_000)
    options = parser.parse_args()
    torch.manual_seed(1)
    sizes = {
        name: getattr(options, name) for name in ("encoder_layers", "decoder_layers", "d_model", "n_heads", "d_ff")
    }
    recipe = Recipe.from_changes([*(f"model.{name}={value}" for name, value in sizes.items()), "model.tie=none"])
    tokenizer = learn("bpe", options.text.read_text("utf-8").splitlines(), options.vocabulary)
    weights = build_model(recipe.model, tokenizer.vocabulary_size, PAD).state_dict()
    d_model, d_k = options.d_model, options.d_model // options.n_heads
    tokens = 1.2 * d_model**-0.5 * torch.randn(tokenizer.vocabulary_size, d_model)
    tokens[:, :d_k] = 0  # the fastest positions have these features to themselves
    by_position = torch.zeros(d_model, d_model)
    by_position[:, :d_k] = 5 * torch.eye(d_k).repeat(options.n_heads, 1)
    last = f"decoder.{options.decoder_layers - 1}.cross"
    for name, weight in weights.items():
        if name.endswith(("attention.output.weight", "cross.output.weight", "feed_forward.outer.weight")):
            weight.mul_(0.02)
    weights["embeddings.tables.source"].copy_(tokens)
    weights["embeddings.tables.target"].mul_(0.2)[:, :d_k] = 0
    weights["embeddings.tables.output"][substitutes(tokenizer)] = tokens
    weights[f"{last}.query.weight"].copy_(by_position)
    weights[f"{last}.key_value.weight"].copy_(torch.cat([by_position, torch.eye(d_model)]))
    weights[f"{last}.output.weight"].copy_(6 * torch.eye(d_model))
    info = ModelInfo(tokenizer.vocabulary_size, source_languages=("en",), target_languages=("de",))
    save_model(
        options.out, recipe=recipe, info=info, weights=as_arrays(weights), tokenizers=(tokenizer, tokenizer),
        card="# Word by word\n",
    )  # fmt: skip


if __name__ == "__main__":
    main()
