"""Export to CTranslate2: its model, and the sentencepiece models of the text."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from dragoman.conversion.exports.exported_model import ExportedModel, unsupported
from dragoman.engines.ctranslate2_conversion import to_ctranslate2, unsupported_by_ctranslate2
from dragoman.errors import MissingExtraError
from dragoman.modeldir.layout import CARD, RECIPE

TOOLKIT: Final = "CTranslate2"
EXTRA: Final = "ctranslate2"


def write_ctranslate2(model: ExportedModel, out: Path) -> None:
    """Write the files of a CTranslate2 model into the directory `out`."""
    if part := unsupported_by_ctranslate2(model.model):
        raise unsupported(TOOLKIT, part)
    inner = out / "model"
    to_ctranslate2(model.directory, inner, tokens=model.tokenizers.names)
    (inner / RECIPE).unlink()  # for the engine's cache only
    for file in inner.iterdir():
        shutil.move(file, out / file.name)
    inner.rmdir()
    for side, content in zip(("source", "target"), model.tokenizers.models, strict=True):
        (out / f"{side}.spm").write_bytes(content)
    (out / CARD).write_text(model.card, encoding="utf-8")


def translate_ctranslate2(directory: Path, texts: Sequence[str], max_length: int) -> list[str]:
    """Translate with CTranslate2, greedily and in float32."""
    try:
        import ctranslate2
    except ImportError:
        raise MissingExtraError("ctranslate2", EXTRA, "verifying an export to CTranslate2") from None
    from sentencepiece import SentencePieceProcessor

    source, target = (SentencePieceProcessor(str(directory / f"{side}.spm")) for side in ("source", "target"))
    translator: Any = ctranslate2.Translator(str(directory), device="cpu", compute_type="float32")
    results = translator.translate_batch(
        [encode_tokens(source, text) for text in texts],
        beam_size=1,
        max_decoding_length=max_length,
        min_decoding_length=0,  # 1 by default
        max_batch_size=32,
        suppress_sequences=[["<pad>"], ["<s>"]],
    )
    return [target.decode([token for token in result.hypotheses[0] if token != "<unk>"]).strip() for result in results]


def encode_tokens(processor: Any, text: str) -> list[str]:
    """The tokens of a text, which may begin with the token of a target language, such as `>>de<<`."""
    code, found, rest = text.partition("<<")
    if not (found and code.startswith(">>")):
        return list(processor.encode(text, out_type=str))
    return [code + found, *processor.encode(rest, out_type=str)]
