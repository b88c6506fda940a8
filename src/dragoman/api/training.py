"""Training: prepare, train, plan, finish."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.api.arguments import PathLike, Paths, as_path, as_paths, names_missing_extra
from dragoman.api.probes import add_probes
from dragoman.config import Changes, Recipe, as_changes, load_recipe
from dragoman.data.corpora.corpus import Corpus, ValidationSets, all_corpora, validation_corpora
from dragoman.progress import ConsoleReporter, Reporter, SilentReporter
from dragoman.training.reporting.metrics import TrainingResult

if TYPE_CHECKING:
    import torch

    from dragoman.data.prepared import Prepared
    from dragoman.evaluation.validation import Validation
    from dragoman.training.distributed.ranks import Ranks
    from dragoman.training.session import PlannedRun, TrainingSession


@names_missing_extra
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
    ray: str | None = None,
    overwrite: bool = False,
    reporter: Reporter | None = None,
) -> Prepared:
    """Clean sentence pairs, learn the tokenizers, and write the pairs as token ids to the directory `out`.

    Plain text is given by `source` and `target`, a file or several for each side; other formats, weights, trees and
    target languages by `corpora`. Without `valid`, pairs are held out. Nothing is done if `out` already has these data
    (see `Prepared.reused`); data of other inputs are replaced only with `overwrite`. With `ray`, the address of a Ray
    cluster ("local" for this machine), the `processes` run on its machines, which must see `out`.
    """
    from dragoman.data.prepare.pipeline import prepare_corpora

    reporter = reporter or ConsoleReporter()
    with ExitStack() as stack:
        stack.callback(reporter.close)
        workers = None
        if ray is not None:
            from dragoman.cluster.ray_workers import ray_workers

            workers = stack.enter_context(ray_workers(ray, processes))
            out = Path(out).absolute()
        return prepare_corpora(
            all_corpora(as_paths(source), as_paths(target), corpora),
            load_recipe(recipe, as_changes(changes)),
            out,
            valid=validation_corpora(valid),
            tokenizers=None if tokenizers is None else Path(tokenizers),
            anew=overwrite,
            processes=processes,
            workers=workers,
            reporter=reporter,
        )


@names_missing_extra
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
        add_probes(session.out)
    return TrainingResult.read(session.out / TRAINING, final)


@names_missing_extra
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


@names_missing_extra
def finish(run: PathLike, *, device: str | None = None, reporter: Reporter | None = None) -> TrainingResult:
    """Write a model from the checkpoints of a stopped run in the directory `run`.

    Its weights are selected as at the end of a run. To continue training, call `train` with the same arguments.
    """
    from dragoman.modeldir.layout import TRAINING
    from dragoman.training.session import finish_session

    ranks = _ranks(device)
    final = finish_session(Path(run), _validator, ranks, reporter or ConsoleReporter())
    if ranks.first:
        add_probes(Path(run))
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
    from dragoman.modeldir.locate import find_model
    from dragoman.training.reporting.tensorboard import TensorBoardReporter
    from dragoman.training.session import TrainingSession

    out = as_path("out", out)
    pairs, valid_sets = all_corpora(as_paths(source), as_paths(target), corpora), validation_corpora(valid)
    ranks = _ranks(device)
    report: Reporter = (reporter or ConsoleReporter()) if ranks.first else SilentReporter()
    if tensorboard and ranks.first:
        report = TensorBoardReporter(out / TRAINING / "tensorboard", report)
    return TrainingSession(
        out=out,
        corpora=pairs,
        valid=valid_sets,
        recipe=recipe,
        changes=as_changes(changes),
        start_from=None if start_from is None else find_model(start_from),
        minutes=minutes,
        ranks=ranks,
        reporter=report,
        make_validator=_validator,
    )


def _ranks(device: str | None) -> Ranks:
    import torch

    from dragoman.engines.select import check_device
    from dragoman.training.distributed.ranks import join

    return join(None if device in (None, "auto") else torch.device(check_device(device)))


def _validator(prepared: Prepared, recipe: Recipe, device: torch.device) -> Validation:
    from dragoman.evaluation.validation import Validation

    learned = recipe.model.positions == "learned"
    longest = recipe.model.max_positions - 1 if learned else None  # EOS needs a position too
    return Validation(prepared, recipe.data, device, max_length=longest)
