"""Word alignments on which two models agree: one for each direction, both by forced decoding.

A head that aligns words in one direction should mirror one of the other. So the heads of both models are chosen by the
cosine similarity of their attention on some sentence pairs, without gold alignments, and words are linked where the
geometric mean of both attentions is high (benchmarks/results/alignment.md has figures).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from dragoman.data.alignment.pharaoh import word_starts
from dragoman.engines.forced import length_batches
from dragoman.engines.torch_forced import check_engine_has_attention
from dragoman.errors import TrainingError
from dragoman.models import AttentionMaps
from dragoman.search.constraints.batch import pad_rows
from dragoman.text import Tokenizer
from dragoman.text.special_tokens import BOS, PAD
from dragoman.translation.alignment import Links
from dragoman.translation.alignment_head import AlignmentHead
from dragoman.translation.translator import Translator

THRESHOLD: Final = 0.28  # of the geometric mean, chosen on half of a gold set
MIN_GAIN: Final = 0.002  # of the cosine similarity, for one more head
SAMPLED_PAIRS: Final = 200
MAX_TOKENS: Final = 256  # longer sentences are not aligned
Pair = tuple[str, str]


class WordAttention:
    """A model that gives its cross-attention between words."""

    def __init__(self, translator: Translator) -> None:
        self.engine = translator.engines.torch
        check_engine_has_attention(self.engine)
        self.source, self.target = translator.source, translator.target
        self.starts = [token_starts(tokenizer) for tokenizer in (self.source, self.target)]
        model = self.engine.model.recipe
        self.heads = [
            AlignmentHead(layer, head, step)
            for layer in range(model.decoder_layers)
            for head in range(model.n_heads)
            for step in ("writes", "reads")
        ]

    def encode(self, texts: Sequence[str], side: int) -> list[list[int]]:
        """The ids of some texts."""
        return (self.source, self.target)[side].encode_many(texts)

    def has_words(self, source: str, target: str, source_ids: list[int], target_ids: list[int]) -> bool:
        """Whether both texts have words, not too many tokens, and a token at the start of each word."""
        return all(
            0 < len(ids) <= MAX_TOKENS and int(starts[ids].sum()) == len(text.split())
            for text, ids, starts in zip((source, target), (source_ids, target_ids), self.starts, strict=True)
        )

    def words(self, ids: Tensor, side: int) -> Tensor:
        """The word of each token `[B, T]`, counted from 0; -1 for padding."""
        starts = torch.from_numpy(self.starts[side]).to(ids.device)
        return torch.where(ids == PAD, -1, starts[ids].cumsum(1) - 1)

    @torch.inference_mode()
    def __call__(self, sources: list[list[int]], targets: list[list[int]], heads: Sequence[AlignmentHead]) -> Tensor:
        """The attention of each of the heads from target words to source words, `[K, B, target words, source words]`.

        Weights are averaged over the tokens of a target word, and summed over those of a source word.
        """
        device, maps = self.engine.device, AttentionMaps()
        source, source_layout = self.engine.sources(sources)
        target, target_layout = self.engine.padded([[BOS, *ids] for ids in targets])
        self.engine.model.hidden(source, target, source_layout, target_layout, maps)
        rows, columns = (pad_rows(ids, device) for ids in (targets, sources))
        to_words = one_hot(self.words(rows, 1))
        to_words = (to_words / to_words.sum(-1, keepdim=True).clamp(min=1)).to(maps.cross[0].dtype)
        from_words = one_hot(self.words(columns, 0)).mT.to(maps.cross[0].dtype)
        n, width = rows.shape[1], columns.shape[1]
        found = []
        for head in heads:
            weights = maps.cross[head.layer][:, head.head]
            steps = weights[:, :n] if head.step == "writes" else weights[:, 1 : n + 1]
            found.append(to_words @ steps[..., :width] @ from_words)
        return torch.stack(found).float()


def token_starts(tokenizer: Tokenizer) -> Any:
    """For each token, 1 if it begins a word."""
    return word_starts(tokenizer.tokens(range(tokenizer.vocabulary_size)))


def one_hot(words: Tensor) -> Tensor:
    """`[B, W, T]`: 1 where token t is part of word w."""
    count = int(words.max()) + 1 if words.numel() else 0
    return (words[:, None] == torch.arange(max(count, 1), device=words.device)[:, None]).float()


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
        for _, one, other in whole.attention(pairs[::step][:SAMPLED_PAIRS]):
            flat = [weights.flatten(1).double() for weights in (one, other)]
            for i, (a, b) in enumerate((a, b) for a in flat for b in flat):
                products[i] += (a @ b.mT).cpu().numpy()
        if not products[1].any():
            raise TrainingError("there is no sentence pair to choose alignment heads on", code="no_data")
        first, second = choose_heads(products[0], products[1], products[3])
        chosen = tuple(models[0].heads[i] for i in first), tuple(models[1].heads[i] for i in second)
        return cls(*models, chosen)

    def attention(self, pairs: Sequence[Pair]) -> Iterator[tuple[list[int], Tensor, Tensor]]:
        """Batches of similar length: the indices of their pairs, and `[K, B, target words, source words]` of both.

        Pairs that are too long, empty, or whose words the tokenizers count differently are left out.
        """
        texts = [[pair[side] for pair in pairs] for side in (0, 1)]
        ids = [
            [self.forward.encode(texts[side], side) for side in (0, 1)],
            [self.reverse.encode(texts[1 - side], side) for side in (0, 1)],
        ]
        usable = [
            i
            for i in range(len(pairs))
            if self.forward.has_words(texts[0][i], texts[1][i], ids[0][0][i], ids[0][1][i])
            and self.reverse.has_words(texts[1][i], texts[0][i], ids[1][0][i], ids[1][1][i])
        ]
        for batch in length_batches([(ids[0][0][i], ids[0][1][i]) for i in usable], self.forward.engine.batch):
            here = [usable[i] for i in batch]
            one = self.forward([ids[0][0][i] for i in here], [ids[0][1][i] for i in here], self.heads[0])
            other = self.reverse([ids[1][0][i] for i in here], [ids[1][1][i] for i in here], self.heads[1])
            yield here, one, other.mT

    def align(self, pairs: Sequence[Pair]) -> list[Links]:
        """The links (source word, target word) of each pair; words are separated by spaces."""
        found: list[Links] = [[] for _ in pairs]
        for here, one, other in self.attention(pairs):
            agreed = one.mean(0) * other.mean(0)
            rows, targets, sources = (agreed > THRESHOLD**2).nonzero(as_tuple=True)
            bounds = torch.bincount(rows, minlength=len(here)).cumsum(0).tolist()
            links = list(zip(sources.tolist(), targets.tolist(), strict=True))
            for i, start, stop in zip(here, [0, *bounds[:-1]], bounds, strict=True):
                found[i] = sorted(links[start:stop])
        return found


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
