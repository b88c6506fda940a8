"""Subword models of toolkits that leave it to other programs: sentencepiece, subword-nmt codes, or none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dragoman.conversion.source_checkpoint import read_bytes
from dragoman.errors import ConversionError, TextError
from dragoman.text.imported.segmentation import encode_model
from dragoman.text.imported.subword_nmt import SubwordCodes
from dragoman.text.sentencepiece import open_model

PRETOKENIZED_NOTE = (
    "The text must come as tokens separated by spaces, as in training. To translate plain text, give --tokenizer with "
    "its sentencepiece model or its subword-nmt codes."
)


@dataclass(frozen=True)
class SubwordModel:
    """A kind of segmentation and its model, as an imported tokenizer stores them; `file` is where it was read."""

    kind: str = "spaces"
    model: str = ""
    file: Path | None = None


def read_subword_model(file: Path | None) -> SubwordModel:
    """The subword model in a file; without a file, tokens are separated by spaces."""
    if file is None:
        return SubwordModel()
    content = read_bytes(file)
    try:
        open_model(content)
        return SubwordModel("sentencepiece", encode_model(content), file)
    except TextError:
        pass
    try:
        codes = content.decode("utf-8")
        SubwordCodes(codes)
    except (UnicodeDecodeError, TextError) as error:
        raise ConversionError(
            f"{file} is neither a sentencepiece model nor codes of subword-nmt ({error}); give the file that the "
            "text was tokenized with in training",
            code="not_a_tokenizer",
        ) from None
    return SubwordModel("subword-nmt", codes, file)


def read_subword_models(source: Path | None, target: Path | None) -> tuple[SubwordModel, SubwordModel]:
    """The subword models of both sides; by default the target has that of the source."""
    first = read_subword_model(source)
    return first, first if target is None else read_subword_model(target)


def tokenization_notes(*models: SubwordModel) -> list[str]:
    """Notes for users of these subword models."""
    return [PRETOKENIZED_NOTE] if any(model.kind == "spaces" for model in models) else []
