"""Other pieces for the same sentence each epoch (BPE-dropout, subword regularisation), while training.

Sentences are decoded from their ids and encoded again by sampling, which is possible because decoding gives the
normalised text back exactly; so prepared data need not keep the text. What is drawn is a function of (seed, epoch,
pair, side), and so is the same in whatever process it is drawn.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dragoman.data.batch import Flat
from dragoman.data.encoding import tokeniser_at
from dragoman.data.shards import Ints, Sentences, Split
from dragoman.data.working import Workers

if TYPE_CHECKING:
    from dragoman.text import Tokeniser

PROBES = 512


class Sampler:
    """Draws pieces for both sides; `growth` is how many times longer sentences become, by which batches are planned.

    Drawing is slow and in Python, so with `processes` over 1 it happens there; they load the tokenisers from
    `directory` by their `names`.
    """

    def __init__(
        self, directory: Path, names: tuple[str, str], split: Split, alpha: float, seed: int, processes: int = 1
    ) -> None:
        self.directory, self.names, self.alpha, self.seed = directory, names, alpha, seed
        self.workers = Workers(processes)
        self.longest = int(max(split.source.lengths.max(initial=0), split.target.lengths.max(initial=0)))
        self.growth = (self._measure(0, split.source), self._measure(1, split.target))

    def sample(self, side: int, plain: Flat, pairs: Ints, epoch: int, planned: Ints, room: int | None) -> Flat:
        """The sentences of a batch in other pieces; where they would outgrow the batch, the plain pieces stay.

        Padded (no `room`): no sentence may become wider than the batch was planned. Packed: all must fit into `room`.
        """
        ends = np.cumsum(plain.lengths)
        sentences = [plain.ids[end - length : end].tolist() for end, length in zip(ends, plain.lengths, strict=True)]
        seeds = [self._seed(epoch, pair, side) for pair in pairs.tolist()]
        task = (self.directory, self.names[side], sentences, seeds, self.alpha)
        spare = np.inf if room is None else room - len(plain.ids) - len(pairs)
        widest = int(planned.max(initial=1)) - 1 if room is None else self.longest
        for i, drawn in enumerate(self.workers.call(draw, *task)):
            more = len(drawn) - len(sentences[i])
            if len(drawn) <= widest and more <= spare:
                spare -= more
                sentences[i] = drawn
        chosen = Sentences.of(sentences, np.int64)
        return Flat(chosen.ids, chosen.lengths.astype(np.int64))

    def close(self) -> None:
        """End the processes."""
        self.workers.close()

    def _seed(self, epoch: int, pair: int, side: int) -> int:
        counters = np.array([self.seed, epoch, pair, side], np.int64).tobytes()
        return int.from_bytes(blake2b(counters, digest_size=4).digest(), "little")

    def _measure(self, side: int, sentences: Sentences) -> float:
        """How much longer some sentences become, spread evenly over the corpus; a little more, for the spread."""
        probes = np.unique(np.linspace(0, len(sentences) - 1, PROBES).astype(np.int64)).tolist()
        plain = [sentences[i].tolist() for i in probes]
        drawn = draw(self.directory, self.names[side], plain, [self._seed(0, i, side) for i in probes], self.alpha)
        return max(1.0, 1.01 * sum(map(len, drawn)) / max(sum(map(len, plain)), 1))


def draw(directory: Path, name: str, sentences: list[list[int]], seeds: list[int], alpha: float) -> list[list[int]]:
    """Other pieces of each sentence."""
    tokeniser: Tokeniser = tokeniser_at(directory, name)
    return [tokeniser.sample(tokeniser.decode(s), alpha, seed) for s, seed in zip(sentences, seeds, strict=True)]
