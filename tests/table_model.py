"""A model that is a table of numbers, and searches written from their definition, for tests of search alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from dragoman.models import Memory
from dragoman.nn import Padded
from dragoman.search.types import Search
from dragoman.text.special_tokens import BOS, EOS, PAD


@dataclass(frozen=True)
class TableState:
    """What was written so far, a row a hypothesis, beside the sentences that the rows belong to."""

    written: Tensor  # [R, T]
    sentences: Tensor  # [B], which line of the table

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> TableState:
        kept = self.sentences if sentences is None else self.sentences[sentences]
        before = self.sentences.repeat_interleave(len(self.written) // len(self.sentences))
        after = kept.repeat_interleave(len(rows) // len(kept))
        assert torch.equal(before[rows], after), "a row was given to another sentence"
        return TableState(self.written[rows], kept)


class TableModel:
    """Logits by (sentence, position, the last two tokens); nothing but search can go wrong with it."""

    def __init__(self, sentences: int, longest: int, vocabulary: int, seed: int, sharpness: float = 1.5) -> None:
        shape = (sentences, longest + 1, vocabulary, vocabulary)
        draw = torch.Generator().manual_seed(seed)
        self.last = torch.randn(*shape, generator=draw) * sharpness
        self.last_but_one = torch.randn(*shape, generator=draw) * sharpness
        self.vocabulary = vocabulary
        self.steps: list[int] = []  # rows of each step

    def encode(self, source: Tensor, layout: Padded) -> Memory:
        return Memory(source, layout)

    def start(self, memory: Memory) -> TableState:
        sentences = memory.states[:, 0]
        return TableState(torch.zeros(len(sentences), 0, dtype=torch.long), sentences)

    def step(self, ids: Tensor, state: TableState) -> tuple[Tensor, TableState]:
        self.steps.append(len(ids))
        written = torch.cat([state.written, ids[:, None]], 1)
        sentences = state.sentences.repeat_interleave(len(ids) // len(state.sentences))
        before = written[:, -2] if written.shape[1] > 1 else torch.full_like(ids, PAD)
        position = written.shape[1] - 1
        logits = self.last[sentences, position, ids] + self.last_but_one[sentences, position, before]
        return logits, TableState(written, state.sentences)

    def log_probabilities(self, sentence: int, written: Sequence[int]) -> Tensor:
        """Of what follows these tokens, over the whole vocabulary."""
        history = [PAD, BOS, *written]
        logits = self.last[sentence, len(written), history[-1]] + self.last_but_one[sentence, len(written), history[-2]]
        return logits.double().log_softmax(-1)

    def total(self, sentence: int, tokens: Sequence[int]) -> float:
        """log P of the tokens and the EOS token."""
        whole = [*tokens, EOS]
        return sum(float(self.log_probabilities(sentence, whole[:i])[token]) for i, token in enumerate(whole))


def repeats(tokens: Sequence[int], n: int) -> bool:
    """Whether some n tokens in a row appear twice."""
    seen = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
    return len(set(seen)) < len(seen)


def all_sequences(model: TableModel, limit: int, search: Search, prefix: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every translation that a search may give."""
    tokens = [token for token in range(model.vocabulary) if token not in (PAD, BOS, EOS)]
    for length in range(search.min_length, max(limit, len(prefix)) + 1):
        for sequence in product(tokens, repeat=length):
            free = not (search.no_repeat and repeats(sequence, search.no_repeat))
            if sequence[: len(prefix)] == tuple(prefix) and free:
                yield sequence


def exhaustive(
    model: TableModel, sentence: int, limit: int, search: Search, prefix: Sequence[int] = ()
) -> list[tuple[tuple[int, ...], float]]:
    """The n best of all sequences, with their scores."""
    scored = [
        (sequence, model.total(sentence, sequence) / ((5 + len(sequence) + 1) / 6) ** search.length_penalty)
        for sequence in all_sequences(model, limit, search, prefix)
    ]
    return sorted(scored, key=lambda pair: -pair[1])[: search.n_best]


def beam_from_definition(
    model: TableModel, sentence: int, limit: int, search: Search, prefix: Sequence[int] = ()
) -> list[tuple[tuple[int, ...], float]]:
    """Beam search as `Search` describes it, one hypothesis at a time, and until every slot has ended."""
    limit = max(limit, len(prefix))
    slots, ended = search.beam, []
    open_: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    while open_ and slots:
        extended = []
        for total, tokens in open_:
            log_p = model.log_probabilities(sentence, tokens)
            for token in range(model.vocabulary):
                if len(tokens) < len(prefix):
                    allowed = token == prefix[len(tokens)]
                elif len(tokens) == limit:
                    allowed = token == EOS
                elif token == EOS:
                    allowed = len(tokens) >= search.min_length
                else:
                    allowed = token not in (PAD, BOS)
                    if search.no_repeat:
                        last = (*tokens, token)[-search.no_repeat :]
                        allowed = allowed and not any(
                            tokens[i : i + search.no_repeat] == last for i in range(len(tokens))
                        )
                if allowed:
                    extended.append((total + float(log_p[token]), (*tokens, token)))
        extended.sort(key=lambda pair: -pair[0])
        open_ = []
        for total, tokens in extended[:slots]:
            if tokens[-1] == EOS:
                ended.append((tokens[:-1], total / ((5 + len(tokens)) / 6) ** search.length_penalty))
            else:
                open_.append((total, tokens))
        slots -= len(extended[:slots]) - len(open_)
    ended.sort(key=lambda pair: -pair[1])
    assert all(math.isfinite(score) for _, score in ended)
    return ended[: search.n_best]
