"""The attention weights of every layer and head for one sentence pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from dragoman.engines.base import check_has_attention
from dragoman.engines.forced import AttentionKind
from dragoman.errors import SearchError
from dragoman.text.trees.dependency import Tree
from dragoman.text.word_groups import Side
from dragoman.translation.translator import Translator
from dragoman.values import describe_value

if TYPE_CHECKING:
    from dragoman.config import ModelRecipe

START, END = "‹start›", "‹end›"
AttentionWeights = npt.NDArray[np.float32]
MAX_WEIGHTS: Final = 1 << 29  # 2 GiB


@dataclass(frozen=True)
class SentenceAttention:
    """A sentence pair and its weights, `[layers, heads, queries, keys]` for each kind of attention.

    Step t of the decoder reads token t - 1 and writes token t; its queries can be labeled with either.
    """

    source_text: str
    target_text: str
    source: Side
    target_input: Side
    target_output: Side
    maps: dict[AttentionKind, AttentionWeights]
    first: tuple[int, int] = (1, 1)  # the numbers of the first layer and head in `maps`

    def queries(self, kind: AttentionKind) -> Side:
        """The rows of a map."""
        return self.source if kind == "encoder" else self.target_output

    def keys(self, kind: AttentionKind) -> Side:
        """The columns of a map."""
        return self.target_input if kind == "decoder" else self.source

    def check(self, kind: AttentionKind, layer: int | None = None, head: int | None = None) -> None:
        """Reject a kind, layer or head that the model does not have; layers and heads count from 1."""
        if kind not in self.maps:
            message = f"the model has no {kind!r} attention; it has: {', '.join(self.maps)}"
            raise SearchError(message, code="unknown_choice")
        layers, heads = self.maps[kind].shape[:2]
        for name, value, count in (("layer", layer, layers), ("head", head, heads)):
            if value is not None and (not isinstance(value, int) or not 1 <= value <= count):
                message = f"there is no {name} {value!r} in the {kind} attention; choose 1 to {count}"
                raise SearchError(message, code="out_of_range")

    def select(
        self, kind: AttentionKind | None = None, layer: int | None = None, head: int | None = None
    ) -> SentenceAttention:
        """Part of the weights; without a kind, every kind that has such a layer."""
        if kind is not None:
            self.check(kind)
        kinds = [kind] if kind is not None else list(self.maps)
        having = [k for k in kinds if layer is None or 1 <= layer <= len(self.maps[k])]
        for k in having or sorted(kinds, key=lambda k: -len(self.maps[k]))[:1]:
            self.check(k, layer, head)
        layers, heads = (slice(None) if n is None else slice(n - 1, n) for n in (layer, head))
        maps = {k: self.maps[k][layers, heads] for k in having}
        return replace(self, maps=maps, first=(layer or 1, head or 1))

    def pool(self, kind: AttentionKind) -> AttentionWeights:
        """The weights of one kind between words instead of tokens."""
        pooled = pool_words(self.maps[kind], self.queries(kind).groups, self.keys(kind).groups)
        weights: AttentionWeights = pooled.astype(np.float32)
        return weights

    def pool_words(self) -> SentenceAttention:
        """The same pair with one token per word."""
        return replace(
            self,
            maps={kind: self.pool(kind) for kind in self.maps},
            source=self.source.merge_tokens(),
            target_input=self.target_input.merge_tokens(),
            target_output=self.target_output.merge_tokens(),
        )


def record_attention(
    translator: Translator,
    source: str,
    target: str | None = None,
    trees: Tree | Iterable[Tree] | None = None,
    to: str | None = None,
) -> SentenceAttention:
    """Record all attention weights for a source and a target, by default the model's own translation.

    `trees` is the source's tree, for a model that reads trees. For a model with several target languages, `to` names
    one; its language token is shown before the source.
    """
    if not isinstance(translator, Translator):
        message = f"record_attention takes a Translator, such as Translator.load('my-model'); got {translator!r}"
        raise SearchError(message, code="wrong_type")
    for text in (source, "" if target is None else target):
        if not isinstance(text, str):
            raise SearchError(f"a sentence must be a str; got {describe_value(text)}", code="wrong_type")
    recipe = translator.engines.recipe
    if translator.engines.others:
        message = "an ensemble has no attention to show; load one of its models alone"
        raise SearchError(message, code="unsupported_ensemble")
    check_has_attention(recipe)
    if isinstance(trees, Iterator):
        trees = [*trees]  # read twice: here, and to translate
    (source_ids,) = translator.encoded([source], trees, to)
    text_ids = source_ids[translator.n_language_tokens :]
    if not text_ids:
        raise SearchError("the source is empty; give a sentence", code="empty_text")
    if target is None:
        translation = translator.translate(source, split="never", trees=trees, to=to)
        target_ids = translator.target.to_ids(translation.tokens)  # the model's own tokens, not an encoding of the text
    else:
        target_ids = translator.target.encode(target)
    language = source_ids[: translator.n_language_tokens]
    check_memory(recipe, len(source_ids) + 1, len(target_ids) + 1)
    return SentenceAttention(
        source,
        translator.target.decode(target_ids),
        Side.from_ids(translator.source, text_ids, before="".join(translator.source.tokens(language)), after=END),
        Side.from_ids(translator.target, target_ids, before=START),
        Side.from_ids(translator.target, target_ids, after=END),
        translator.engines.forced(exact=True).attention_maps(source_ids, target_ids),
    )


def check_memory(recipe: ModelRecipe, source: int, target: int) -> None:
    """Reject texts whose weights do not fit into memory: they grow with the square of the lengths."""
    n_layers, n_heads = recipe.cross_attention_shape
    total = n_layers * n_heads * target * source
    if recipe.architecture == "transformer":
        total += n_heads * (recipe.encoder_layers * source * source + n_layers * target * target)
    if total > MAX_WEIGHTS:
        raise SearchError(
            f"the texts have {source:,} and {target:,} tokens and {total:,} attention weights between them; at most "
            f"{MAX_WEIGHTS:,} can be shown: give shorter texts, such as one sentence at a time",
            code="too_large",
        )


def pool_words(
    weights: AttentionWeights, rows: Sequence[Sequence[int]], columns: Sequence[Sequence[int]]
) -> AttentionWeights:
    """Attention between words, `[..., len(rows), len(columns)]`, from attention between tokens `[..., T, S]`.

    Weights are averaged over the tokens of a row's word and summed over those of a column's word, so each row still
    sums to 1 (Clark et al., 2019).
    """
    summed = np.stack([weights[..., list(tokens)].sum(-1) for tokens in columns], axis=-1)
    return np.stack([summed[..., list(tokens), :].mean(-2) for tokens in rows], axis=-2)
