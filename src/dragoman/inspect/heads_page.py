"""One self-contained HTML file with every head of a survey; a click shows what it looks at in some of the pairs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Final

from dragoman.inspect.attention_maps import Looked, look
from dragoman.inspect.attention_page import data as data_of
from dragoman.inspect.heads import Survey, pairs_of
from dragoman.inspect.heads_picture import measure
from dragoman.text import Tree
from dragoman.translation.translator import Translator

EXAMPLES: Final = 4  # pairs whose weights the page holds
USUAL: Final = range(6, 31)  # tokens of a source that make a map to look at,
MOST_TARGET: Final = 60  # and of its target


def page(
    survey: Survey,
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    trees: Sequence[Tree] | None = None,
    to: str | None = None,
    title: str = "Heads",
) -> str:
    """The page; nothing in it asks for another file or for the network, and a browser is told to refuse it."""
    examples = [data_of(looked) for looked in chosen(translator, sources, targets, trees, to)]
    told = {"title": title, "measure": measure(survey), **survey.data(), "examples": examples}
    web = files("dragoman.inspect") / "web"
    style = "\n".join((web / name).read_text(encoding="utf-8") for name in ("attention.css", "heads.css"))
    text = (web / "heads.html").read_text(encoding="utf-8").replace("/*STYLE*/", style)
    text = text.replace("/*SCRIPT*/", (web / "heads.js").read_text(encoding="utf-8"))
    # No "<" inside the data, so that no text can end the element that holds it.
    held = json.dumps(told, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return text.replace("/*DATA*/", held)


def chosen(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], trees: Sequence[Tree] | None, to: str | None
) -> Iterator[Looked]:
    """The first few pairs of a usual length, or if there is none the shortest, among those that were asked about."""
    pairs, kept = pairs_of(translator, sources, targets, trees, to)
    sizes = {
        i: (len(source) - translator.n_language_tokens, len(target))
        for i, (source, target) in zip(kept, pairs, strict=True)
    }
    usual = [i for i, (source, target) in sizes.items() if source in USUAL and target <= MOST_TARGET]
    grown = [i for i, source in enumerate(sources) if source.strip()]  # a tree for each of these
    for i in usual[:EXAMPLES] or [min(sizes, key=lambda i: sum(sizes[i]))]:
        tree = None if trees is None else [trees[grown.index(i)]]
        yield look(translator, sources[i], targets[i], tree, to)
