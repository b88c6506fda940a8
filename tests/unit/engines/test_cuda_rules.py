"""Prefixes, `no_repeat`, lexical constraints and recorded attention in the CUDA engine, against the PyTorch search."""

from __future__ import annotations

from functools import cache
from random import Random

import numpy as np
import pytest
import torch

from dragoman import Transformer
from dragoman.config import ModelRecipe
from dragoman.engines.cuda.engine import CudaEngine
from dragoman.engines.torch import TorchEngine
from dragoman.search.types import Hypothesis, Ids, RecordedHead, Search
from dragoman.text.special_tokens import EOS
from letters import random_letters, random_tables
from random_models import sentences

VOCABULARY = 61
LETTERS = random_letters(VOCABULARY, Random(7))


@cache
def some_model(seed: int = 1) -> Transformer:
    """A model with clear opinions, some of which are that a sentence should end."""
    torch.manual_seed(seed)
    order = "pre" if seed % 2 else "post"
    recipe = ModelRecipe(
        d_model=24, n_heads=3, d_ff=17, encoder_layers=1, decoder_layers=2, dropout=0.0, norm_order=order,  # type: ignore[arg-type]
        output_bias=seed % 3 == 0,
    )  # fmt: skip
    model = Transformer(recipe, VOCABULARY).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.3)
        model.embeddings.projection()[EOS] *= 1.3
    return model


def random_search(draw: Random) -> Search:
    beam = draw.randint(1, 5)
    return Search(
        beam,
        draw.choice([0.0, 0.6, 1.4]),
        draw.randint(1, beam),
        extra_length=draw.randint(0, 9),
        max_length=draw.choice([None, None, 7, 2]),
        min_length=draw.choice([0, 0, 2]),
        no_repeat=draw.choice([0, 0, 0, 1, 2, 3]),
    )


def check_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.ids for h in ours] == [h.ids for h in theirs]
        assert [h.truncated for h in ours] == [h.truncated for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-4)


def check_maps(
    model: Transformer, sources: Ids, found: list[list[Hypothesis]], record: list[RecordedHead], near: float = 1e-5
) -> None:
    """The recorded maps are those of a forced pass over the hypotheses."""
    pairs = [(source, h.ids) for source, of in zip(sources, found, strict=True) for h in of]
    maps = [h.maps for of in found for h in of]
    for i, weights in TorchEngine(model, next(model.parameters()).device).cross_maps(pairs):
        expected = [weights[r.layer].mean(0) if r.head is None else weights[r.layer, r.head] for r in record]
        assert maps[i] == pytest.approx(np.stack(expected), abs=near)


@pytest.mark.parametrize("seed", range(24))
def test_any_search_with_rules_equals_the_reference_engine(seed: int) -> None:
    draw = Random(seed)
    model, n = some_model(seed % 6), draw.randint(1, 9)
    sources, search = sentences(n, VOCABULARY, 9, seed), random_search(draw)
    prefixes = sentences(n, VOCABULARY, 5, seed + 100) if draw.random() < 0.5 else None
    tables = random_tables(LETTERS, n, draw) if draw.random() < 0.8 else None
    record = [RecordedHead(0, 2), RecordedHead(1, None)] if draw.random() < 0.5 else []
    engine = CudaEngine(model, torch.float32, "cpu")
    found = engine.search(sources, search, prefixes, tables, record=record)
    check_same(found, TorchEngine(model).search(sources, search, prefixes, tables))
    assert all((h.maps is not None) == bool(record) for of in found for h in of)
    if record:
        check_maps(model, sources, found, record)
