"""Other pieces for the same sentence each epoch (BPE-dropout, subword regularisation), while training.

Sentences are decoded from their ids and encoded again by sampling, which is possible because decoding gives the
normalised text back exactly; so prepared data need not keep the text. What is drawn is a function of (seed, epoch,
pair, side).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from dragoman.data.batch import Flat
from dragoman.data.shards import Ints, Sentences, Split

if TYPE_CHECKING:
    from dragoman.text import Tokeniser

PROBES = 512


class Sampler:
    """Draws pieces for both sides; `growth` is how many times longer sentences become, by which batches are planned."""

    def __init__(self, source: Tokeniser, target: Tokeniser, split: Split, alpha: float, seed: int) -> None:
        self.tokenisers = (source, target)
        self.alpha, self.seed = alpha, seed
        self.longest = int(max(split.source.lengths.max(initial=0), split.target.lengths.max(initial=0)))
        self.growth = (self._measure(0, split.source), self._measure(1, split.target))

    def draw(self, side: int, ids: list[int], pair: int, epoch: int) -> list[int]:
        """Pieces of one sentence."""
        tokeniser = self.tokenisers[side]
        counters = np.array([self.seed, epoch, pair, side], np.int64).tobytes()
        seed = int.from_bytes(blake2b(counters, digest_size=4).digest(), "little") >> 1
        return tokeniser.sample(tokeniser.decode(ids), self.alpha, seed)

    def sample(self, side: int, plain: Flat, pairs: Ints, epoch: int, planned: Ints, room: int | None) -> Flat:
        """The sentences of a batch in other pieces; where they would outgrow the batch, the plain pieces stay.

        Padded (no `room`): no sentence may become wider than the batch was planned. Packed: all must fit into `room`.
        """
        ends = np.cumsum(plain.lengths)
        spare = np.inf if room is None else room - len(plain.ids) - len(pairs)
        widest = int(planned.max(initial=1)) - 1 if room is None else self.longest
        chosen, lengths = [plain.ids[:0].astype(np.int64)], plain.lengths.copy()
        for i, pair in enumerate(pairs.tolist()):
            kept = plain.ids[ends[i] - plain.lengths[i] : ends[i]]
            drawn = self.draw(side, kept.tolist(), pair, epoch)
            if len(drawn) <= widest and len(drawn) - len(kept) <= spare:
                spare -= len(drawn) - len(kept)
                kept, lengths[i] = np.array(drawn, np.int64), len(drawn)
            chosen.append(kept)
        return Flat(np.concatenate(chosen), lengths)

    def _measure(self, side: int, sentences: Sentences) -> float:
        """How much longer some sentences become, spread evenly over the corpus; a little more, for the spread."""
        probes = np.unique(np.linspace(0, len(sentences) - 1, PROBES).astype(np.int64)).tolist()
        plain = sum(len(sentences[i]) for i in probes)
        drawn = sum(len(self.draw(side, sentences[i].tolist(), i, 0)) for i in probes)
        return max(1.0, 1.01 * drawn / max(plain, 1))
