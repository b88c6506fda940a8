"""Read the weights back from a page of attention."""

from __future__ import annotations

import base64
import json
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
