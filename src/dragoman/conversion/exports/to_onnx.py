"""Export to ONNX: the encoder, a decoder step with caches, the tokenizers, and a script that translates with them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from dragoman.conversion.exports import onnx_translate
from dragoman.conversion.exports.exported_model import ExportedModel, unsupported
from dragoman.conversion.exports.onnx_graph import GraphBuilder, decoder_graph, encoder_graph
from dragoman.conversion.exports.sentencepiece_files import vocabulary_json
from dragoman.conversion.exports.to_huggingface import write_json
from dragoman.engines.base import unusual_part
from dragoman.errors import MissingExtraError
from dragoman.modeldir.layout import CARD

TOOLKIT: Final = "the ONNX export"
EXTRA: Final = "onnx"
MAX_SINGLE_FILE: Final = 1 << 30  # a Protocol Buffer has at most 2 GiB


def write_onnx(model: ExportedModel, out: Path) -> None:
    """Write the files of an ONNX export into the directory `out`."""
    if part := unusual_part(model.model, ("sinusoidal", "learned", "none")):
        raise unsupported(TOOLKIT, part)
    if find_spec("onnx") is None:
        raise MissingExtraError("onnx", EXTRA, "exporting to ONNX")
    save(encoder_graph(model.model, model.weights), out, "encoder")
    save(decoder_graph(model.model, model.weights), out, "decoder")
    for side, content, names in zip(("source", "target"), model.tokenizers.models, model.tokenizers.names, strict=True):
        (out / f"{side}.spm").write_bytes(content)
        write_json(out / f"{side}_vocab.json", vocabulary_json(names))
    shutil.copyfile(onnx_translate.__file__, out / "translate.py")
    (out / CARD).write_text(model.card, encoding="utf-8")


def save(graph: GraphBuilder, out: Path, name: str) -> None:
    """Check and write a graph; the weights of a large one go to a separate file."""
    import onnx

    model: Any = graph.finish(name)
    path = out / f"{name}.onnx"
    if graph.bytes > MAX_SINGLE_FILE:
        onnx.save_model(model, path, save_as_external_data=True, location=f"{name}.weights")
    else:
        onnx.save_model(model, path)
    onnx.checker.check_model(str(path))


def translate_onnx(directory: Path, texts: Sequence[str], max_length: int) -> list[str]:
    """Translate with onnxruntime, greedily and in float32."""
    if find_spec("onnxruntime") is None:
        raise MissingExtraError("onnxruntime", EXTRA, "verifying an export to ONNX")
    translator = onnx_translate.OnnxTranslator(directory)
    found: list[str] = []
    for start in range(0, len(texts), 32):
        found += translator.translate(texts[start : start + 32], max_length)
    return found
