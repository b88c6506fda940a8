"""What every head looked at while one sentence pair was read and written: the data of all pictures of attention."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import numpy.typing as npt

from dragoman.errors import SearchError
from dragoman.text import Tree
from dragoman.text.special_tokens import BOS
from dragoman.text.word_groups import Side
from dragoman.translation.alignment import pool_words
from dragoman.translation.translator import Translator

if TYPE_CHECKING:
    from dragoman.models import EncoderDecoder

START, END = "‹start›", "‹end›"
Kind = Literal["cross", "encoder", "decoder"]
KINDS: Final[tuple[Kind, ...]] = ("cross", "encoder", "decoder")
Weights = npt.NDArray[np.float32]
MOST: Final = 1 << 29  # weights that are held at once: 2 GiB


@dataclass(frozen=True)
class Looked:
    """A sentence pair and its weights, `[layers, heads, rows, columns]` for each use of attention.

    Step t of the decoder reads token t - 1 and writes token t, so that its rows can be named by either.
    """

    source_text: str
    target_text: str
    source: Side
    read: Side
    written: Side
    maps: dict[Kind, Weights]
    first: tuple[int, int] = (1, 1)  # the numbers of the first layer and the first head that are held

    def rows(self, kind: Kind, named: Literal["written", "read"] = "written") -> Side:
        """Who looks."""
        if kind == "encoder":
            return self.source
        return self.written if named == "written" else self.read

    def columns(self, kind: Kind) -> Side:
        """What is looked at."""
        return self.read if kind == "decoder" else self.source

    def check(self, kind: Kind, layer: int | None = None, head: int | None = None) -> None:
        """Refuse a layer or head that the model does not have; both are counted from 1."""
        if kind not in self.maps:
            raise SearchError(f"there is no {kind!r} attention; there is: {', '.join(self.maps)}")
        layers, heads = self.maps[kind].shape[:2]
        for name, asked, there in (("layer", layer, layers), ("head", head, heads)):
            if asked is not None and (not isinstance(asked, int) or not 1 <= asked <= there):
                raise SearchError(f"there is no {name} {asked!r} in the {kind} attention; they are 1 to {there}")

    def only(self, kind: Kind | None = None, layer: int | None = None, head: int | None = None) -> Looked:
        """What was asked for of it; without a kind, every kind that has such a layer."""
        if kind is not None:
            self.check(kind)
        kinds = [kind] if kind is not None else list(self.maps)
        having = [k for k in kinds if layer is None or 1 <= layer <= len(self.maps[k])]
        for k in having or sorted(kinds, key=lambda k: -len(self.maps[k]))[:1]:
            self.check(k, layer, head)
        layers, heads = (slice(None) if n is None else slice(n - 1, n) for n in (layer, head))
        maps = {k: self.maps[k][layers, heads] for k in having}
        return replace(self, maps=maps, first=(layer or 1, head or 1))

    def in_words(self) -> Looked:
        """The same between words, which can then no longer be parted."""
        maps = {kind: by_words(weights, self.rows(kind), self.columns(kind)) for kind, weights in self.maps.items()}
        source, read, written = (side.merge_tokens() for side in (self.source, self.read, self.written))
        return replace(self, maps=maps, source=source, read=read, written=written)


def look(
    translator: Translator,
    source: str,
    target: str | None = None,
    trees: Tree | Iterable[Tree] | None = None,
    to: str | None = None,
) -> Looked:
    """Read the source, with its tree if the model reads trees, and write the target: its own, where none is given.

    For a model of several target languages `to` says which; its token is shown as a mark before the source.
    """
    import torch

    from dragoman.models import AttentionMaps, EncoderDecoder

    if not isinstance(translator, Translator):
        raise SearchError(f"look takes a Translator, such as Translator.load('my-model'); got {translator!r}")
    for text in (source, "" if target is None else target):
        if not isinstance(text, str):
            raise SearchError(f"a sentence to look at is a text; got {text!r}")
    model = translator.engines.torch.model
    if not isinstance(model, EncoderDecoder):
        raise SearchError(f"a {type(model).__name__} has no attention to show; give a model of another architecture")
    if isinstance(trees, Iterator):
        trees = [*trees]  # it is read twice: here, and to translate
    (source_ids,) = translator.encoded([source], trees, to)
    text_ids = source_ids[translator.n_language_tokens :]
    if not text_ids:
        raise SearchError("the source is empty; give a sentence to look at")
    if target is None:
        translation = translator.translate(source, split="never", trees=trees, to=to)
        target_ids = translator.target.to_ids(translation.tokens)  # as it was written, not as it would be encoded
    else:
        target_ids = translator.target.encode(target)
    language = source_ids[: translator.n_language_tokens]
    check_room(model, len(source_ids) + 1, len(target_ids) + 1)
    maps = AttentionMaps()
    read, layout = translator.engines.torch.sources([source_ids])
    with torch.inference_mode():
        model.hidden(read, torch.tensor([[BOS, *target_ids]], device=read.device), layout, maps=maps)
    layers: dict[Kind, list[torch.Tensor]] = {"cross": maps.cross, "encoder": maps.encoder, "decoder": maps.decoder}
    return Looked(
        source,
        translator.target.decode(target_ids),
        Side.from_ids(translator.source, text_ids, before="".join(translator.source.tokens(language)), after=END),
        Side.from_ids(translator.target, target_ids, before=START),
        Side.from_ids(translator.target, target_ids, after=END),
        {kind: torch.stack([w[0].float().cpu() for w in of]).numpy() for kind, of in layers.items() if of},
    )


def check_room(model: EncoderDecoder, source: int, target: int) -> None:
    """Refuse texts whose weights no memory would hold: they grow with the square of the lengths."""
    recipe = model.recipe
    match recipe.architecture:
        case "transformer":
            of_decoder = recipe.decoder_layers * (target * target + target * source)
            total = recipe.n_heads * (recipe.encoder_layers * source * source + of_decoder)
        case "recurrent":
            total = target * source
        case "convolutional":
            total = recipe.decoder_layers * target * source
    if total > MOST:
        raise SearchError(
            f"the texts have {source:,} and {target:,} tokens, between which the heads of this model have {total:,} "
            f"weights; {MOST:,} can be looked at, so give shorter texts, such as a sentence at a time"
        )


def by_words(weights: Weights, rows: Side, columns: Side) -> Weights:
    """Weights between the words of two sides."""
    pooled: Weights = pool_words(weights, rows.groups, columns.groups).astype(np.float32)
    return pooled
