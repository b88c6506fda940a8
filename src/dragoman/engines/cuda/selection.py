"""The end of a step in PyTorch: forbid tokens, choose hypotheses, write them to the state; nothing asks the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from dragoman.text.special_tokens import EOS, PAD

if TYPE_CHECKING:
    from dragoman.engines.cuda.rules import FixedAllocator
    from dragoman.engines.cuda.state import SearchState


class Likeliest(NamedTuple):
    """The likeliest allowed tokens of each row, by their logits, and the logarithm of the softmax's sum."""

    values: Tensor  # [R, N]
    tokens: Tensor  # [R, N]
    total: Tensor  # [R, 1]


class NextHypotheses(NamedTuple):
    """The hypotheses of the next step `[B, W]`; the score of a finished one, which keeps a slot, is infinite."""

    scores: Tensor
    tokens: Tensor
    parents: Tensor


def forbid_tokens(s: SearchState, logits: Tensor, forced: Tensor | None) -> None:
    """Overwrite the logits of tokens that `no_repeat` or an avoided phrase forbids; a forced token is never."""
    kept = None if forced is None else logits.gather(1, forced[:, None])
    if s.shape.rules.no_repeat:
        forbid_repeats(s, logits, s.shape.rules.no_repeat)
    if s.avoided is not None:
        s.avoided.forbid(logits)
    if forced is not None and kept is not None:
        logits.scatter_(1, forced[:, None], kept)


def forbid_repeats(s: SearchState, logits: Tensor, n: int) -> None:
    """Overwrite the logits of tokens that would repeat an n-gram; padding, which is never written, fills the list."""
    rows, beam, steps = s.shape.rows, s.shape.beam, s.shape.steps
    row, column = torch.arange(rows, device=logits.device)[:, None], torch.arange(steps, device=logits.device)
    position = s.position.repeat_interleave(beam).long()[:, None]
    slot = torch.where(column == position, row, row // beam * beam + s.lineage.view(rows, steps))
    inputs = s.history[:steps].t().gather(0, slot)  # [R, T]; the first is BOS
    follows = column[n:]  # the last tokens of n-grams
    again = follows <= position
    for back in range(1, n):
        last = inputs.gather(1, (position + 1 - back).clamp(min=0))
        again = again & (inputs[:, n - back : steps - back] == last)
    logits.scatter_(1, inputs[:, n:].long().where(again, PAD), -torch.inf)


def select_step(s: SearchState, found: Likeliest, logits: Tensor) -> None:
    """Extend the open hypotheses, keep the likeliest or those that the constraints need, and advance one position."""
    beam = s.shape.beam
    values, tokens, total = found
    first = torch.arange(values.shape[1], device=values.device) == 0
    full = (s.position >= s.limit).repeat_interleave(beam)
    ends = full if not s.shape.rules.forbids else full | (values[:, 0] == -torch.inf)  # no other token is left
    end = logits[:, EOS : EOS + 1]
    values = torch.where(ends[:, None], torch.where(first, end, -torch.inf), values)
    likeliest = Likeliest(values, tokens.masked_fill(ends[:, None], EOS), total)
    if s.required is None:
        choice = choose_likeliest(s, likeliest)
    else:
        choice = choose_constrained(s, s.required, likeliest, logits)
    write_step(s, choice)


def choose_likeliest(s: SearchState, found: Likeliest) -> NextHypotheses:
    """The likeliest; finished hypotheses are candidates that always win, and so keep their slot."""
    sentences, beam = s.shape.sentences, s.shape.beam
    held = s.finished.bool()
    gain = (found.values - found.total).view(sentences, beam, -1)
    first = torch.arange(gain.shape[2], device=gain.device) == 0
    always = torch.where(first, torch.inf, -torch.inf)
    candidates = torch.where(held[:, :, None], always, s.score[:, :, None] + gain)
    best, chosen = candidates.flatten(1).topk(beam)
    return NextHypotheses(best, found.tokens.view(sentences, -1).gather(1, chosen), chosen // gain.shape[2])


def choose_constrained(s: SearchState, required: FixedAllocator, found: Likeliest, logits: Tensor) -> NextHypotheses:
    """Those that get required phrases written (`BeamAllocator`), behind the finished hypotheses."""
    sentences, beam = s.shape.sentences, s.shape.beam
    held, forced = s.finished.bool(), s.forced()
    full = (s.position >= s.limit).repeat_interleave(beam)[:, None]

    def logits_of(tokens: Tensor) -> Tensor:
        """Tokens of phrases are neither padding nor EOS."""
        values = logits.gather(1, tokens).masked_fill(full, -torch.inf)
        if forced is None:
            return values
        return values.masked_fill((forced[:, None] != PAD) & (tokens != forced[:, None]), -torch.inf)

    kept = held.sum(1, keepdim=True)
    scores, tokens, parents = required.choose(
        logits_of,
        found.total,
        (found.values, found.tokens),
        s.score.masked_fill(held, -torch.inf),
        beam - kept[:, 0],
        beam,
        torch.arange(sentences, device=logits.device),
        (s.limit - s.position - 1).long(),
        held.any(1),
    )
    slot = torch.arange(beam, device=logits.device)
    old, new = slot < kept, (slot - kept).clamp(min=0)
    finished = held.int().argsort(dim=1, descending=True, stable=True)
    return NextHypotheses(
        scores.gather(1, new).masked_fill(old, torch.inf),
        tokens.gather(1, new),
        torch.where(old, finished, parents.gather(1, new)),
    )


def write_step(s: SearchState, choice: NextHypotheses) -> None:
    """Write the chosen hypotheses of the sentences that are not done, and decide which are."""
    beam, (best, token, parent) = s.shape.beam, choice
    at = s.position[:, None].long()
    held = s.finished.bool().gather(1, parent) & (best == torch.inf)  # an empty slot's parent is arbitrary
    score = torch.where(held, s.score.gather(1, parent), best)
    token = token.masked_fill(held, EOS)
    ends = ~held & (token == EOS) & (score > -torch.inf)
    length = torch.where(ends, at + 1, s.length.gather(1, parent))  # the EOS token is counted
    finished = held | ends
    going = s.done == 0

    hope = score.masked_fill(finished, -torch.inf).amax(1, keepdim=True)
    soon = s.normalizer[(at[:, 0] + 2).clamp(max=len(s.normalizer) - 1)]
    most = s.normalizer[s.limit.long() + 1].maximum(soon)
    if s.required is not None:  # as `Finished.is_decided`
        most = torch.where(s.required.has_required, soon, most)
    beaten = finished & (score / s.normalizer[length.long()] >= hope / most[:, None])
    decided = (beaten.sum(1) >= s.n_best) | (s.position >= s.limit) | (hope[:, 0] == -torch.inf)

    lineage = s.lineage.gather(1, parent[:, :, None].expand(-1, -1, s.shape.steps))
    lineage.scatter_(2, at[:, :, None].expand(-1, beam, 1), parent[:, :, None].int())
    put = (s.position + 1).repeat_interleave(beam).long()[None]
    kept = s.history.gather(0, put)
    s.history.scatter_(0, put, torch.where(going.repeat_interleave(beam), token.flatten().int(), kept[0])[None])
    for mine, new in ((s.score, score), (s.length, length), (s.finished, finished), (s.lineage, lineage)):
        mine.copy_(torch.where(going.view(-1, *[1] * (mine.dim() - 1)), new.to(mine.dtype), mine))
    s.done.copy_((~going | decided).int())
    s.position.add_((s.done == 0).int())
