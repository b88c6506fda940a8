"""Subword regularization and BPE-dropout: another segmentation of each sentence in every epoch of training.

Sentences are decoded from their ids and encoded again by sampling; decoding restores the normalized text exactly, so
prepared data need not keep the text. A segmentation is a function of (seed, epoch, pair, side), hence the same in every
process.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dragoman.arrays import Int64Array, Uint64Array, ranges
from dragoman.data.batch import FlatSentences
from dragoman.data.prepare.encoding import cached_tokenizer
from dragoman.data.prepare.workers import Workers
from dragoman.data.shards import Sentences, Split
from dragoman.randomness import GAMMA, mix64

PROBE_SENTENCES = 512


class SubwordSampler:
    """Sample segmentations for both sides; `growth` is how much longer sentences become, for planning batches.

    With a C compiler, sampling runs in the thread that prepares the batch. Without one, it runs in slow Python code, in
    `processes` if there are several; they load the tokenizers from `directory` by their `names`.
    """

    def __init__(
        self, directory: Path, names: tuple[str, str], split: Split, alpha: float, seed: int, processes: int = 1
    ) -> None:
        self.directory, self.names, self.alpha, self.seed = directory, names, alpha, seed
        in_threads = all(cached_tokenizer(directory, name).resamples_in_threads for name in names)
        self.workers = Workers(1 if in_threads else processes)
        self.longest = int(max(split.source.lengths.max(initial=0), split.target.lengths.max(initial=0)))
        self.growth = (self._measure_growth(0, split.source), self._measure_growth(1, split.target))

    def sample(
        self, side: int, plain: FlatSentences, pairs: Int64Array, epoch: int, planned: Int64Array, room: int | None
    ) -> FlatSentences:
        """Resample the sentences of a batch; those that would outgrow it keep their plain tokens.

        Padded (no `room`): no sentence may become longer than planned. Packed: all must fit into `room`.
        """
        task = (self.directory, self.names[side], plain, self.alpha, pair_seeds(self.seed, epoch, pairs, side))
        drawn = self.workers.call(resample_sentences, *task)
        spare = np.inf if room is None else room - len(plain.ids) - len(pairs)
        widest = int(planned.max(initial=1)) - 1 if room is None else self.longest
        fits = np.zeros(len(pairs), bool)
        for i, (length, before) in enumerate(zip(drawn.lengths.tolist(), plain.lengths.tolist(), strict=True)):
            if length <= widest and length - before <= spare:
                spare -= length - before
                fits[i] = True
        lengths = np.where(fits, drawn.lengths, plain.lengths)
        starts = np.where(fits, sentence_starts(drawn), len(drawn.ids) + sentence_starts(plain))
        return FlatSentences(np.concatenate([drawn.ids, plain.ids])[ranges(starts, lengths)], lengths)

    def close(self) -> None:
        """Stop the processes."""
        self.workers.close()

    def _measure_growth(self, side: int, sentences: Sentences) -> float:
        """How much longer sentences become, estimated from a few across the corpus, with a margin of 1 %."""
        probes = np.unique(np.linspace(0, len(sentences) - 1, PROBE_SENTENCES).astype(np.int64))
        plain = FlatSentences(*sentences.gather(probes))
        drawn = resample_sentences(
            self.directory, self.names[side], plain, self.alpha, pair_seeds(self.seed, 0, probes, side)
        )
        return max(1.0, 1.01 * len(drawn.ids) / max(len(plain.ids), 1))


def resample_sentences(
    directory: Path, name: str, plain: FlatSentences, alpha: float, pair_seeds: Uint64Array
) -> FlatSentences:
    """Another segmentation of each sentence."""
    return FlatSentences(*cached_tokenizer(directory, name).resample(plain.ids, plain.lengths, alpha, pair_seeds))


def sentence_starts(sentences: FlatSentences) -> Int64Array:
    """Where each sentence begins."""
    return np.cumsum(sentences.lengths) - sentences.lengths


def pair_seeds(seed: int, epoch: int, pairs: Int64Array, side: int) -> Uint64Array:
    """A seed for each pair that depends on every bit of the four counters."""
    mixed = np.zeros(len(pairs), np.uint64)
    for counter in (seed, epoch, pairs, side):
        mixed = mix64(mixed + np.asarray(counter, np.int64).astype(np.uint64) + np.uint64(GAMMA))
    return mixed
