"""What models think of a given translation, worked out token by token: one sentence, one step, one token at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from dragoman.text.special_tokens import BOS, EOS


def by_hand(models: Sequence[Any], source: Sequence[int], target: Sequence[int], mean: str = "probabilities") -> Any:
    """log P of each target token and of the EOS token, in double precision, by one model or by several together."""
    states = [model.start(model.encode(torch.tensor([[*source, EOS]]))) for model in models]
    found, before = [], BOS
    for token in (*target, EOS):
        rows = []
        for number, model in enumerate(models):
            logits, states[number] = model.step(torch.tensor([before]), states[number])
            rows.append(logits[0].double().softmax(-1))
        if mean == "probabilities":
            likely = sum(rows) / len(rows)
        else:
            product = torch.ones_like(rows[0])
            for row in rows:
                product = product * row ** (1 / len(rows))
            likely = product / product.sum()
        found.append(float(likely[token].log()))
        before = token
    return found
