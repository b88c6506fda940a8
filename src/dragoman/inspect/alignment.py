"""Word alignments from attention, in Pharaoh format and as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.errors import DragomanError, SearchError
from dragoman.inspect.pictures import load_pyplot, save_figure
from dragoman.text.trees.dependency import Tree
from dragoman.translation.alignment import Links, align, move_language_last
from dragoman.translation.translator import Translator

if TYPE_CHECKING:
    from dragoman.engines.forced import EncodedPairs


Texts = Sequence[str]


def encode_pairs(
    translator: Translator, sources: Texts, targets: Texts, trees: Iterable[Tree] | None, to: str | Texts | None
) -> EncodedPairs:
    """The token ids of both sides of each pair."""
    if isinstance(sources, str) or isinstance(targets, str) or len(sources) != len(targets):
        message = "sources and targets must be two lists of the same length, such as ['one'] and ['eins']"
        raise SearchError(message, code="count_mismatch")
    read, written = translator.encoded(list(sources), trees, to), translator.target.encode_many(list(targets))
    return list(zip(read, written, strict=True))


def align_pairs(
    translator: Translator,
    sources: Texts,
    targets: Texts,
    trees: Iterable[Tree] | None = None,
    to: str | Texts | None = None,
) -> list[Links]:
    """The links (source word, target word) of each sentence pair, counted from 0.

    `trees` are the trees of the sources. `to` is the language of all targets, or of each, for a model with several.
    """
    from dragoman.translation.alignment_head import alignment_attention

    pairs = encode_pairs(translator, sources, targets, trees, to)
    maps = alignment_attention(translator.engines.forced(), pairs, translator.alignment_attention)
    lead, found = translator.n_language_tokens, []
    for weights, (source, target) in zip(maps, pairs, strict=True):
        sides = translator.source.tokens(source[lead:]), translator.target.tokens(target)
        found.append(align(move_language_last(weights, lead), *sides))
    return found


def format_pharaoh(links: Links) -> str:
    """Links in Pharaoh format, such as `0-0 1-2`."""
    return " ".join(f"{source}-{target}" for source, target in links)


def draw_alignment(source: Sequence[str], target: Sequence[str], links: Links, path: str | Path) -> str:
    """Draw both sentences, one above the other, with a line for each link."""
    if not source or not target:
        raise DragomanError("a side of this pair is empty; choose another pair", code="empty_text")
    plot = load_pyplot()
    figure = plot.figure(figsize=(1, 2.2))
    tops, source_width = word_centers(figure, source)
    bottoms, target_width = word_centers(figure, target)
    width = max(source_width, target_width)
    figure.set_size_inches(width + 0.5, 2.2)
    axis = figure.add_axes((0.25 / (width + 0.5), 0, width / (width + 0.5), 1))
    axis.set(xlim=(0, width), ylim=(0, 2.2))
    axis.set_axis_off()
    colors = plot.get_cmap("tab10").colors
    tops = [x + (width - source_width) / 2 for x in tops]
    bottoms = [x + (width - target_width) / 2 for x in bottoms]
    for s, t in links:
        axis.plot([tops[s], bottoms[t]], [1.72, 0.48], color=colors[s % 10], linewidth=1.8, solid_capstyle="round")
    for words, xs, y in ((source, tops, 1.88), (target, bottoms, 0.22)):
        for word, x in zip(words, xs, strict=True):
            axis.text(x, y, word.replace("$", r"\$"), ha="center", va="baseline", fontsize=12)
    return save_figure(figure, path)


def word_centers(figure: Any, words: Sequence[str], gap: float = 0.16) -> tuple[list[float], float]:
    """The center of each word in inches, in a row of words, and the width of the row."""
    renderer = figure.canvas.get_renderer()
    centers, x = [], 0.0
    for word in words:
        drawn = figure.text(0, 0, word.replace("$", r"\$"), fontsize=12)
        wide = drawn.get_window_extent(renderer).width / figure.dpi
        drawn.remove()
        centers.append(x + wide / 2)
        x += wide + gap
    return centers, x - gap
