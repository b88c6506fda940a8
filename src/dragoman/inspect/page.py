"""One self-contained HTML file in which a person explores what every head looked at."""

from __future__ import annotations

import base64
import json
from importlib.resources import files
from typing import Any

import numpy as np

from dragoman.inspect.looking import Kind, Looked, Side, Weights

FULL = 65535  # weights travel as 16-bit numbers


def page(looked: Looked, layer: int | None = None) -> str:
    """The page; nothing in it asks for another file or for the network, and a browser is told to refuse it."""
    web = files("dragoman.inspect") / "web"
    parts = {name: (web / name).read_text(encoding="utf-8") for name in ("attention.html", "attention.css")}
    script = "\n".join((web / name).read_text(encoding="utf-8") for name in ("attention.js", "overview.js"))
    text = parts["attention.html"].replace("/*STYLE*/", parts["attention.css"]).replace("/*SCRIPT*/", script)
    # No "<" inside the data, so that no text can end the element that holds it.
    words = json.dumps(data(looked, layer), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return text.replace("/*DATA*/", words)


def data(looked: Looked, layer: int | None = None) -> dict[str, Any]:
    """All that the page knows; `layer`, counted from 1, is the one it opens with."""
    last = looked.maps["cross"].shape[0]
    return {
        "source": {**side(looked.source), "text": looked.source_text},
        "target": looked.target_text,
        "read": side(looked.read),
        "written": side(looked.written),
        "layer": (layer if layer is not None else last) - 1,
        "kinds": {kind: packed(weights) for kind, weights in looked.maps.items()},
    }


def side(of: Side) -> dict[str, Any]:
    """Pieces, and the words that they make."""
    return {
        "pieces": list(of.pieces),
        "marks": [i for word in of.words if word.mark for i in word.pieces],
        "words": [{"label": w.label, "pieces": list(w.pieces), "mark": w.mark} for w in of.words],
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
