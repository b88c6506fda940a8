"""Read the weights back from a page of attention, and check that a page needs no network."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import numpy as np


def unpack_weights(entry: dict[str, Any]) -> Any:
    """The weights of one kind, to within half a step of 1/65535."""
    numbers = np.frombuffer(base64.b64decode(entry["weights"]), "<u2").astype(np.float32) / np.float32(65535)
    return numbers.reshape(*(entry[name] for name in ("layers", "heads", "queries", "keys")))


def read_attention_page(text: str) -> dict[str, Any]:
    """The weights of each kind in a page."""
    start = text.index('id="data">') + len('id="data">')
    data = json.loads(text[start : text.index("</script>", start)])
    return {kind: unpack_weights(entry) for kind, entry in data["kinds"].items()}


def assert_offline(text: str) -> None:
    """A page has no reference to the network."""
    assert "default-src 'none'" in text
    addresses = set(re.findall(r"\b(?:https?|wss?|ftp):[^\s\"'`]*", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # the name of SVG elements, which is never fetched
    for way in ("fetch(", "XMLHttpRequest", "WebSocket", "sendBeacon", "import(", "@import", "url(", " src=", "<link"):
        assert way not in text
