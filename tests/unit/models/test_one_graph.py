"""Every variation compiles to one graph, padded and packed: a graph break would stall a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman import Packed, Padded, Transformer
from dragoman.config import ModelRecipe

SMALL = ModelRecipe(d_model=24, n_heads=3, d_ff=40, encoder_layers=1, decoder_layers=1, dropout=0.0)
VARIATIONS: list[dict[str, Any]] = [
    {},
    {"positions": "learned"},
    {"positions": "relative"},
    {"positions": "rotary"},
    {"positions": "alibi"},
    {"pattern": "local", "window": 2},
    {"pattern": "sparse", "window": 2},
    {"positions": "relative", "pattern": "sparse", "window": 2},
    {"pattern": "low_rank", "rank": 4},
    {"autoregression": "ssru"},
]


@pytest.mark.slow
@pytest.mark.parametrize("changes", VARIATIONS, ids=lambda c: "-".join(map(str, c.values())) or "paper")
def test_padded_and_packed_are_one_graph_each(changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.nn.attention.sees.SHORT", 0)  # bands and gathered keys for short sentences too
    monkeypatch.setattr("dragoman.nn.attention.sees.WORTH", 0)
    torch.manual_seed(3)
    model = Transformer(replace(SMALL, **changes), 50)
    source, target = torch.randint(1, 50, (3, 30)), torch.randint(1, 50, (3, 31))

    def packed(source: Tensor, target: Tensor, read: Tensor, written: Tensor) -> Tensor:
        return model(source, target, Packed.of(read, 50, 25), Packed.of(written, 50, 25))

    ids = torch.randint(1, 50, (50,)), torch.randint(1, 50, (50,))
    lengths = torch.tensor([20, 25]), torch.tensor([25, 18])
    for function, given in ((model, (source, target)), (packed, (*ids, *lengths))):
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="eager", fullgraph=True)
        real = slice(None) if function is model else slice(0, 43)
        torch.testing.assert_close(compiled(*given)[real], function(*given)[real])


def test_with_trees_too() -> None:
    model = Transformer(replace(SMALL, positions="syntax"), 50)

    def packed(source: Tensor, target: Tensor, read: Tensor, written: Tensor, depths: Tensor) -> Tensor:
        return model(source, target, Packed.of(read, 50, 25, depths=depths), Packed.of(written, 50, 25))

    def padded(source: Tensor, target: Tensor, depths: Tensor) -> Tensor:
        return model(source, target, Padded(30, depths=depths))

    rows = torch.randint(1, 50, (3, 30)), torch.randint(1, 50, (3, 31)), torch.randint(0, 256, (3, 30))
    ids = torch.randint(1, 50, (50,)), torch.randint(1, 50, (50,))
    flat = (*ids, torch.tensor([20, 25]), torch.tensor([25, 18]), torch.randint(0, 256, (50,)))
    for function, given in ((padded, rows), (packed, flat)):
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="eager", fullgraph=True)
        torch.testing.assert_close(compiled(*given)[:3], function(*given)[:3])
