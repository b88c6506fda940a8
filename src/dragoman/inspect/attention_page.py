"""One self-contained HTML file in which a person explores what every head looked at."""

from __future__ import annotations

import base64
import json
from importlib.resources import files
from typing import Any

import numpy as np

from dragoman.errors import SearchError
from dragoman.inspect.attention_maps import Kind, Looked, Weights
from dragoman.text.word_groups import Side

FULL = 65535  # weights travel as 16-bit numbers
MOST = 24_000_000  # weights in one page, which then has 64 MB
LONGEST = 900  # rows or columns of a map: browsers draw no larger canvas


def page(looked: Looked, words: bool = False) -> str:
    """The page; nothing in it asks for another file or for the network, and a browser is told to refuse it.

    With `words`, it holds the weights between words alone, and not those between tokens.
    """
    if words:
        looked = looked.in_words()
    check_size(looked)
    web = files("dragoman.inspect") / "web"
    parts = {name: (web / name).read_text(encoding="utf-8") for name in ("attention.html", "attention.css")}
    script = "\n".join((web / name).read_text(encoding="utf-8") for name in ("attention.js", "overview.js"))
    text = parts["attention.html"].replace("/*STYLE*/", parts["attention.css"]).replace("/*SCRIPT*/", script)
    # No "<" inside the data, so that no text can end the element that holds it.
    held = json.dumps(data(looked, words), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return text.replace("/*DATA*/", held)


def check_size(looked: Looked) -> None:
    """Refuse what a browser would not draw, or not in any useful time."""
    total = sum(weights.size for weights in looked.maps.values())
    longest = max(max(weights.shape[2:]) for weights in looked.maps.values())
    if longest > LONGEST:
        raise SearchError(
            f"a page shows texts of up to {LONGEST:,} tokens; these have {longest:,}. Give shorter texts, such as a "
            "sentence at a time, or --words, which joins the tokens of a word"
        )
    if total > MOST:
        raise SearchError(
            f"a page holds up to {MOST:,} weights; between these {longest:,} tokens, all that was asked for has "
            f"{total:,}. Ask for less of it: --kind, --layer, --head or --words; or give shorter texts"
        )


def data(looked: Looked, words: bool = False) -> dict[str, Any]:
    """All that the page knows."""
    return {
        "source": {**side(looked.source), "text": looked.source_text},
        "target": looked.target_text,
        "read": side(looked.read),
        "written": side(looked.written),
        "first": {"layer": looked.first[0], "head": looked.first[1]},
        "joined": words,
        "kinds": {kind: packed(weights) for kind, weights in looked.maps.items()},
    }


def side(of: Side) -> dict[str, Any]:
    """Tokens, and the words that they make."""
    return {
        "tokens": list(of.tokens),
        "special": [i for word in of.words if word.special for i in word.tokens],
        "words": [{"label": w.label, "tokens": list(w.tokens), "special": w.special} for w in of.words],
    }


def packed(weights: Weights) -> dict[str, Any]:
    """Weights as text, 16 bits each, in base64."""
    layers, heads, rows, columns = weights.shape
    numbers = np.rint(np.clip(weights, 0, 1) * FULL).astype("<u2").tobytes()
    shape = {"layers": layers, "heads": heads, "rows": rows, "columns": columns}
    return {**shape, "weights": base64.b64encode(numbers).decode("ascii")}


def unpacked(entry: dict[str, Any]) -> Weights:
    """The inverse of `packed`, to within half a step of 1/65535."""
    numbers = np.frombuffer(base64.b64decode(entry["weights"]), "<u2").astype(np.float32) / np.float32(FULL)
    whole: Weights = numbers.reshape(*(entry[name] for name in ("layers", "heads", "rows", "columns")))
    return whole


def read_page(text: str) -> dict[Kind, Weights]:
    """The weights in a page that `page` made, for other programs that want them."""
    begun = text.index('id="data">') + len('id="data">')
    entry = json.loads(text[begun : text.index("</script>", begun)])
    return {kind: unpacked(map_) for kind, map_ in entry["kinds"].items()}
