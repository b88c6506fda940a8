"""Evaluation: evaluate."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.api.arguments import PathLike, Paths, as_paths, as_texts, names_missing_extra
from dragoman.errors import DataError, DragomanWarning
from dragoman.evaluation.metrics import METRICS
from dragoman.progress import ConsoleReporter, Reporter
from dragoman.search.types import Mean, Search

if TYPE_CHECKING:
    from dragoman.evaluation.report import EvaluationReport
    from dragoman.evaluation.systems import System


@names_missing_extra
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

    hypotheses, others, trees, languages = as_paths(hypothesis), as_paths(against), as_paths(source_trees), as_texts(to)
    if (model is None) == (not hypotheses):
        raise DataError(
            "give either a model to translate with, or files of translations with --hypothesis",
            code="conflicting_options",
        )
    sets = read_test_sets(as_paths(reference), as_paths(source), as_texts(names), trees, languages)
    metrics = as_texts(metrics)
    make_metrics(metrics, sets[0].references, tokenize)  # reject a wrong name before translating
    search = Search(beam=beam, length_penalty=length_penalty)
    settings: dict[str, Any] = {"language": language, "engine": engine, "device": device}
    settings |= {"precision": precision, "threads": threads, "batch": batch}
    systems: list[System] = [
        FileSystem(hypotheses, "hypothesis", sets)
        if model is None
        else ModelSystem(str(model), search, ensemble=as_paths(ensemble), mean=mean, adapter=adapter, **settings)
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
