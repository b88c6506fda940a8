"""A self-contained HTML page to explore the attention of every head."""

from __future__ import annotations

import base64
import json
from importlib.resources import files
from typing import Any, Final

import numpy as np

from dragoman.errors import SearchError
from dragoman.inspect.attention.maps import AttentionWeights, SentenceAttention
from dragoman.text.word_groups import Side

MAX_UINT16: Final = 65535  # weights are stored as 16-bit numbers
MAX_PAGE_WEIGHTS: Final = 24_000_000  # a page of 64 MB at most
MAX_PAGE_TOKENS: Final = 900  # queries or keys of a map: browsers draw no larger canvas


def attention_page(attention: SentenceAttention, words: bool = False) -> str:
    """The page as HTML; it loads nothing, and its content security policy forbids loading.

    With `words`, it contains only the weights between words.
    """
    if words:
        attention = attention.pool_words()
    check_page_size(attention)
    return render_page(
        "attention.html", ("attention.css",), ("attention.js", "overview.js"), page_data(attention, words)
    )


def render_page(template: str, styles: tuple[str, ...], scripts: tuple[str, ...], data: dict[str, Any]) -> str:
    """Put styles, scripts and data into an HTML template of `web/`."""
    web = files("dragoman.inspect") / "web"

    def read(*names: str) -> str:
        return "\n".join((web / name).read_text(encoding="utf-8") for name in names)

    text = read(template).replace("/*STYLE*/", read(*styles)).replace("/*SCRIPT*/", read(*scripts))
    # Escape "<", so that no text can close the element that holds the data.
    return text.replace("/*DATA*/", json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"))


def check_page_size(attention: SentenceAttention) -> None:
    """Reject pages that a browser cannot draw in reasonable time."""
    total = sum(weights.size for weights in attention.maps.values())
    longest = max(max(weights.shape[2:]) for weights in attention.maps.values())
    if longest > MAX_PAGE_TOKENS:
        raise SearchError(
            f"a page shows texts of up to {MAX_PAGE_TOKENS:,} tokens; these have {longest:,}. Give shorter texts, such "
            "as one sentence at a time, or --words, which merges the tokens of a word",
            code="too_large",
        )
    if total > MAX_PAGE_WEIGHTS:
        raise SearchError(
            f"a page holds up to {MAX_PAGE_WEIGHTS:,} weights; texts of {longest:,} tokens have {total:,}. "
            "Select a part with --kind, --layer, --head or --words, or give shorter texts",
            code="too_large",
        )


def page_data(attention: SentenceAttention, words: bool = False) -> dict[str, Any]:
    """The data of the page."""
    return {
        "source": {**side_data(attention.source), "text": attention.source_text},
        "target": attention.target_text,
        "target_input": side_data(attention.target_input),
        "target_output": side_data(attention.target_output),
        "first": {"layer": attention.first[0], "head": attention.first[1]},
        "words_only": words,
        "kinds": {kind: pack_weights(weights) for kind, weights in attention.maps.items()},
    }


def side_data(side: Side) -> dict[str, Any]:
    """Tokens, and the words that they form."""
    return {
        "tokens": list(side.tokens),
        "special": [i for word in side.words if word.special for i in word.tokens],
        "words": [{"label": w.label, "tokens": list(w.tokens), "special": w.special} for w in side.words],
    }


def pack_weights(weights: AttentionWeights) -> dict[str, Any]:
    """Weights as 16-bit numbers in base64."""
    layers, heads, queries, keys = weights.shape
    numbers = np.rint(np.clip(weights, 0, 1) * MAX_UINT16).astype("<u2").tobytes()
    shape = {"layers": layers, "heads": heads, "queries": queries, "keys": keys}
    return {**shape, "weights": base64.b64encode(numbers).decode("ascii")}
