"""How text is cut, where toolkits leave it to other programs: a sentencepiece model, codes of subword-nmt, or none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dragoman.conversion.source_checkpoint import read_bytes
from dragoman.errors import ConversionError, TextError
from dragoman.text.imported.segmentation import encode_model
from dragoman.text.imported.subword_nmt import SubwordCodes
from dragoman.text.sentencepiece import open_model

NO_CUTS = (
    "Its text is taken as tokens that are separated by spaces, as it was trained: give --tokenizer with its "
    "sentencepiece model or its codes of subword-nmt, and plain text can be translated."
)


@dataclass(frozen=True)
class Cut:
    """A way to cut, and its model, as an imported tokenizer stores them; `file` is where it was read."""

    cut: str = "spaces"
    model: str = ""
    file: Path | None = None


def read_cut(file: Path | None) -> Cut:
    """The cut of a file that a person names; by spaces where there is none."""
    if file is None:
        return Cut()
    content = read_bytes(file)
    try:
        open_model(content)
        return Cut("sentencepiece", encode_model(content), file)
    except TextError:
        pass
    try:
        codes = content.decode("utf-8")
        SubwordCodes(codes)
    except (UnicodeDecodeError, TextError) as error:
        raise ConversionError(
            f"{file} is neither a sentencepiece model nor codes of subword-nmt ({error}); give the file that the text "
            "was cut with when the model was trained",
            code="not_a_tokenizer",
        ) from None
    return Cut("subword-nmt", codes, file)


def both_cuts(source: Path | None, target: Path | None) -> tuple[Cut, Cut]:
    """Those of both sides, of which the target's may be that of the source."""
    first = read_cut(source)
    return first, first if target is None else read_cut(target)


def notes_of(*cuts: Cut) -> list[str]:
    """What a person should know of them."""
    return [NO_CUTS] if any(cut.cut == "spaces" for cut in cuts) else []
