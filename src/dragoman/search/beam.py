"""Batched beam search (section 6.1) over any model with `encode`, `start` and `step`; `Search` explains the options."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from dragoman.models import Seq2Seq, State
from dragoman.nn import Layout
from dragoman.search.constraints.batch import pad_rows
from dragoman.search.constraints.beam import AvoidedMask, BeamAllocator
from dragoman.search.constraints.tables import BatchConstraints
from dragoman.search.types import Hypothesis, Ids, Search, StopFlag
from dragoman.text.special_tokens import BOS, EOS, PAD

NEVER_WRITTEN = slice(PAD, BOS + 1)


class Rules:
    """Set the logits of forbidden tokens to minus infinity, for a batch of sentences.

    `limits [B]` are the maximum numbers of tokens. `prefixes` are forced and override all other rules. `avoided` masks
    avoided phrases.
    """

    def __init__(
        self, search: Search, limits: Tensor, prefixes: Ids | None = None, avoided: AvoidedMask | None = None
    ) -> None:
        self.search, self.limits, self.forced, self.avoided = search, limits, 0, avoided
        if prefixes is not None and any(prefixes):
            self.prefixes = pad_rows(prefixes, limits.device)
            self.forced = self.prefixes.shape[1]
            self.limits = limits.maximum(torch.tensor([*map(len, prefixes)], device=limits.device))
        self.shortest, self.longest = (int(bound) for bound in self.limits.aminmax()) if len(limits) else (0, 0)

    def apply(self, logits: Tensor, written: Tensor, position: int, sentences: Tensor) -> None:
        """Mask `logits [R, V]` in place; `written [R, T]` are the tokens so far, `sentences [R]` their sentences."""
        end = logits[:, EOS].clone()
        forced = self.prefixes[sentences, position] if position < self.forced else None
        kept = None if forced is None else logits.gather(1, forced[:, None])
        logits[:, NEVER_WRITTEN] = -torch.inf
        if position < self.search.min_length:
            logits[:, EOS] = -torch.inf
        if self.search.no_repeat and position >= self.search.no_repeat:
            forbid_repeats(logits, written[:, :position], self.search.no_repeat)
        if self.avoided is not None:
            self.avoided.forbid(logits)
        if self.avoided is not None or (self.search.no_repeat and position >= self.search.no_repeat):
            end_here = logits.amax(-1) == -torch.inf  # no token would be left
            logits[:, EOS] = torch.where(end_here, end, logits[:, EOS])
        if position >= self.shortest:
            full = self.limits[sentences] <= position
            logits.masked_fill_(full[:, None], -torch.inf)
            logits[:, EOS] = torch.where(full, end, logits[:, EOS])
        if forced is not None and kept is not None:
            bound = forced != PAD
            logits.masked_fill_(bound[:, None], -torch.inf)
            logits.scatter_(1, forced[:, None], torch.where(bound[:, None], kept, -torch.inf))


def forbid_repeats(logits: Tensor, written: Tensor, n: int) -> None:
    """Mask each token that would complete an n-gram that `written [R, T]` already contains."""
    windows = written.unfold(1, n, 1)  # [R, T - n + 1, n]
    last = written[:, written.shape[1] - (n - 1) :]
    rows, where = (windows[:, :, :-1] == last[:, None]).all(-1).nonzero(as_tuple=True)
    logits[rows, windows[rows, where, -1]] = -torch.inf


class Finished:
    """Finished hypotheses, at most `slots` for each of n sentences, in the order in which they finished.

    `eager [n]`: sentences with required phrases, whose search ends by a looser rule.
    """

    def __init__(self, n: int, slots: int, rules: Rules, eager: Tensor | None = None) -> None:
        self.limits, self.eager, device = rules.limits, eager, rules.limits.device
        lengths = range(rules.longest + 2)
        self.normalizers = torch.tensor([rules.search.normalizer(length) for length in lengths], device=device)
        self.count = torch.zeros(n, dtype=torch.long, device=device)
        self.totals = torch.full((n, slots), -torch.inf, device=device)
        self.scores, self.lengths = self.totals.clone(), torch.zeros_like(self.totals, dtype=torch.long)
        self.tokens = torch.full((n, slots, rules.longest), PAD, device=device)

    def add(self, ended: Tensor, sentences: Tensor, totals: Tensor, written: Tensor, length: int) -> None:
        """Keep the hypotheses marked by `ended [B, W]`, which have `length` tokens."""
        rows, beams = ended.nonzero(as_tuple=True)
        here = sentences[rows]
        slots = self.count[here] + (ended.cumsum(1) - 1)[rows, beams]
        self.totals[here, slots] = totals[rows, beams]
        self.scores[here, slots] = totals[rows, beams] / self.normalizers[length + 1]
        self.lengths[here, slots] = length
        self.tokens[here, slots] = written[rows, beams]
        self.count.index_add_(0, sentences, ended.sum(1))

    def is_decided(self, sentences: Tensor, best: Tensor, length: int, n_best: int) -> Tensor:
        """Whether no open hypothesis can enter the n best, given the best open log-probability and its length.

        Log-probabilities only decrease, so the best possible score is this one over the largest normalizer. Required
        phrases make them so low that this would hardly ever end a search: it ends if no open hypothesis would enter the
        n best with EOS as its next token.
        """
        soon = self.normalizers[min(length + 1, len(self) - 1)]
        largest = self.normalizers[self.limits[sentences] + 1].maximum(soon)
        if self.eager is not None:
            largest = torch.where(self.eager[sentences], soon, largest)
        return self.scores[sentences].topk(n_best).values[:, -1] >= best / largest

    def __len__(self) -> int:
        return len(self.normalizers)

    def best(self, n: int) -> list[list[Hypothesis]]:
        """The n best of each sentence, best first; ties go to the one that finished first."""
        order = self.scores.argsort(dim=1, descending=True, stable=True)[:, :n]
        truncated = (self.lengths == self.limits[:, None]).gather(1, order).tolist()
        tokens = self.tokens.gather(1, order[:, :, None].expand(-1, -1, self.tokens.shape[2])).tolist()
        columns = [x.gather(1, order).tolist() for x in (self.lengths, self.scores, self.totals)]
        return [
            [
                Hypothesis(row[:length], score, total, cut)
                for row, length, score, total, cut in zip(*sentence, strict=True)
                if total > -torch.inf
            ]
            for sentence in zip(tokens, *columns, truncated, strict=True)
        ]


@torch.inference_mode()
def beam_search(
    model: Seq2Seq[State],
    source: Tensor,
    layout: Layout,
    limits: Tensor,
    search: Search,
    prefixes: Ids | None = None,
    constraints: BatchConstraints | None = None,
    stop: StopFlag | None = None,
    *,
    patient: bool = False,
) -> list[list[Hypothesis]]:
    """The `search.n_best` best hypotheses for each source, of at most `limits [B]` tokens.

    `constraints` are the lexical constraints of each sentence. A hypothesis ends only when it has all required phrases;
    if none can, those with the fewest missing are returned.

    Decided sentences leave the batch, and a sentence has fewer rows as its slots finish. `patient` waits until every
    slot has finished; this cannot change the result where no phrases are required, and exists to test that.
    """
    n, device = len(limits), limits.device
    avoided = required = None
    if constraints is not None:
        avoided, required = AvoidedMask.from_tables(constraints, device), BeamAllocator.from_tables(constraints, device)
    rules = Rules(search, limits, prefixes, avoided)
    finished = Finished(n, search.beam, rules, eager=None if required is None else required.has_required)
    sentences = torch.arange(n, device=device)  # the source of each row
    slots = torch.full((n,), search.beam, device=device)  # open slots
    totals = torch.zeros(n, 1, device=device)  # [B, W], the log-probability of each open hypothesis
    written = torch.full((n, 1, rules.longest), PAD, device=device)
    ids, state = torch.full((n,), BOS, device=device), model.start(model.encode(source, layout))
    width, some_ended = search.beam, False  # the largest number of open slots; whether any sentence may be decided
    for position in range(rules.longest + 1 if n else 0):
        if stop is not None:
            stop.check()
        logits, state = model.step(ids, state)
        rows, beams = totals.shape
        logits, normalizer = apply_rules(logits, rules, written, position, sentences)
        likely, tokens = fast_topk(logits, min(width, logits.shape[-1]))
        if required is not None:
            room = rules.limits[sentences] - position - 1
            totals, tokens, parents = required.choose(
                partial(logits.gather, 1),
                normalizer,
                (likely, tokens),
                totals,
                slots,
                width,
                sentences,
                room,
                finished.count[sentences] > 0,
            )
        else:
            candidates = (totals[:, :, None] + (likely - normalizer).view(rows, beams, -1)).flatten(1)
            totals, picked = candidates.topk(min(width, candidates.shape[1])) if beams > 1 else (candidates, None)
            if picked is None:
                tokens, parents = tokens.view(rows, -1), torch.zeros_like(tokens)
            else:
                parents = picked // (candidates.shape[1] // beams)
                tokens = tokens.view(rows, -1).gather(1, picked)
            totals = totals.masked_fill(torch.arange(totals.shape[1], device=device) >= slots[:, None], -torch.inf)
        written = written.gather(1, parents[:, :, None].expand(-1, -1, rules.longest))
        ended = (tokens == EOS) & (totals > -torch.inf)
        if any_ended := bool(ended.any()):
            some_ended = True
            finished.add(ended, sentences, totals, written, position)
            slots = slots - ended.sum(1)
            totals, order = totals.masked_fill(ended, -torch.inf).sort(dim=1, descending=True, stable=True)
            tokens, parents = tokens.gather(1, order), parents.gather(1, order)
            written = written.gather(1, order[:, :, None].expand(-1, -1, rules.longest))
        if position < rules.longest:
            written[:, :, position] = tokens
        keep = torch.arange(rows, device=device)
        if any_ended or totals.shape[1] > beams or (some_ended and (width > 1 or required is not None)):
            going = totals[:, 0] > -torch.inf
            if not patient:
                going &= ~finished.is_decided(sentences, totals[:, 0], position + 1, search.n_best)
            keep = going.nonzero().squeeze(1)
            if not len(keep):
                break
            open_beams = int((totals[keep] > -torch.inf).sum(1).max())
            slots, sentences = slots[keep], sentences[keep]
            totals, tokens, parents = (x[keep, :open_beams] for x in (totals, tokens, parents))
            written, width = written[keep, :open_beams], int(slots.max())
        ids = tokens.flatten()
        chosen = (keep[:, None] * beams + parents).flatten()
        if len(chosen) != rows * beams or not torch.equal(chosen, torch.arange(rows * beams, device=device)):
            state = state.select(chosen, keep if len(keep) < rows else None)
        if avoided is not None:
            avoided.select(chosen)
            avoided.advance(ids)
        if required is not None:
            required.advance(chosen, ids)
    return finished.best(search.n_best)


def apply_rules(
    logits: Tensor, rules: Rules, written: Tensor, position: int, sentences: Tensor
) -> tuple[Tensor, Tensor]:
    """The logits with forbidden tokens masked, and the normalizer to subtract for log-probabilities."""
    logits = logits.float()
    total = logits.logsumexp(-1, keepdim=True)  # before masking: probabilities are over the whole vocabulary
    beams = written.shape[1]
    rules.apply(logits, written.flatten(0, 1), position, sentences.repeat_interleave(beams) if beams > 1 else sentences)
    return logits, total


def fast_topk(logits: Tensor, n: int, block: int = 64) -> tuple[Tensor, Tensor]:
    """`logits.topk(n)` in a third of the time: the n largest values are in the n blocks with the largest maxima."""
    rows, columns = logits.shape
    blocked = columns - columns % block
    if blocked <= n * block:
        return logits.topk(n)
    maxima = logits[:, :blocked].view(rows, -1, block).amax(-1)
    best_blocks = maxima.topk(n).indices if n > 1 else maxima.argmax(-1, keepdim=True)
    ids = (best_blocks[:, :, None] * block + torch.arange(block, device=logits.device)).flatten(1)
    if blocked < columns:
        ids = torch.cat([ids, torch.arange(blocked, columns, device=logits.device).expand(rows, -1)], dim=1)
    best, among = logits.gather(1, ids).topk(n)
    return best, ids.gather(1, among)
