"""Base class of all models: embeddings, teacher forcing with `encode` and `decode`, and the output projection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor, nn

from dragoman.config import PRESETS, ModelRecipe, Recipe, preset_for
from dragoman.errors import RecipeError, ShapeError
from dragoman.modeldir.weights import EMBEDDING_TABLES
from dragoman.models.seq2seq import AttentionMaps, Memory
from dragoman.nn import Embeddings, Layout, Packed, Padded
from dragoman.values import render_value, suggest


class EncoderDecoder(nn.Module, ABC):
    """An encoder for the source, and a decoder that attends to it and generates the target.

    `recipe` is a preset's name, a `Recipe` or its `ModelRecipe`. `vocabulary` is the size of the shared vocabulary, or
    (source, target) for two. Ids equal to `pad` at the end of a row are padding.
    """

    architecture: ClassVar[str]

    def __init__(self, recipe: Recipe | ModelRecipe | str, vocabulary: int | tuple[int, int], pad: int = 0) -> None:
        super().__init__()
        if isinstance(recipe, str):
            if recipe not in PRESETS:
                file = "; load a recipe file with Recipe.load" if recipe.endswith(".toml") else ""
                raise RecipeError(f"{recipe!r} is not a preset{suggest(recipe, PRESETS)}{file}", code="unknown_preset")
            recipe = preset_for(recipe, self.architecture)
        elif isinstance(recipe, Recipe):
            recipe = recipe.model
        if not isinstance(recipe, ModelRecipe):
            found = render_value(recipe)
            message = f"expected the name of a preset, such as 'base', a Recipe or its ModelRecipe; got {found}"
            raise RecipeError(message, code="wrong_type")
        if recipe.architecture != self.architecture:
            raise RecipeError(
                f"{type(self).__name__} needs a recipe with model.architecture={self.architecture!r}; got "
                f"{recipe.architecture!r}",
                code="architecture_mismatch",
            )
        sizes = (vocabulary, vocabulary) if isinstance(vocabulary, int) else vocabulary
        if not isinstance(sizes, tuple) or len(sizes) != 2 or not all(type(n) is int and n > 0 for n in sizes):
            message = f"vocabulary must be a number of tokens, or two for source and target; got {vocabulary!r}"
            raise RecipeError(message, code="wrong_type")
        if recipe.tie == "all" and not isinstance(vocabulary, int):
            raise RecipeError(
                f"model.tie='all' needs one vocabulary, not two of {vocabulary[0]} and {vocabulary[1]} tokens; use "
                "model.tie='target' or 'none', or a shared vocabulary",
                code="vocabulary_mismatch",
            )
        self.recipe, self.vocabulary, self.pad = recipe, vocabulary, pad
        self.embeddings = Embeddings(*sizes, recipe.d_model, EMBEDDING_TABLES[recipe.tie], recipe.output_bias)

    @abstractmethod
    def encode(self, source: Tensor, layout: Layout | None = None, maps: AttentionMaps | None = None) -> Memory:
        """Encode the sources."""

    @abstractmethod
    def decode(
        self, target: Tensor, memory: Memory, layout: Layout | None = None, maps: AttentionMaps | None = None
    ) -> Tensor:
        """The decoder's output `[..., D]` for each token of `target`, before the projection to the vocabulary."""

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_layout: Layout | None = None,
        target_layout: Layout | None = None,
        maps: AttentionMaps | None = None,
    ) -> Tensor:
        """Teacher forcing: next-token logits `[..., V]` at each token of `target`.

        Ids are `[B, S]` and `[B, T]`, padded on the right with `pad`, unless layouts are given.
        """
        return self.logits(self.hidden(source, target, source_layout, target_layout, maps))

    def hidden(
        self,
        source: Tensor,
        target: Tensor,
        source_layout: Layout | None = None,
        target_layout: Layout | None = None,
        maps: AttentionMaps | None = None,
    ) -> Tensor:
        """Teacher forcing up to the decoder's output `[..., D]`, before the projection."""
        sources = count_sentences(check_tensor(source, "source"), source_layout)
        targets = count_sentences(check_tensor(target, "target"), target_layout)
        if sources is not None and targets is not None and sources != targets:
            message = f"the source has {sources} sentences and the target {targets}; give the same number of each"
            raise ShapeError(message, code="count_mismatch")
        return self.decode(target, self.encode(source, source_layout, maps), target_layout, maps)

    def logits(self, hidden: Tensor) -> Tensor:
        """Project the decoder's output `[..., D]` to a score for each token, `[..., V]`."""
        return self.embeddings.logits(hidden)

    def projection(self) -> Tensor:
        """The matrix `[V, D]` by which `logits` multiplies."""
        return self.embeddings.projection()

    def projection_bias(self) -> Tensor | None:
        """The bias `[V]` that `logits` adds, if any."""
        return self.embeddings.output_bias

    def parameter_count(self) -> int:
        """The number of weights, shared ones counted once."""
        return sum(p.numel() for p in self.parameters())

    def _layout(self, ids: Tensor, layout: Layout | None, side: str) -> Layout:
        if layout is None and check_tensor(ids, side).dim() != 2:
            message = f"{side} ids have shape {tuple(ids.shape)}; expected [sentences, tokens], or a Packed layout too"
            raise ShapeError(message)
        layout = layout if layout is not None else Padded.of(ids, self.pad)
        if not isinstance(layout, Padded | Packed) or ids.dim() != (1 if isinstance(layout, Packed) else 2):
            raise ShapeError(
                f"{side} ids have shape {tuple(ids.shape)}, and their layout is a {type(layout).__name__}; a Packed "
                "layout goes with [tokens], a Padded one with [sentences, tokens]",
                code="layout_mismatch",
            )
        if ids.shape[-1] != layout.size:
            raise ShapeError(f"{side} ids have {ids.shape[-1]} columns, but their layout has {layout.size}")
        return layout

    def _step_ids(self, ids: Tensor, sentences: int, rows: int | None) -> Tensor:
        """The ids of a step as `[B, T]`, checked against the number of rows and sentences of the state."""
        if check_tensor(ids, "target").dim() not in (1, 2):
            raise ShapeError(f"a step takes ids of shape [rows], or [rows, tokens]; got {tuple(ids.shape)}")
        if len(ids) % max(1, sentences) or (rows is not None and len(ids) != rows):
            expected = f"{rows} rows" if rows is not None else f"{sentences} sentences, with as many rows each"
            raise ShapeError(
                f"a step got {len(ids)} rows of ids, but its state has {expected}; the numbers must match",
                code="count_mismatch",
            )
        return ids if ids.dim() == 2 else ids[:, None]


def count_sentences(ids: Tensor, layout: Layout | None) -> int | None:
    """The number of sentences; None if the shape of the ids does not determine it."""
    if isinstance(layout, Packed):
        return len(layout.lengths)
    return len(ids) if ids.dim() == 2 else None


def check_tensor(ids: object, side: str) -> Tensor:
    """Return `ids`, or raise an error if they are not a tensor."""
    if not isinstance(ids, Tensor):
        found = render_value(ids)
        message = f"{side} ids must be a tensor of whole numbers, such as torch.tensor([[5, 6, 2]]); got {found}"
        raise ShapeError(message, code="wrong_type")
    return ids
