"""Other tokens for the same sentence each epoch (BPE-dropout, subword regularization), while training.

Sentences are decoded from their ids and encoded again by sampling, which is possible because decoding gives the
normalized text back exactly; so prepared data need not keep the text. What is drawn is a function of (seed, epoch,
pair, side), and so is the same in whatever process it is drawn.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dragoman.arrays import Int64Array, Uint64Array
from dragoman.data.batch import Flat
from dragoman.data.prepare.encoding import cached_tokenizer
from dragoman.data.prepare.workers import Workers
from dragoman.data.shards import Sentences, Split, spread
from dragoman.randomness import GAMMA, mix64

PROBES = 512


class Sampler:
    """Draws tokens for both sides; `growth` is how many times longer sentences become, by which batches are planned.

    In C it happens in the thread that makes the batch. Where there is no compiler it is slow and in Python, so with
    `processes` over 1 it happens there; they load the tokenizers from `directory` by their `names`.
    """

    def __init__(
        self, directory: Path, names: tuple[str, str], split: Split, alpha: float, seed: int, processes: int = 1
    ) -> None:
        self.directory, self.names, self.alpha, self.seed = directory, names, alpha, seed
        in_threads = all(cached_tokenizer(directory, name).resamples_in_threads for name in names)
        self.workers = Workers(1 if in_threads else processes)
        self.longest = int(max(split.source.lengths.max(initial=0), split.target.lengths.max(initial=0)))
        self.growth = (self._measure(0, split.source), self._measure(1, split.target))

    def sample(
        self, side: int, plain: Flat, pairs: Int64Array, epoch: int, planned: Int64Array, room: int | None
    ) -> Flat:
        """The sentences of a batch in other tokens; where they would outgrow the batch, the plain tokens stay.

        Padded (no `room`): no sentence may become wider than the batch was planned. Packed: all must fit into `room`.
        """
        task = (self.directory, self.names[side], plain, self.alpha, seeds(self.seed, epoch, pairs, side))
        drawn = self.workers.call(draw, *task)
        spare = np.inf if room is None else room - len(plain.ids) - len(pairs)
        widest = int(planned.max(initial=1)) - 1 if room is None else self.longest
        fits = np.zeros(len(pairs), bool)
        for i, (length, before) in enumerate(zip(drawn.lengths.tolist(), plain.lengths.tolist(), strict=True)):
            if length <= widest and length - before <= spare:
                spare -= length - before
                fits[i] = True
        lengths = np.where(fits, drawn.lengths, plain.lengths)
        starts = np.where(fits, begins(drawn), len(drawn.ids) + begins(plain))
        return Flat(np.concatenate([drawn.ids, plain.ids])[spread(starts, lengths)], lengths)

    def close(self) -> None:
        """End the processes."""
        self.workers.close()

    def _measure(self, side: int, sentences: Sentences) -> float:
        """How much longer some sentences become, spread evenly over the corpus; a little more, for the spread."""
        probes = np.unique(np.linspace(0, len(sentences) - 1, PROBES).astype(np.int64))
        plain = Flat(*sentences.gather(probes))
        drawn = draw(self.directory, self.names[side], plain, self.alpha, seeds(self.seed, 0, probes, side))
        return max(1.0, 1.01 * len(drawn.ids) / max(len(plain.ids), 1))


def draw(directory: Path, name: str, plain: Flat, alpha: float, seeds: Uint64Array) -> Flat:
    """Other tokens of each sentence."""
    return Flat(*cached_tokenizer(directory, name).resample(plain.ids, plain.lengths, alpha, seeds))


def begins(sentences: Flat) -> Int64Array:
    """Where each sentence begins."""
    return np.cumsum(sentences.lengths) - sentences.lengths


def seeds(seed: int, epoch: int, pairs: Int64Array, side: int) -> Uint64Array:
    """A seed for each pair, in which every bit of the four counters has its part."""
    mixed = np.zeros(len(pairs), np.uint64)
    for counter in (seed, epoch, pairs, side):
        mixed = mix64(mixed + np.asarray(counter, np.int64).astype(np.uint64) + np.uint64(GAMMA))
    return mixed
