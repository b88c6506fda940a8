"""Word alignments, out of what the decoder looked at: for files, in Pharaoh's format, and as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dragoman.errors import DragomanError, SearchError
from dragoman.inspect.pictures import pyplot, save
from dragoman.text import Tree
from dragoman.translation.alignment import Links, align, move_language_last
from dragoman.translation.translator import Translator


def align_pairs(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    trees: Iterable[Tree] | None = None,
    to: str | Sequence[str] | None = None,
) -> list[Links]:
    """For each pair of sentences the links (source word, target word), counted from 0; `trees` are the sources'.

    For a model of several target languages `to` is that of all targets, or of each.
    """
    from dragoman.translation.alignment_head import head_attention

    if isinstance(sources, str) or isinstance(targets, str) or len(sources) != len(targets):
        raise SearchError("pairs come as two lists of as many sentences each, such as ['one'] and ['eins']")
    read, written = translator.encoded(list(sources), trees, to), translator.target.encode_many(list(targets))
    pairs = list(zip(read, written, strict=True))
    maps = head_attention(translator.engines.torch, pairs, translator.alignment_head)
    lead = translator.n_language_tokens
    return [
        align(
            move_language_last(weights, lead), translator.source.tokens(source[lead:]), translator.target.tokens(target)
        )
        for weights, (source, target) in zip(maps, pairs, strict=True)
    ]


def pharaoh(links: Links) -> str:
    """`0-0 1-2 ...`, the form that aligners and their tools read and write."""
    return " ".join(f"{source}-{target}" for source, target in links)


def draw_alignment(source: Sequence[str], target: Sequence[str], links: Links, path: str | Path) -> str:
    """Both sentences, one above the other, with a line for each link."""
    if not source or not target:
        raise DragomanError("a side of this pair is empty, so that there are no links to draw; choose another pair")
    plot = pyplot()
    figure = plot.figure(figsize=(1, 2.2))
    tops, width = places(figure, source)
    bottoms, other = places(figure, target)
    whole = max(width, other)
    figure.set_size_inches(whole + 0.5, 2.2)
    axis = figure.add_axes((0.25 / (whole + 0.5), 0, whole / (whole + 0.5), 1))
    axis.set(xlim=(0, whole), ylim=(0, 2.2))
    axis.set_axis_off()
    colors = plot.get_cmap("tab10").colors
    tops = [x + (whole - width) / 2 for x in tops]
    bottoms = [x + (whole - other) / 2 for x in bottoms]
    for s, t in links:
        axis.plot([tops[s], bottoms[t]], [1.72, 0.48], color=colors[s % 10], linewidth=1.8, solid_capstyle="round")
    for words, xs, y in ((source, tops, 1.88), (target, bottoms, 0.22)):
        for word, x in zip(words, xs, strict=True):
            axis.text(x, y, word.replace("$", r"\$"), ha="center", va="baseline", fontsize=12)
    return save(figure, path)


def places(figure: Any, words: Sequence[str], gap: float = 0.16) -> tuple[list[float], float]:
    """The middle of each word in inches when they stand in a row, and how wide the row is."""
    renderer = figure.canvas.get_renderer()
    middles, x = [], 0.0
    for word in words:
        drawn = figure.text(0, 0, word.replace("$", r"\$"), fontsize=12)
        wide = drawn.get_window_extent(renderer).width / figure.dpi
        drawn.remove()
        middles.append(x + wide / 2)
        x += wide + gap
    return middles, x - gap
