"""Batched ancestral sampling.

Each draw uses one random number, a function of (seed, source, number of the hypothesis, position), so the rest of the
batch cannot change it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dragoman.models import Seq2Seq, State
from dragoman.nn import Layout
from dragoman.randomness import GAMMA, MULTIPLIERS
from dragoman.search.beam import Finished, Rules, apply_rules
from dragoman.search.constraints.beam import AvoidedMask
from dragoman.search.constraints.tables import BatchConstraints
from dragoman.search.types import Hypothesis, Ids, Sampling, Search, StopFlag
from dragoman.text.special_tokens import BOS, EOS, PAD


def uniform(keys: Tensor, position: int) -> Tensor:
    """A number in [0, 1) for each key (int64), from two rounds of SplitMix64's mixing."""
    step = (position + 1) * GAMMA + (1 << 63)
    x = keys + (step % (1 << 64) - (1 << 63))  # in int64, where sums and products wrap around
    for _ in range(2):
        x = (x ^ (x >> 30 & (1 << 34) - 1)) * (MULTIPLIERS[0] - (1 << 64))
        x = (x ^ (x >> 27 & (1 << 37) - 1)) * (MULTIPLIERS[1] - (1 << 64))
        x = x ^ (x >> 31 & (1 << 33) - 1)
    return (x >> 11 & (1 << 53) - 1).double() * 2.0**-53


def draw_tokens(logits: Tensor, numbers: Tensor, sampling: Sampling) -> Tensor:
    """Sample one token for each row of `logits [R, V]`, given numbers in [0, 1)."""
    logits, order = logits.double() / sampling.temperature, None
    if sampling.top_k or sampling.top_p < 1:
        kept = min(sampling.top_k, logits.shape[-1]) or logits.shape[-1]
        logits, order = logits.topk(kept)
    likely = logits.softmax(-1)
    if sampling.top_p < 1:
        likely = likely * (likely.cumsum(-1) - likely < sampling.top_p)  # always keep the first
    reached = likely.cumsum(-1)
    found = torch.searchsorted(reached, (numbers * reached[:, -1])[:, None], right=True)
    last = (likely > 0).long().cumsum(-1).argmax(-1, keepdim=True)  # rounding must not select a token of probability 0
    found = found.minimum(last)
    return (found if order is None else order.gather(1, found)).squeeze(1)


@torch.inference_mode()
def sample(
    model: Seq2Seq[State],
    source: Tensor,
    layout: Layout,
    limits: Tensor,
    search: Search,
    keys: Tensor,
    prefixes: Ids | None = None,
    constraints: BatchConstraints | None = None,
    stop: StopFlag | None = None,
) -> list[list[Hypothesis]]:
    """`search.n_best` independent samples for each source, the likeliest first.

    `keys [B, n_best]` are from `hypothesis_keys`. Scores use the model's own probabilities, whatever the temperature.
    Of `constraints`, only `avoid` is supported.
    """
    n, beams, device = len(limits), search.n_best, limits.device
    avoided = None if constraints is None else AvoidedMask.from_tables(constraints, device)
    rules, sampling = Rules(search, limits, prefixes, avoided), search.sampling or Sampling()
    finished = Finished(n, beams, rules)
    sentences = torch.arange(n, device=device)
    totals = torch.zeros(n, beams, device=device)
    written = torch.full((n, beams, rules.longest), PAD, device=device)
    ids = torch.full((n * beams,), BOS, device=device)
    state = model.start(model.encode(source, layout))
    if beams > 1:
        state = state.select(sentences.repeat_interleave(beams))
    if avoided is not None:
        avoided.select(sentences.repeat_interleave(beams))
    for position in range(rules.longest + 1 if n else 0):
        if stop is not None:
            stop.check()
        logits, state = model.step(ids, state)
        logits, normalizer = apply_rules(logits, rules, written, position, sentences)
        ids = draw_tokens(logits, uniform(keys.flatten(), position), sampling)
        totals = totals + (logits.gather(1, ids[:, None]) - normalizer).view_as(totals)
        tokens = ids.view_as(totals)
        ended = (tokens == EOS) & (totals > -torch.inf)
        if position < rules.longest:
            written[:, :, position] = tokens
        if avoided is not None:
            avoided.advance(ids)
        if bool(ended.any()):
            finished.add(ended, sentences, totals, written, position)
            totals = totals.masked_fill(ended, -torch.inf)  # later tokens of these rows are ignored
            keep = (totals > -torch.inf).any(1).nonzero().squeeze(1)
            if not len(keep):
                break
            if len(keep) < len(totals):
                rows = (keep[:, None] * beams + torch.arange(beams, device=device)).flatten()
                state, ids = state.select(rows, keep), ids[rows]
                if avoided is not None:
                    avoided.select(rows)
                sentences, keys, totals, written = sentences[keep], keys[keep], totals[keep], written[keep]
    return finished.best(beams)
