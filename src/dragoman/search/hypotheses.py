"""The hypotheses of many sentences in a few arrays: an object for each costs more than the search of a fast engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np

from dragoman.arrays import FloatArray, IntArray, concatenate, ranges
from dragoman.search.types import Hypothesis


@dataclass(frozen=True, eq=False)
class HypothesisTable(Sequence[list[Hypothesis]]):
    """The hypotheses of each sentence, best first; each `Hypothesis` is created when it is read.

    `counts` has the number of hypotheses of each sentence. The other fields have an entry for each hypothesis, and
    `ids` the ids of all, one after the other.
    """

    counts: IntArray
    lengths: IntArray
    ids: IntArray
    scores: FloatArray
    log_probabilities: FloatArray
    truncated: IntArray
    maps: Sequence[Any] | None = None

    @classmethod
    def from_padded(
        cls, tokens: IntArray, lengths: IntArray, scores: FloatArray, log_probabilities: FloatArray, limits: IntArray
    ) -> HypothesisTable:
        """Build it from tokens `[sentences, n_best, T]` and lengths `[sentences, n_best]`, negative where none is."""
        there = lengths >= 0
        ids = tokens[np.arange(tokens.shape[2]) < lengths[:, :, None]]
        truncated = lengths == limits[:, None]
        return cls(there.sum(1), lengths[there], ids, scores[there], log_probabilities[there], truncated[there])

    @classmethod
    def from_lists(cls, found: Sequence[Sequence[Hypothesis]]) -> HypothesisTable:
        """Build it from lists; a table stays as it is."""
        if isinstance(found, HypothesisTable):
            return found
        every = [one for hypotheses in found for one in hypotheses]
        ids, lengths = concatenate([one.ids for one in every])
        return cls(
            np.fromiter(map(len, found), np.int64, len(found)),
            lengths,
            ids,
            np.array([one.score for one in every], np.float64),
            np.array([one.log_probability for one in every], np.float64),
            np.array([one.truncated for one in every], np.bool_),
            [one.maps for one in every] if any(one.maps is not None for one in every) else None,
        )

    @classmethod
    def join(cls, parts: Sequence[HypothesisTable]) -> HypothesisTable:
        """The sentences of several tables, one table after the other."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.from_lists([])
        names = ("counts", "lengths", "ids", "scores", "log_probabilities", "truncated")
        columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        if any(part.maps is not None for part in parts):
            columns["maps"] = [one for part in parts for one in part.maps or [None] * len(part.lengths)]
        return cls(**columns)

    def take(self, sentences: Sequence[int] | IntArray) -> HypothesisTable:
        """Some of the sentences, in this order."""
        chosen = np.asarray(sentences, np.int64)
        counts = self.counts[chosen]
        rows = ranges(self.firsts[chosen], counts)
        lengths = self.lengths[rows]
        return HypothesisTable(
            counts,
            lengths,
            self.ids[ranges(self.ends[rows] - lengths, lengths)],
            self.scores[rows],
            self.log_probabilities[rows],
            self.truncated[rows],
            None if self.maps is None else [self.maps[row] for row in rows.tolist()],
        )

    @cached_property
    def firsts(self) -> IntArray:
        """The number of the first hypothesis of each sentence."""
        return np.cumsum(self.counts) - self.counts

    @cached_property
    def ends(self) -> IntArray:
        """The end of each hypothesis in `ids`."""
        return np.cumsum(self.lengths)

    def __len__(self) -> int:
        return len(self.counts)

    @overload
    def __getitem__(self, index: int) -> list[Hypothesis]: ...

    @overload
    def __getitem__(self, index: slice) -> HypothesisTable: ...

    def __getitem__(self, index: int | slice) -> list[Hypothesis] | HypothesisTable:
        if isinstance(index, slice):
            return self.take(range(len(self))[index])
        first = int(self.firsts[index])
        return [self._hypothesis(row) for row in range(first, first + int(self.counts[index]))]

    def _hypothesis(self, row: int) -> Hypothesis:
        end = int(self.ends[row])
        return Hypothesis(
            self.ids[end - int(self.lengths[row]) : end].tolist(),
            float(self.scores[row]),
            float(self.log_probabilities[row]),
            bool(self.truncated[row]),
            None if self.maps is None else self.maps[row],
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]
