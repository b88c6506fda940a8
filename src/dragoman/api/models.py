"""Finished models: import, export, merge, average, quantize, verify."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.api.arguments import PathLike, Paths, as_path, as_paths, names_missing_extra
from dragoman.api.probes import add_probes_to_new
from dragoman.errors import ConversionError, TrainingError
from dragoman.files import check_new_directory
from dragoman.values import describe_value

if TYPE_CHECKING:
    from dragoman.modeldir.quantized_model import QuantizedModel
    from dragoman.translation.probes import VerificationReport


@dataclass(frozen=True)
class ImportResult:
    """A converted model: its directory, the toolkit that trained it, and what the user should know."""

    path: Path
    toolkit: str
    notes: Sequence[str]


@dataclass(frozen=True)
class ExportResult:
    """An exported model: its directory, its format, and the number of sentences that verified it."""

    path: Path
    to: str
    probes: int


@dataclass(frozen=True)
class AverageResult:
    """An averaged model: its directory, and the names of the checkpoints or models that were averaged."""

    path: Path
    parts: Sequence[str]


@names_missing_extra
def import_model(
    path: PathLike,
    *,
    out: PathLike,
    tokenizer: PathLike | None = None,
    target_tokenizer: PathLike | None = None,
    vocabulary: PathLike | None = None,
    one_target: bool = False,
) -> ImportResult:
    """Convert a model of Opus-MT, Marian, fairseq or JoeyNMT to the model directory `out`.

    `path` may be a name on the Hugging Face Hub, such as "hf:Helsinki-NLP/opus-mt-en-de", which is downloaded first.
    `tokenizer` (and `target_tokenizer`, if the target has its own) is the subword model of the text, if `path` does not
    contain it; `vocabulary` the directory of the vocabularies of fairseq or Marian. With `one_target`, tokens such as
    >>fra<< of an Opus-MT model do not select target languages.
    """
    from dragoman.conversion.detect import read_source_model
    from dragoman.conversion.hub import download_model, is_hub_name
    from dragoman.conversion.imported_model import ImportOptions

    out = as_path("out", out)
    check_new_directory(out)
    if target_tokenizer is not None and tokenizer is None:
        raise ConversionError(
            "`target_tokenizer` requires `tokenizer`, the tokenizer of the source; give both",
            code="missing_option",
        )
    files = [None if path is None else Path(path) for path in (tokenizer, target_tokenizer, vocabulary)]
    options = ImportOptions(files[0], files[1], files[2], one_target)
    directory = download_model(str(path)) if is_hub_name(str(path)) else Path(path)
    found = read_source_model(directory, options)
    found.write(out)
    add_probes_to_new(out)
    return ImportResult(out, found.toolkit, tuple(found.notes))


@names_missing_extra
def export_model(model: PathLike, *, to: str, out: PathLike, verify: bool = True) -> ExportResult:
    """Write a model for another toolkit to the directory `out`: `to` is "ctranslate2", "huggingface" or "onnx".

    The export is verified by translating probe sentences in that toolkit's engine, unless `verify` is false. What the
    format cannot express is an error, and nothing is written.
    """
    from dragoman.conversion.exports.export import export

    out = as_path("out", out)
    return ExportResult(out, to, export(model, to, out, verify=verify))


def merge(base: PathLike, adapter: PathLike, *, out: PathLike) -> Path:
    """Write the model `base` with an adapter, trained with train.lora, merged into its weights to `out`."""
    from dragoman.modeldir.merge import merge_model

    out = as_path("out", out)
    merge_model(base, adapter, out)
    add_probes_to_new(out, Path(base))
    return out


@names_missing_extra
def average(models: Paths, *, out: PathLike, last: int | None = None, checkpoints: Sequence[int] = ()) -> AverageResult:
    """Average weights into the model directory `out` (section 6.1 of the paper).

    `models` is the directory of a training run, whose `last` checkpoints (by default as many as its recipe says), or
    those of the steps `checkpoints`, are averaged; or two or more finished models with the same sizes and vocabulary.
    """
    from dragoman.modeldir.locate import find_directory
    from dragoman.training.checkpoints.averaging import load_parts, write_average

    directories = [find_directory(path) for path in as_paths(models)]
    if last is not None and not isinstance(last, int):
        raise TrainingError(f"last must be a number of checkpoints; got {describe_value(last)}", code="wrong_type")
    if checkpoints and last is not None:
        raise TrainingError("`last` and `checkpoints` cannot be combined; give one of them", code="conflicting_options")
    if len(directories) > 1 and (checkpoints or last is not None):
        raise TrainingError(
            f"`last` and `checkpoints` choose checkpoints of one run, but there are "
            f"{len(directories)} directories; give one",
            code="conflicting_options",
        )
    out = as_path("out", out)
    check_new_directory(out)
    parts = load_parts(directories, last, checkpoints)
    write_average(parts, out)
    add_probes_to_new(out, directories[0])
    return AverageResult(out, tuple(part.name for part in parts))


def quantize(model: PathLike, *, out: PathLike) -> QuantizedModel:
    """Write a copy of a model to the directory `out` with its weights in int8, in files of at most 8 MB."""
    from dragoman.modeldir.locate import find_model
    from dragoman.modeldir.quantized_model import quantize_model

    out = as_path("out", out)
    check_new_directory(out)
    directory = find_model(model)
    result = quantize_model(directory, out)
    add_probes_to_new(out, directory)
    return result


def verify(model: PathLike) -> VerificationReport:
    """Verify the files of a model, and compare each engine with the stored translations of its probe sentences."""
    from dragoman.modeldir.locate import find_model
    from dragoman.translation.probes import verify_probes

    return verify_probes(find_model(model))
