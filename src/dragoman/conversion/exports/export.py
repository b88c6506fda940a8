"""Export a model to another toolkit, and verify it there by translating probe sentences."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dragoman.conversion.exports import to_ctranslate2, to_huggingface, to_onnx
from dragoman.conversion.exports.exported_model import ExportedModel, read_exported, unsupported
from dragoman.engines.base import unusual_part
from dragoman.errors import ConversionError
from dragoman.files import check_new_directory, staged
from dragoman.modeldir.locate import find_model, read_recipe
from dragoman.text import Tokenizer
from dragoman.text.normalization import SPACELESS, normalize
from dragoman.text.special_tokens import N_SPECIAL
from dragoman.translation.translator import Translator
from dragoman.values import suggest

PROBES: Final = 8
PROBE_TOKENS: Final = range(1, 13)
PROBE_LENGTH: Final = 40  # tokens of a translation; a random sentence may have no end
STANDARD_POSITIONS: Final = ("sinusoidal", "learned", "relative", "none")  # those of `tensor_layout`


@dataclass(frozen=True)
class ExportFormat:
    """A format: what writes it, and what translates with it to verify it."""

    write: Callable[[ExportedModel, Path], None]
    translate: Callable[[Path, Sequence[str], int], list[str]]


FORMATS: Final = {
    "ctranslate2": ExportFormat(to_ctranslate2.write_ctranslate2, to_ctranslate2.translate_ctranslate2),
    "huggingface": ExportFormat(to_huggingface.write_huggingface, to_huggingface.translate_huggingface),
    "onnx": ExportFormat(to_onnx.write_onnx, to_onnx.translate_onnx),
}


def export(model: str | Path, to: str, out: Path, *, verify: bool = True) -> int:
    """Write `model` to the new directory `out` in a format; return the number of probes that were compared."""
    if to not in FORMATS:
        raise ConversionError(f"unknown format {to!r}{suggest(str(to), FORMATS)}", code="unknown_choice")
    check_new_directory(out)
    directory = find_model(model)
    if part := unusual_part(read_recipe(directory).model, STANDARD_POSITIONS):
        raise unsupported(to, part)
    content, chosen = read_exported(directory), FORMATS[to]
    with staged(out) as staging:
        chosen.write(content, staging)
        for file in staging.iterdir():  # safetensors writes files that only their owner can read
            file.chmod(0o644)
        return verify_export(content, staging, to, chosen) if verify else 0


def verify_export(model: ExportedModel, exported: Path, to: str, chosen: ExportFormat) -> int:
    """Translate probe sentences here and there, greedily and in float32; raise unless all translations are equal."""
    translator = Translator.load(model.directory, engine="torch", device="cpu", precision="float32")
    texts = probe_texts(translator.source, model.tokenizers.begins_with_space)
    language = translator.targets[0] if translator.targets else None
    expected = translator.translate(texts, beam=1, max_length=PROBE_LENGTH, split="never", to=language)
    marked = [text if language is None else f">>{language}<< {text}" for text in texts]
    for text, ours, theirs in zip(texts, expected, chosen.translate(exported, marked, PROBE_LENGTH), strict=True):
        if comparable(ours.text) != comparable(theirs):
            raise ConversionError(
                f"the exported model translates differently: {text!r} is {theirs!r} in {to} and {ours.text!r} here; "
                "nothing was written; please report it with the versions of both",
                code="export_mismatch",
            )
    return len(texts)


def comparable(text: str) -> str:
    """A translation without what toolkits write differently: unknown tokens, bytes that are not UTF-8, controls."""
    return normalize(text.replace("\N{REPLACEMENT CHARACTER}", ""))


def probe_texts(tokenizer: Tokenizer, begins_with_space: bool) -> list[str]:
    """Sentences of random tokens, the same for the same vocabulary; their first words are of the source's script."""
    draw = random.Random(1)
    written = [i for i, width in enumerate(tokenizer.widths) if i >= N_SPECIAL and width > 1]
    found: list[str] = []
    for _ in range(100 * PROBES):
        text = normalize(tokenizer.decode([draw.choice(written) for _ in range(draw.choice(PROBE_TOKENS))]))
        if text and (SPACELESS.match(text) is None) == begins_with_space and len(found) < PROBES:
            found.append(text)
    return found
