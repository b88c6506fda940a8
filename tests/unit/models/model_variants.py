"""Small models of every kind, and what tests of all of them share; sizes that all differ."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import torch
from torch import Tensor

from dragoman.config import ModelRecipe
from dragoman.models import AttentionMaps, EncoderDecoder, Memory
from dragoman.models.loading import build_model
from dragoman.nn import Layout, Padded

SMALL = ModelRecipe(
    d_model=12, n_heads=3, d_k=5, d_v=7, d_ff=17, encoder_layers=2, decoder_layers=3, dropout=0.0, max_positions=30
)
VOCABULARY = 19
SOURCE_LENGTHS, TARGET_LENGTHS = [4, 7, 2], [5, 3, 6]

CODES, ORDERS = ("sinusoidal", "learned", "none"), ("post", "pre")
TRANSFORMERS = [replace(SMALL, positions=code, norm_order=order) for code, order in product(CODES, ORDERS)]
TRANSFORMERS += [replace(SMALL, norm="batch"), replace(SMALL, attention="additive"), replace(SMALL, tie="none")]
TRANSFORMERS += [replace(SMALL, attention_bias=True, activation="gelu", norm="batch", norm_order="pre")]
TRANSFORMERS += [replace(SMALL, positions="relative", max_distance=2), replace(SMALL, positions="rotary", d_k=6)]
TRANSFORMERS += [replace(SMALL, positions="alibi"), replace(SMALL, positions="rotary", d_k=6, attention="additive")]
TRANSFORMERS += [replace(SMALL, pattern="local", window=1), replace(SMALL, pattern="low_rank", rank=3)]
TRANSFORMERS += [replace(SMALL, pattern="sparse", window=1, global_tokens=1, random_tokens=1)]
TRANSFORMERS += [replace(SMALL, pattern="local", window=2, positions="relative", max_distance=2, norm_order="pre")]
TRANSFORMERS += [replace(SMALL, positions="syntax"), replace(SMALL, positions="syntax", pattern="low_rank", rank=3)]
TRANSFORMERS += [replace(SMALL, positions="index"), replace(SMALL, positions="normalized_index", norm_order="pre")]
RECURRENT = replace(SMALL, autoregression="ssru")
TRANSFORMERS += [RECURRENT, replace(RECURRENT, norm_order="pre", positions="relative", pattern="local", window=1)]

LSTM = ModelRecipe(architecture="recurrent", d_model=12, encoder_layers=3, decoder_layers=2, dropout=0.0)
CONVOLUTIONAL = ModelRecipe(
    architecture="convolutional", d_model=12, encoder_layers=3, decoder_layers=2, dropout=0.0, max_positions=30
)
RIVALS = [
    LSTM,
    replace(LSTM, attention="additive", d_model=11),
    replace(LSTM, cell="gru", tie="target"),
    replace(LSTM, cell="gru", attention="additive", encoder_layers=1, decoder_layers=1),
    replace(LSTM, cell="rnn"),
    replace(LSTM, attention="none", encoder_layers=2),
    replace(LSTM, attention="none", cell="gru", encoder_layers=1, decoder_layers=1, tie="target"),
    replace(LSTM, attention="none", cell="rnn", encoder_layers=2, reverse_source=True),
    CONVOLUTIONAL,
    replace(CONVOLUTIONAL, positions="learned", kernel_width=5, tie="none"),
    replace(CONVOLUTIONAL, positions="none", kernel_width=1),
    replace(CONVOLUTIONAL, positions="syntax"),
]


def name_of(recipe: ModelRecipe) -> str:
    """For the list of tests."""
    match recipe.architecture:
        case "recurrent":
            inside = (recipe.cell, recipe.attention, *(["reversed"] if recipe.reverse_source else []))
        case "convolutional":
            inside = (recipe.positions, str(recipe.kernel_width))
        case "transformer":
            inside = (recipe.positions, recipe.norm_order, recipe.norm, recipe.attention, recipe.pattern)
            inside = (*inside, *(["ssru"] if recipe.autoregression == "ssru" else []))
    return "-".join((recipe.architecture, *inside, recipe.tie))


def build(recipe: ModelRecipe, device: torch.device | str = "cpu") -> EncoderDecoder:
    """A model in evaluation mode whose every parameter and statistic is away from its start."""
    model = build_model(recipe, VOCABULARY if recipe.tie == "all" else (VOCABULARY, VOCABULARY), pad=0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
        for name, buffer in model.named_buffers():
            buffer.add_(torch.rand_like(buffer) if "variance" in name else torch.randn_like(buffer))
    if recipe.positions == "syntax":
        give_trees(model)
    return model.to(device).eval()


def give_trees(model: EncoderDecoder) -> None:
    """Have each token stand as deep as its id says, so that it does wherever and however it is laid out."""
    encode = model.encode

    def with_depths(source: Tensor, layout: Layout | None = None, maps: AttentionMaps | None = None) -> Memory:
        layout = Padded.of(source, model.pad) if layout is None else layout
        return encode(source, replace(layout, depths=source % 5), maps)

    model.encode = with_depths  # type: ignore[method-assign]


def sentences(lengths: list[int]) -> list[Tensor]:
    return [torch.randint(1, VOCABULARY, (n,)) for n in lengths]


def padded(rows: list[Tensor], device: torch.device | str = "cpu") -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(device)


def close(a: Tensor, b: Tensor) -> None:
    """Up to the rounding of the largest: small logits are differences of large numbers, in an order the CPU chooses."""
    torch.testing.assert_close(a, b, atol=1e-5 * max(1.0, float(b.detach().abs().max())), rtol=1e-5)
