"""Greedy search: always the likeliest next piece."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dragoman.models import Seq2Seq, State
from dragoman.nn import Layout, Padded
from dragoman.text import Tokeniser
from dragoman.text.special import BOS, EOS, PAD


@torch.inference_mode()
def greedy(model: Seq2Seq[State], source: Tensor, layout: Layout, limits: Tensor) -> list[list[int]]:
    """The pieces written for each source, without marks; at most `limits [B]` of them.

    Sentences that are finished leave the batch, so that the last ones do not wait for company.
    """
    state = model.start(model.encode(source, layout))
    n = len(limits)
    written = torch.full((n, int(limits.max()) if n else 0), PAD, device=source.device)
    open_rows = torch.arange(n, device=source.device)
    ids = torch.full((n,), BOS, device=source.device)
    for position in range(written.shape[1]):
        logits, state = model.step(ids, state)
        logits[:, [PAD, BOS]] = -torch.inf  # marks that no sentence holds
        ids = logits.argmax(-1)
        written[open_rows, position] = ids
        going = (ids != EOS) & (limits[open_rows] > position + 1)
        if not bool(going.all()):
            stay = going.nonzero().squeeze(-1)
            if not len(stay):
                break
            ids, open_rows, state = ids[stay], open_rows[stay], state.select(stay, stay)
    rows: list[list[int]] = written.tolist()
    return [[piece for piece in row if piece not in (PAD, EOS)] for row in rows]


def greedy_texts(
    model: Seq2Seq[State],
    source: Tokeniser,
    target: Tokeniser,
    texts: Sequence[str],
    device: torch.device | str = "cpu",
    batch: int = 64,
) -> list[str]:
    """The translations of some texts, in their order; those of like length share a batch."""
    ids = [[*source.encode(text), EOS] for text in texts]
    order = sorted(range(len(texts)), key=lambda i: len(ids[i]))
    translations = [""] * len(texts)
    for start in range(0, len(order), batch):
        here = order[start : start + batch]
        width = max(len(ids[i]) for i in here)
        rows = torch.tensor([ids[i] + [PAD] * (width - len(ids[i])) for i in here], device=device)
        lengths = torch.tensor([len(ids[i]) for i in here], device=device)
        for i, pieces in zip(here, greedy(model, rows, Padded(width, lengths), lengths + 50), strict=True):
            translations[i] = target.decode(pieces)
    return translations
