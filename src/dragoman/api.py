"""The Python API for whole tasks, which the command line calls too: prepare, train, plan, finish, evaluate...

    result = dragoman.train(source="train.en", target="train.de", out="my-model")
    print(result.metrics["bleu"], [entry["loss"] for entry in result.curve if "loss" in entry])

Progress goes to stderr, with live bars in a terminal or notebook; `reporter=dragoman.SilentReporter()` hides it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from dragoman.config import Recipe, load_recipe, toml_value
from dragoman.data.corpora.corpus import Corpus, ValidationSets, all_corpora, validation_corpora
from dragoman.errors import ConversionError, DataError, DragomanWarning, SearchError, TrainingError, missing_extra
from dragoman.evaluation.metrics import METRICS
from dragoman.files import check_new_directory
from dragoman.progress import ConsoleReporter, Reporter, SilentReporter
from dragoman.search.types import Mean, Search
from dragoman.training.reporting.metrics import TrainingResult
from dragoman.values import describe_value

if TYPE_CHECKING:
    import torch

    from dragoman.data.prepared import Prepared
    from dragoman.distillation.selection import SelectionReport
    from dragoman.distillation.student import Comparison
    from dragoman.evaluation.report import EvaluationReport
    from dragoman.evaluation.systems import System
    from dragoman.evaluation.validation import Validation
    from dragoman.modeldir.quantized_model import QuantizedModel
    from dragoman.training.distributed.ranks import Ranks
    from dragoman.training.session import PlannedRun, TrainingSession
    from dragoman.translation.probes import VerificationReport

PathLike = str | Path
Paths = PathLike | Sequence[PathLike]
Changes = Mapping[str, object] | Sequence[str]
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _names_missing_extra(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Turn a failed import of a package of an extra into the error that names the pip line."""

    @wraps(function)
    def wrapped(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
        try:
            return function(*args, **options)
        except ModuleNotFoundError as error:
            raise missing_extra(error, f"`{function.__name__}`") or error from None

    return wrapped


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


@dataclass(frozen=True)
class DistillationResult:
    """A student: its directory, its copy in int8, what was dropped, and the BLEU of both."""

    path: Path
    int8_path: Path
    selection: SelectionReport
    comparison: Comparison


@_names_missing_extra
def prepare(
    *,
    out: PathLike,
    source: Paths = (),
    target: Paths = (),
    corpora: Sequence[Corpus] = (),
    valid: ValidationSets = None,
    recipe: Recipe | PathLike = "base",
    changes: Changes = (),
    tokenizers: PathLike | None = None,
    processes: int | None = None,
    overwrite: bool = False,
    reporter: Reporter | None = None,
) -> Prepared:
    """Clean sentence pairs, learn the tokenizers, and write the pairs as token ids to the directory `out`.

    Plain text is given by `source` and `target`, a file or several for each side; other formats, weights, trees and
    target languages by `corpora`. Without `valid`, pairs are held out. Nothing is done if `out` already has these data
    (see `Prepared.reused`); data of other inputs are replaced only with `overwrite`.
    """
    from dragoman.data.prepare.pipeline import prepare_corpora

    reporter = reporter or ConsoleReporter()
    try:
        return prepare_corpora(
            all_corpora(_paths(source), _paths(target), corpora),
            load_recipe(recipe, _changes(changes)),
            out,
            valid=validation_corpora(valid),
            tokenizers=None if tokenizers is None else Path(tokenizers),
            anew=overwrite,
            processes=processes,
            reporter=reporter,
        )
    finally:
        reporter.close()


@_names_missing_extra
def train(
    *,
    out: PathLike,
    source: Paths = (),
    target: Paths = (),
    corpora: Sequence[Corpus] = (),
    valid: ValidationSets = None,
    recipe: Recipe | PathLike | None = None,
    changes: Changes = (),
    start_from: PathLike | None = None,
    minutes: float | None = None,
    device: str | None = None,
    tensorboard: bool = False,
    reporter: Reporter | None = None,
) -> TrainingResult:
    """Train a translator on sentence pairs and write it to the model directory `out`.

    Without `recipe`, sizes and schedule are chosen for the data and the machine; `changes`, such as {"train.steps":
    2000}, override them. `start_from` is a model to fine-tune. The data arguments are those of `prepare`. `minutes` is
    how long a new run may take on this machine; its length is chosen to fit.

    Call it again with the same arguments to resume where it stopped; a finished run is returned as it is, unless
    train.steps has grown. Ctrl-C and SIGTERM save first, and raise InterruptedTrainingError; `finish` then writes a
    model from the checkpoints.
    """
    from dragoman.modeldir.layout import TRAINING

    session = _training_session(
        out, source, target, corpora, valid, recipe, changes, start_from, minutes, device, tensorboard, reporter
    )
    final = session.train()
    if session.ranks.first:
        _store_probes(session.out)
    return TrainingResult.read(session.out / TRAINING, final)


@_names_missing_extra
def plan(
    *,
    out: PathLike,
    source: Paths = (),
    target: Paths = (),
    corpora: Sequence[Corpus] = (),
    valid: ValidationSets = None,
    recipe: Recipe | PathLike | None = None,
    changes: Changes = (),
    start_from: PathLike | None = None,
    minutes: float | None = None,
    device: str | None = None,
    reporter: Reporter | None = None,
) -> PlannedRun:
    """Plan what `train` would do with these arguments: sizes, steps, and estimates of time and memory.

    The data are prepared in `out`, where `train` finds them again.
    """
    return _training_session(
        out, source, target, corpora, valid, recipe, changes, start_from, minutes, device, False, reporter
    ).plan()


@_names_missing_extra
def finish(run: PathLike, *, device: str | None = None, reporter: Reporter | None = None) -> TrainingResult:
    """Write a model from the checkpoints of a stopped run in the directory `run`.

    Its weights are selected as at the end of a run. To continue training, call `train` with the same arguments.
    """
    from dragoman.modeldir.layout import TRAINING
    from dragoman.training.session import finish_session

    ranks = _ranks(device)
    final = finish_session(Path(run), _validator, ranks, reporter or ConsoleReporter())
    if ranks.first:
        _store_probes(Path(run))
    return TrainingResult.read(Path(run) / TRAINING, final)


def _training_session(
    out: PathLike,
    source: Paths,
    target: Paths,
    corpora: Sequence[Corpus],
    valid: ValidationSets,
    recipe: Recipe | PathLike | None,
    changes: Changes,
    start_from: PathLike | None,
    minutes: float | None,
    device: str | None,
    tensorboard: bool,
    reporter: Reporter | None,
) -> TrainingSession:
    """A session from the arguments of `train`."""
    from dragoman.modeldir.layout import TRAINING
    from dragoman.training.reporting.tensorboard import TensorBoardReporter
    from dragoman.training.session import TrainingSession

    pairs, valid_sets = all_corpora(_paths(source), _paths(target), corpora), validation_corpora(valid)
    ranks = _ranks(device)
    report: Reporter = (reporter or ConsoleReporter()) if ranks.first else SilentReporter()
    if tensorboard and ranks.first:
        report = TensorBoardReporter(Path(out) / TRAINING / "tensorboard", report)
    return TrainingSession(
        out=Path(out),
        corpora=pairs,
        valid=valid_sets,
        recipe=recipe,
        changes=_changes(changes),
        start_from=None if start_from is None else Path(start_from),
        minutes=minutes,
        ranks=ranks,
        reporter=report,
        make_validator=_validator,
    )


def _ranks(device: str | None) -> Ranks:
    import torch

    from dragoman.engines.select import check_device
    from dragoman.training.distributed.ranks import join

    return join(None if device is None else torch.device(check_device(device)))


def _validator(prepared: Prepared, recipe: Recipe, device: torch.device) -> Validation:
    from dragoman.evaluation.validation import Validation

    learned = recipe.model.positions == "learned"
    longest = recipe.model.max_positions - 1 if learned else None  # EOS needs a position too
    return Validation(prepared, recipe.data, device, max_length=longest)


@_names_missing_extra
def evaluate(
    model: PathLike | None = None,
    *,
    reference: Paths,
    source: Paths = (),
    source_trees: Paths = (),
    to: str | Sequence[str] = (),
    hypothesis: Paths = (),
    against: Paths = (),
    names: str | Sequence[str] = (),
    metrics: str | Sequence[str] = METRICS,
    tokenize: str | None = None,
    lowercase: bool = False,
    report: PathLike | None = None,
    beam: int = Search.beam,
    length_penalty: float = Search.length_penalty,
    ensemble: Paths = (),
    mean: Mean = "probabilities",
    adapter: PathLike | None = None,
    language: str | None = None,
    engine: str = "auto",
    device: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    batch: int | None = None,
    reporter: Reporter | None = None,
) -> EvaluationReport:
    """Translate test sets with a model and score them with sacreBLEU, or score the files of `hypothesis`.

    `reference` and `source` have a file for each test set. `against`, another model or a file for each test set, adds a
    paired bootstrap test. `adapter` was trained on `model` with train.lora. `report` is a directory to write the
    figures and translations to.
    """
    from dragoman.evaluation.metrics import make_metrics
    from dragoman.evaluation.report import EvaluationReport, prepare_directory
    from dragoman.evaluation.swapped_sets import swapped_sets_warning
    from dragoman.evaluation.systems import FileSystem, ModelSystem, check_models, score_systems
    from dragoman.evaluation.test_sets import read_test_sets
    from dragoman.modeldir.info import read_info

    hypotheses, others, trees, languages = _paths(hypothesis), _paths(against), _paths(source_trees), _texts(to)
    if (model is None) == (not hypotheses):
        raise DataError(
            "give either a model to translate with, or files of translations as `hypothesis`",
            code="conflicting_options",
        )
    sets = read_test_sets(_paths(reference), _paths(source), _texts(names), trees, languages)
    metrics = _texts(metrics)
    make_metrics(metrics, sets[0].references, tokenize)  # reject a wrong name before translating
    search = Search(beam=beam, length_penalty=length_penalty)
    settings: dict[str, Any] = {"language": language, "engine": engine, "device": device}
    settings |= {"precision": precision, "threads": threads, "batch": batch}
    systems: list[System] = [
        FileSystem(hypotheses, "hypothesis", sets)
        if model is None
        else ModelSystem(str(model), search, ensemble=_paths(ensemble), mean=mean, adapter=adapter, **settings)
    ]
    if others:
        is_model = len(others) == 1 and not others[0].is_file()
        systems.append(
            ModelSystem(str(others[0]), search, **settings) if is_model else FileSystem(others, "against", sets)
        )
    models = check_models(systems, sets, trees=bool(trees), languages=bool(languages))
    if models and (warning := swapped_sets_warning(sets, read_info(models[0].translator.engines.directory))):
        warnings.warn(warning, DragomanWarning, stacklevel=2)
    if report is not None:
        prepare_directory(Path(report))
    reporter = reporter or ConsoleReporter(transient=True)
    try:
        for each in models:
            reporter.note(f"{each.name}: {each.engine_info}")
        results = score_systems(systems, sets, metrics, tokenize, lowercase, reporter)
    finally:
        reporter.close()
    found = EvaluationReport(systems[0].describe(), results, systems[1].name if others else None)
    if report is not None:
        found.write(Path(report))
    return found


@_names_missing_extra
def import_model(
    path: PathLike,
    *,
    out: PathLike,
    tokenizer: PathLike | None = None,
    target_tokenizer: PathLike | None = None,
    vocabulary: PathLike | None = None,
    one_target: bool = False,
) -> ImportResult:
    """Convert a model of Opus-MT, fairseq or JoeyNMT to the model directory `out`.

    `path` may be a name on the Hugging Face Hub, such as "hf:Helsinki-NLP/opus-mt-en-de", which is downloaded first.
    `tokenizer` (and `target_tokenizer`, if the target has its own) is the subword model of the text, if `path` does not
    contain it; `vocabulary` the directory with fairseq's dict.xx.txt. With `one_target`, tokens such as >>fra<< of an
    Opus-MT model do not select target languages.
    """
    from dragoman.conversion.detect import read_source_model
    from dragoman.conversion.hub import download_model, is_hub_name
    from dragoman.conversion.imported_model import ImportOptions

    check_new_directory(Path(out))
    if target_tokenizer is not None and tokenizer is None:
        raise ConversionError(
            "`target_tokenizer` requires `tokenizer`, the tokenizer of the source; give both",
            code="missing_option",
        )
    files = [None if path is None else Path(path) for path in (tokenizer, target_tokenizer, vocabulary)]
    options = ImportOptions(files[0], files[1], files[2], one_target)
    directory = download_model(str(path)) if is_hub_name(str(path)) else Path(path)
    found = read_source_model(directory, options)
    found.write(Path(out))
    _store_probes(Path(out))
    return ImportResult(Path(out), found.toolkit, tuple(found.notes))


@_names_missing_extra
def export_model(model: PathLike, *, to: str, out: PathLike, verify: bool = True) -> ExportResult:
    """Write a model for another toolkit to the directory `out`: `to` is "ctranslate2", "huggingface" or "onnx".

    The export is verified by translating probe sentences in that toolkit's engine, unless `verify` is false. What the
    format cannot express is an error, and nothing is written.
    """
    from dragoman.conversion.exports.export import export

    return ExportResult(Path(out), to, export(model, to, Path(out), verify=verify))


def merge(base: PathLike, adapter: PathLike, *, out: PathLike) -> Path:
    """Write the model `base` with an adapter, trained with train.lora, merged into its weights to `out`."""
    from dragoman.modeldir.merge import merge_model

    merge_model(base, adapter, Path(out))
    _store_probes(Path(out), Path(base))
    return Path(out)


@_names_missing_extra
def average(models: Paths, *, out: PathLike, last: int | None = None, checkpoints: Sequence[int] = ()) -> AverageResult:
    """Average weights into the model directory `out` (section 6.1 of the paper).

    `models` is the directory of a training run, whose `last` checkpoints (by default as many as its recipe says), or
    those of the steps `checkpoints`, are averaged; or two or more finished models with the same sizes and vocabulary.
    """
    from dragoman.training.checkpoints.averaging import load_parts, write_average

    directories = _paths(models)
    if checkpoints and last is not None:
        raise TrainingError("`last` and `checkpoints` cannot be combined; give one of them", code="conflicting_options")
    if len(directories) > 1 and (checkpoints or last is not None):
        raise TrainingError(
            f"`last` and `checkpoints` choose checkpoints of one run, but there are "
            f"{len(directories)} directories; give one",
            code="conflicting_options",
        )
    check_new_directory(Path(out))
    parts = load_parts(directories, last, checkpoints)
    write_average(parts, Path(out))
    _store_probes(Path(out), directories[0])
    return AverageResult(Path(out), tuple(part.name for part in parts))


@_names_missing_extra
def distill(
    teachers: Paths,
    *,
    source: Paths,
    out: PathLike,
    target: Paths = (),
    valid: ValidationSets = None,
    size: str = "auto",
    recipe: Recipe | PathLike | None = None,
    changes: Changes = (),
    beam: int = Search.beam,
    n_best: int | None = None,
    drop: float = 0.02,
    min_bleu: float = 0.0,
    alignment_weight: float = 0.05,
    minutes: float | None = None,
    device: str | None = None,
    reporter: Reporter | None = None,
) -> DistillationResult:
    """Train a small student on the translations of a teacher, or of an ensemble (Kim and Rush, 2016).

    `source` are files of sentences; with their references in `target`, the translation of each n-best list with the
    highest sentence BLEU is taken. Bad translations are dropped: by length, repetition, copies, sentence BLEU below
    `min_bleu`, and the share `drop` with the lowest scores. `size` is "tiny", "small", "base", or "auto" for a size by
    the number of pairs; `recipe` and `changes` override it, as in `train`. One head learns the teacher's word
    alignments, unless `alignment_weight` is 0. The student is written to `out`, and in int8 to `out`-int8, with a
    comparison of both. Call it again with the same arguments to resume.
    """
    from dragoman.distillation.pipeline import DistillationPlan
    from dragoman.distillation.selection import SelectionRules
    from dragoman.modeldir.quantized_model import quantize_model

    plan = DistillationPlan(
        teachers=_paths(teachers),
        sources=_paths(source),
        references=_paths(target),
        out=Path(out),
        valid=validation_corpora(valid),
        beam=beam,
        n_best=n_best or (beam if _paths(target) else 1),
        alignment=alignment_weight > 0,
        rules=SelectionRules(drop, min_bleu),
        device=device or "auto",
        reporter=reporter or ConsoleReporter(),
    )
    corpus, report = plan.write_corpus()
    if recipe is None:
        changes = [*plan.student_changes(size, report.kept), *_changes(changes)]
    if alignment_weight and not any("alignment_weight" in change for change in _changes(changes)):
        changes = [*_changes(changes), f"train.alignment_weight={alignment_weight}"]
    trained = train(
        out=out,
        corpora=[corpus],
        valid=valid,
        recipe=recipe,
        changes=changes,
        minutes=minutes,
        device=device,
        reporter=reporter,
    )
    small = plan.int8_directory
    if plan.int8_is_missing():
        quantize_model(Path(out), small)
        _store_probes(small, Path(out))
    comparison = plan.compare(_validation_pairs(Path(out)))
    return DistillationResult(trained.path, small, report, comparison)


def quantize(model: PathLike, *, out: PathLike) -> QuantizedModel:
    """Write a copy of a model to the directory `out` with its weights in int8, in files of at most 8 MB."""
    from dragoman.modeldir.locate import find_model
    from dragoman.modeldir.quantized_model import quantize_model

    check_new_directory(Path(out))
    directory = find_model(model)
    result = quantize_model(directory, Path(out))
    _store_probes(Path(out), directory)
    return result


def verify(model: PathLike) -> VerificationReport:
    """Verify the files of a model, and compare each engine with the stored translations of its probe sentences."""
    from dragoman.modeldir.locate import find_model
    from dragoman.translation.probes import verify_probes

    return verify_probes(find_model(model))


def _store_probes(directory: Path, parent: Path | None = None) -> None:
    """Store probes in a model that has none: sentences of its validation set, or of the model that it was made of."""
    from dragoman.modeldir.layout import model_kind
    from dragoman.modeldir.locate import is_model
    from dragoman.modeldir.probe_file import has_probes
    from dragoman.translation.probes import probe_texts, store_probes

    if model_kind(directory) != "translation" or has_probes(directory):
        return
    texts = probe_texts(parent) if parent is not None and is_model(parent) else _validation_texts(directory)
    with suppress(SearchError, OSError):  # weights that are not finite, or a full disk: the model itself is complete
        store_probes(directory, texts)


def _validation_texts(run: Path) -> list[str]:
    """Sources of a run's validation set; empty if it is not there."""
    return [source for source, _ in _validation_pairs(run)[:100]]


def _validation_pairs(run: Path) -> list[tuple[str, str]]:
    """Up to 500 pairs of a run's validation set; empty if it is not there."""
    from dragoman.data.prepared import Prepared
    from dragoman.training.run_record import prepared_directory

    try:
        prepared = Prepared.open(prepared_directory(run))
        split, (source, target) = prepared.split("valid"), prepared.tokenizers
    except DataError:
        return []
    return [
        (source.decode(split.source[i].tolist()), target.decode(split.target[i].tolist()))
        for i in range(min(len(split), 500))
    ]


def _paths(value: Paths) -> list[Path]:
    given = [value] if isinstance(value, PathLike) or not isinstance(value, Sequence) else value
    for each in given:
        if not isinstance(each, PathLike):
            raise DataError(f"files must be given by name or path; got {describe_value(each)}", code="wrong_type")
    return [Path(each) for each in given]


def _texts(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _changes(changes: Changes) -> list[str]:
    """Changes to a recipe as texts such as "model.dropout=0.3"."""
    if isinstance(changes, Mapping):
        return [f"{key}={toml_value(value)}" for key, value in changes.items()]
    return [changes] if isinstance(changes, str) else list(changes)
