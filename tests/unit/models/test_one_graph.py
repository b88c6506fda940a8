"""Every variation is one graph for the compiler, padded and packed: a break in it would be a wait on a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman import Packed, Transformer
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
    {"pattern": "low_rank", "rank": 4},
]


@pytest.mark.parametrize("changes", VARIATIONS, ids=lambda c: next(iter(c.values()), "paper"))
def test_padded_and_packed_are_one_graph_each(changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.nn.attention.sees.SHORT", 0)  # bands for short sentences too
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
