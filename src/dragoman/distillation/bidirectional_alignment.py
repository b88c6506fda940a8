"""Word alignments on which two models agree: one for each direction, both by forced decoding.

A head that aligns words in one direction should mirror one of the other. So the heads of both models are chosen by the
cosine similarity of their attention on some sentence pairs, without gold alignments, and words are linked by the
geometric mean of both attentions (benchmarks/results/alignment.md has figures).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from dragoman.arrays import IntArray, concatenate
from dragoman.data.alignment.pharaoh import word_starts
from dragoman.engines.forced import length_batches
from dragoman.engines.torch_forced import check_engine_has_attention
from dragoman.errors import TrainingError
from dragoman.models import AttentionMaps
from dragoman.text import Tokenizer
from dragoman.text.special_tokens import BOS, EOS, PAD
from dragoman.text.word_groups import is_punctuation
from dragoman.translation.alignment import Links, is_linked
from dragoman.translation.alignment_head import AlignmentHead
from dragoman.translation.translator import Translator

MIN_GAIN: Final = 0.002  # of the cosine similarity, for one more head
SAMPLED_PAIRS: Final = 200
MAX_TOKENS: Final = 256  # longer sentences are not aligned
DEVICE_BATCH: Final = 1024  # pairs of typical length, on a GPU
DEVICE_WEIGHTS: Final = 5 << 20  # of a head in a batch: 1.5 GB for the 144 heads of a base model in bfloat16
Pair = tuple[str, str]
Sides = tuple[list[list[int]], list[list[int]]]  # the ids of sources and of targets


@dataclass(frozen=True)
class WordBatch:
    """Sentence pairs on the device: what the model reads, and the tokens of each word.

    `from_words [B, S, source words]` and `to_words [B, target words, T]` are 1 where a token is part of a word. The
    punctuation of a word with letters is not: the marks at the ends of two sentences attend to each other.
    """

    inputs: tuple[Any, ...]  # of `hidden`: source, target and their layouts
    from_words: Tensor
    to_words: Tensor


@dataclass(frozen=True)
class AlignerBatches:
    """The ids of sentence pairs for both models, and the numbers of words of all sources and all targets.

    `batches` are indices of pairs of similar length. Pairs that are too long, empty, or whose words the tokenizers
    count differently are in none of them.
    """

    forward: Sides
    reverse: Sides
    words: tuple[IntArray, IntArray]
    batches: list[list[int]]


class WordAttention:
    """A model that gives its cross-attention between words."""

    def __init__(self, translator: Translator) -> None:
        self.engine = translator.engines.torch
        check_engine_has_attention(self.engine)
        self.source, self.target = translator.source, translator.target
        self.starts = [token_starts(tokenizer) for tokenizer in (self.source, self.target)]
        self.device_starts = [torch.from_numpy(starts).to(self.engine.device) for starts in self.starts]
        self.marks = [token_marks(tokenizer).to(self.engine.device) for tokenizer in (self.source, self.target)]
        n_layers, n_heads = self.engine.model.recipe.cross_attention_shape
        self.heads = [
            AlignmentHead(layer, head, step)
            for layer in range(n_layers)
            for head in range(n_heads)
            for step in ("writes", "reads")
        ]

    def encode(self, texts: Sequence[str], side: int) -> tuple[list[list[int]], IntArray]:
        """The ids of some texts, and the number of words that their tokens begin; 0 for texts that are too long."""
        rows = (self.source, self.target)[side].encode_many(texts)
        ids, lengths = concatenate(rows)
        begun, ends = np.concatenate(([0], np.cumsum(self.starts[side][ids]))), np.cumsum(lengths)
        return rows, np.where(lengths <= MAX_TOKENS, begun[ends] - begun[ends - lengths], 0)

    def batch(self, sides: Sides, n_source_words: int, n_target_words: int) -> WordBatch:
        """A batch on the device; no source and no target has more words than given."""
        source, source_layout = self.engine.sources(sides[0])
        target, target_layout = self.engine.padded([[BOS, *ids] for ids in sides[1]])
        from_words = self.words(source[:, :-1], 0, n_source_words).mT
        to_words = self.words(target[:, 1:], 1, n_target_words)
        return WordBatch((source, target, source_layout, target_layout), from_words, to_words)

    def words(self, ids: Tensor, side: int, count: int) -> Tensor:
        """`[B, W, T]`: 1 where token t of `ids [B, T]` is part of word w; punctuation beside letters is left out."""
        word = torch.where((ids == PAD) | (ids == EOS), -1, self.device_starts[side][ids].cumsum(1) - 1)
        tokens = word[:, None] == torch.arange(count, device=ids.device)[:, None]
        letters = tokens & ~self.marks[side][ids][:, None]
        return torch.where(letters.any(-1, keepdim=True), letters, tokens).float()

    @torch.inference_mode()
    def __call__(self, batch: WordBatch, heads: Sequence[AlignmentHead]) -> Tensor:
        """The attention of each of the heads from target words to source words, `[K, B, target words, source words]`.

        Weights are averaged over the tokens of a target word, and summed over those of a source word.
        """
        maps = AttentionMaps()
        self.engine.model.hidden(*batch.inputs, maps)
        to_words = batch.to_words / batch.to_words.sum(-1, keepdim=True).clamp(min=1)
        to_words, from_words = (weights.to(maps.cross[0].dtype) for weights in (to_words, batch.from_words))
        n, width = to_words.shape[2], from_words.shape[1]
        found = []
        for head in heads:
            weights = maps.cross[head.layer][:, head.head]
            steps = weights[:, :n] if head.step == "writes" else weights[:, 1 : n + 1]
            found.append(to_words @ steps[..., :width] @ from_words)
        return torch.stack(found).float()


def token_starts(tokenizer: Tokenizer) -> Any:
    """For each token, 1 if it begins a word."""
    return word_starts(tokenizer.tokens(range(tokenizer.vocabulary_size)))


def token_marks(tokenizer: Tokenizer) -> Tensor:
    """For each token, whether it is punctuation."""
    return torch.tensor([*map(is_punctuation, tokenizer.tokens(range(tokenizer.vocabulary_size)))])


@dataclass(frozen=True)
class BidirectionalAligner:
    """Two models and the heads of each whose mean is used."""

    forward: WordAttention
    reverse: WordAttention
    heads: tuple[tuple[AlignmentHead, ...], tuple[AlignmentHead, ...]]

    @classmethod
    def choose(cls, forward: Translator, reverse: Translator, pairs: Sequence[Pair]) -> BidirectionalAligner:
        """Choose the heads by their agreement on some pairs of (source, target)."""
        models = WordAttention(forward), WordAttention(reverse)
        whole = cls(*models, (tuple(models[0].heads), tuple(models[1].heads)))
        step = max(1, len(pairs) // SAMPLED_PAIRS)
        products = [np.zeros((len(a.heads), len(b.heads))) for a in models for b in models]
        for _, one, other in whole.attention(whole.encode(pairs[::step][:SAMPLED_PAIRS])):
            flat = [weights.flatten(1).double() for weights in (one, other)]
            for i, (a, b) in enumerate((a, b) for a in flat for b in flat):
                products[i] += (a @ b.mT).cpu().numpy()
        if not products[1].any():
            raise TrainingError("there is no sentence pair to choose alignment heads on", code="no_data")
        first, second = choose_heads(products[0], products[1], products[3])
        chosen = tuple(models[0].heads[i] for i in first), tuple(models[1].heads[i] for i in second)
        return cls(*models, chosen)

    def encode(self, pairs: Sequence[Pair]) -> AlignerBatches:
        """The ids of some pairs, in batches."""
        split = [[pair[side].split() for pair in pairs] for side in (0, 1)]
        sources, targets = ([" ".join(words) for words in side] for side in split)
        n_sources, n_targets = (np.fromiter(map(len, side), np.int64, len(side)) for side in split)
        (one, n_one), (other, n_other) = self.forward.encode(sources, 0), self.forward.encode(targets, 1)
        (back, n_back), (first, n_first) = self.reverse.encode(targets, 0), self.reverse.encode(sources, 1)
        same = (n_one == n_sources) & (n_first == n_sources) & (n_other == n_targets) & (n_back == n_targets)
        usable = np.flatnonzero(same & (n_sources > 0) & (n_targets > 0)).tolist()
        on_cpu = self.forward.engine.device.type == "cpu"
        limits = (self.forward.engine.batch, None) if on_cpu else (DEVICE_BATCH, DEVICE_WEIGHTS)
        batches = length_batches([(one[i], other[i]) for i in usable], *limits)
        chosen = [[usable[i] for i in batch] for batch in batches]
        return AlignerBatches((one, other), (back, first), (n_sources, n_targets), chosen)

    def attention(self, encoded: AlignerBatches) -> Iterator[tuple[list[int], Tensor, Tensor]]:
        """For each batch, the indices of its pairs, and `[K, B, target words, source words]` of both models."""
        batches = []  # all are copied to the device first: a copy waits for the passes before it
        for here in encoded.batches:
            n_sources, n_targets = (int(words[here].max()) for words in encoded.words)
            one = self.forward.batch(take(encoded.forward, here), n_sources, n_targets)
            other = self.reverse.batch(take(encoded.reverse, here), n_targets, n_sources)
            batches.append((here, one, other))
        for here, one, other in batches:
            yield here, self.forward(one, self.heads[0]), self.reverse(other, self.heads[1]).mT

    def links(self, encoded: AlignerBatches) -> list[Links]:
        """The links (source word, target word) of each pair, in order."""
        agreed = [  # of all batches before the first is read: a GPU need not wait for the host in between
            (here, is_linked((one.mean(0) * other.mean(0)).sqrt()).mT) for here, one, other in self.attention(encoded)
        ]
        found: list[Links] = [[] for _ in encoded.words[0]]
        for here, linked in agreed:
            rows, sources, targets = linked.nonzero().T.cpu()
            bounds = torch.bincount(rows, minlength=len(here)).cumsum(0).tolist()
            links = list(zip(sources.tolist(), targets.tolist(), strict=True))
            for i, start, stop in zip(here, [0, *bounds[:-1]], bounds, strict=True):
                found[i] = links[start:stop]
        return found

    def align(self, pairs: Sequence[Pair]) -> list[Links]:
        """The links (source word, target word) of each pair; words are separated by spaces."""
        return self.links(self.encode(pairs))


def take(sides: Sides, chosen: Sequence[int]) -> Sides:
    """Some pairs."""
    return [sides[0][i] for i in chosen], [sides[1][i] for i in chosen]


def choose_heads(own: Any, both: Any, other: Any) -> tuple[list[int], list[int]]:
    """Greedily choose heads of two models so that the cosine similarity of their mean attentions grows.

    `own [K, K]`, `both [K, J]` and `other [J, J]` are the inner products of the attention of all heads.
    """

    def similarity(first: list[int], second: list[int]) -> float:
        norms = own[np.ix_(first, first)].sum() * other[np.ix_(second, second)].sum()
        return float(both[np.ix_(first, second)].sum() / max(float(norms), 1e-30) ** 0.5)

    norms = np.sqrt(np.outer(own.diagonal(), other.diagonal()))
    best = np.unravel_index(np.argmax(both / np.maximum(norms, 1e-30)), both.shape)
    first, second = [int(best[0])], [int(best[1])]
    while True:
        more = [
            *((similarity([*first, i], second), 0, i) for i in range(len(own)) if i not in first),
            *((similarity(first, [*second, i]), 1, i) for i in range(len(other)) if i not in second),
        ]
        if not more or max(more)[0] < similarity(first, second) + MIN_GAIN:
            return first, second
        (first, second)[max(more)[1]].append(max(more)[2])
