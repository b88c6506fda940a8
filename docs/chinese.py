"""Sphinx extension for the pages in docs/zh: search in Chinese, line breaks, and the language of the page."""

from __future__ import annotations

import re
from typing import Any

PAGES = "docs/zh/"
HAN = r"\u3400-\u9fff"
PUNCTUATION = r"\u3001-\u3011\uff01-\uff5e\u201c\u201d"

# `var`, because searchtools.js declares the same name; both must split as `search_words` does.
SPLIT_QUERY = rf"""
var splitQuery = (query) =>
  query
    .split(/[^\p{{L}}\p{{N}}_]+/u)
    .flatMap((word) => word.match(/[{HAN}]+|[^{HAN}]+/g) || [])
    .flatMap((run) =>
      run.length > 1 && /[{HAN}]/.test(run)
        ? Array.from({{ length: run.length - 1 }}, (_, i) => run.slice(i, i + 2))
        : [run]);
"""


def search_words(text: str) -> list[str]:
    """The words of `text`; of Chinese, which has no spaces, each two neighboring characters."""
    words = []
    for run in re.findall(rf"[{HAN}]+|[^\W{HAN}]+", text):
        chinese = len(run) > 1 and re.match(rf"[{HAN}]", run)
        words += [run[i : i + 2] for i in range(len(run) - 1)] if chinese else [run]
    return words


def join_lines(text: str) -> str:
    """Remove line breaks that browsers would show as a space: within Chinese, and after its punctuation."""
    within = rf"(?<=[{HAN}{PUNCTUATION}])\n *(?=[{HAN}{PUNCTUATION}])"
    after = rf"(?<=[{PUNCTUATION}])\n *(?=[A-Za-z\[]|\*\w|`\w)"
    return re.sub(f"{within}|{after}", "", text)


def read_source(app: Any, page: str, source: list[str]) -> None:
    """Join the lines of a Chinese page when Sphinx reads it."""
    if page.startswith(PAGES):
        source[0] = join_lines(source[0])


def set_language(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Declare the language of a Chinese page, by which browsers choose fonts."""
    if page.startswith(PAGES):
        context["language"] = "zh-CN"


def setup(app: Any) -> dict[str, bool]:
    """Register the extension."""
    from sphinx.search.en import SearchEnglish

    class SearchEnglishAndChinese(SearchEnglish):
        js_splitter_code = SPLIT_QUERY

        def split(self, input: str) -> list[str]:  # noqa: A002
            return search_words(input)

    app.add_search_language(SearchEnglishAndChinese)
    app.connect("source-read", read_source)
    app.connect("html-page-context", set_language)
    return {"parallel_read_safe": True}
