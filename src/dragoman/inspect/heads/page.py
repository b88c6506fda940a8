"""A self-contained HTML page with every head of a survey, and their attention in some example pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dragoman.inspect.attention.maps import SentenceAttention, record_attention
from dragoman.inspect.attention.page import page_data, render_page
from dragoman.inspect.heads.picture import describe_importance
from dragoman.inspect.heads.survey import HeadSurvey, encode_survey_pairs
from dragoman.text.trees.dependency import Tree
from dragoman.translation.translator import Translator

N_EXAMPLES: Final = 4
EXAMPLE_SOURCE_TOKENS: Final = range(6, 31)
MAX_EXAMPLE_TARGET_TOKENS: Final = 60


def heads_page(
    survey: HeadSurvey,
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    trees: Sequence[Tree] | None = None,
    to: str | None = None,
    title: str = "Heads",
) -> str:
    """The page as HTML; it loads nothing, and its content security policy forbids loading."""
    examples = [page_data(attention) for attention in example_attention(translator, sources, targets, trees, to)]
    data = {"title": title, "measure": describe_importance(survey), **survey.to_dict(), "examples": examples}
    return render_page("heads.html", ("attention.css", "heads.css"), ("heads.js",), data)


def example_attention(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], trees: Sequence[Tree] | None, to: str | None
) -> Iterator[SentenceAttention]:
    """The attention of the first few pairs of typical length, or else of the shortest surveyed pair."""
    pairs, kept = encode_survey_pairs(translator, sources, targets, trees, to)
    sizes = {
        i: (len(source) - translator.n_language_tokens, len(target))
        for i, (source, target) in zip(kept, pairs, strict=True)
    }
    typical = [
        i
        for i, (source, target) in sizes.items()
        if source in EXAMPLE_SOURCE_TOKENS and target <= MAX_EXAMPLE_TARGET_TOKENS
    ]
    with_tree = [i for i, source in enumerate(sources) if source.strip()]  # each of these has a tree
    for i in typical[:N_EXAMPLES] or [min(sizes, key=lambda i: sum(sizes[i]))]:
        tree = None if trees is None else [trees[with_tree.index(i)]]
        yield record_attention(translator, sources[i], targets[i], tree, to)
