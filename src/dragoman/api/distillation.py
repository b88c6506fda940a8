"""Distillation: a small student from the translations of a teacher."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.api.arguments import PathLike, Paths, as_path, as_paths, names_missing_extra
from dragoman.api.probes import add_probes, validation_pairs
from dragoman.api.training import train
from dragoman.config import Changes, Recipe, as_changes, load_recipe
from dragoman.data.corpora.corpus import Corpus, ValidationSets, validation_corpora
from dragoman.progress import ConsoleReporter, Reporter
from dragoman.search.types import Search

if TYPE_CHECKING:
    from dragoman.distillation.selection import SelectionReport
    from dragoman.distillation.student import Comparison
    from dragoman.distillation.teacher import TeacherJob


@dataclass(frozen=True)
class DistillationResult:
    """A student: its directory, its copy in int8, what was dropped, and the BLEU of both."""

    path: Path
    int8_path: Path
    selection: SelectionReport
    comparison: Comparison


@names_missing_extra
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
    reverse: PathLike | None = None,
    minutes: float | None = None,
    device: str | None = None,
    ray: str | None = None,
    workers: int | None = None,
    reporter: Reporter | None = None,
) -> DistillationResult:
    """Train a small student on the translations of a teacher, or of an ensemble (Kim and Rush, 2016).

    `source` are files of sentences; with their references in `target`, the translation of each n-best list with the
    highest sentence BLEU is taken. Bad translations are dropped: by length, repetition, copies, sentence BLEU below
    `min_bleu`, and the share `drop` with the lowest scores. `size` is "tiny", "small", "base", or "auto" for a size by
    the number of pairs; `recipe` and `changes` override it, as in `train`. One head learns the teacher's word
    alignments, unless `alignment_weight` is 0; with `reverse`, a model of the opposite direction, those on which both
    models agree, which are much better. The student is written to `out`, and in int8 to `out`-int8, with a
    comparison of both. Call it again with the same arguments to resume. With `ray`, the address of a Ray cluster
    ("local" for this machine), the teacher translates with `workers` there; all machines must see
    the teacher, the sources and `out`.
    """
    from dragoman.distillation.pipeline import DistillationPlan
    from dragoman.distillation.selection import SelectionRules
    from dragoman.modeldir.quantized_model import quantize_model

    plan = DistillationPlan(
        teachers=as_paths(teachers),
        sources=as_paths(source),
        references=as_paths(target),
        out=as_path("out", out),
        valid=validation_corpora(valid),
        beam=beam,
        n_best=n_best or (beam if as_paths(target) else 1),
        alignment=alignment_weight > 0,
        rules=SelectionRules(drop, min_bleu),
        device=device or "auto",
        reporter=reporter or ConsoleReporter(),
        translate_elsewhere=None if ray is None else _on_ray(ray, workers, reporter or ConsoleReporter()),
        reverse=None if reverse is None else Path(reverse),
    )
    changes = as_changes(changes)
    check_student(plan.valid, size, recipe, changes, minutes)
    corpus, report = plan.write_corpus()
    if recipe is None:
        changes = plan.student_changes(size, report.kept, changes)
    if alignment_weight and not any("alignment_weight" in change for change in changes):
        changes = [*changes, f"train.alignment_weight={alignment_weight}"]
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
        add_probes(small, Path(out))
    comparison = plan.compare(validation_pairs(Path(out)))
    return DistillationResult(trained.path, small, report, comparison)


def check_student(
    valid: Sequence[Corpus], size: str, recipe: Recipe | PathLike | None, changes: Sequence[str], minutes: float | None
) -> None:
    """Reject settings and validation sets that training would reject, before hours of translating."""
    from dragoman.data.corpora.reader import read_pairs
    from dragoman.distillation.student import student_changes
    from dragoman.training.session import check_minutes

    check_minutes(minutes, changes)
    if recipe is None:
        Recipe.from_changes([*student_changes(size, 0), *changes])
    else:
        load_recipe(recipe, changes)
    for corpus in valid:
        deque(read_pairs(corpus, 4096), maxlen=0)


def _on_ray(address: str, workers: int | None, reporter: Reporter) -> Callable[[TeacherJob], None]:
    """The function that translates the sources of a teacher on a cluster."""

    def translate(job: TeacherJob) -> None:
        from dragoman.cluster.teacher import translate_sources_on_ray

        translate_sources_on_ray(job, address, workers, reporter.note)

    return translate
