"""Write a copy of a model with its weights in int8."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dragoman.config import Recipe
from dragoman.errors import DragomanError
from dragoman.modeldir.info import read_info
from dragoman.modeldir.int8 import MAX_FILE_BYTES, quantize_weights
from dragoman.modeldir.layout import CARD, RECIPE, load_tokenizers, verify_model
from dragoman.modeldir.save import save_model
from dragoman.modeldir.weights import Weights, read_weights, weight_files, weights_sha256

SECTION: Final = """
## Weights

Stored in int8 with a scale per row; rounded from the float32 weights whose SHA-256 begins with
`{digest}`.
"""


@dataclass(frozen=True)
class QuantizedModel:
    """A model in int8: its directory, and the bytes of its weights before and after."""

    path: Path
    bytes_before: int
    bytes_after: int


def quantize_model(directory: Path, out: Path, max_file_bytes: int = MAX_FILE_BYTES) -> QuantizedModel:
    """Write the translation model of a directory to `out`, with matrices in int8 and no file over `max_file_bytes`."""
    verify_model(directory)
    weights = float_weights(directory)
    card = (directory / CARD).read_text(encoding="utf-8", errors="replace") if (directory / CARD).is_file() else ""
    save_model(
        out,
        recipe=Recipe.load(directory / RECIPE),
        info=read_info(directory),
        weights=quantize_weights(weights),
        tokenizers=load_tokenizers(directory),
        card=card.rstrip() + "\n" + SECTION.format(digest=weights_sha256(directory)[:16]),
        max_file_bytes=max_file_bytes,
    )
    sizes = [sum(path.stat().st_size for path in weight_files(place)) for place in (directory, out)]
    return QuantizedModel(out, *sizes)


def float_weights(directory: Path) -> Weights:
    """The weights of a model that is not quantized yet."""
    weights = read_weights(directory)
    if weights is None:
        message = f"the weights of {directory} are not float32; quantize a model that Dragoman trained or imported"
        raise DragomanError(message, code="unsupported_precision")
    if weights.int8:
        raise DragomanError(
            f"the weights of {directory} are in int8 already; quantize the float32 model that it was made of",
            code="already_quantized",
        )
    return weights
