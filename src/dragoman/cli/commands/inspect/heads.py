"""`dragoman inspect heads`: what each head of a translator does, and how important it is."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dragoman.cli import note
from dragoman.cli.commands.inspect.arguments import PAGE_SUFFIXES, check_suffix, note_warning
from dragoman.cli.input import check_readable
from dragoman.cli.options import FILE, NAME, OUTPUT_FILE, Command, complete_model, examples
from dragoman.errors import DragomanError, OutputError
from dragoman.inspect.pictures import PICTURE_SUFFIXES
from dragoman.progress import ConsoleReporter
from dragoman.values import plural

if TYPE_CHECKING:
    from dragoman.inspect.heads.survey import HeadSurvey

SURVEY_SUFFIXES = (*PAGE_SUFFIXES, ".json")
DEFAULT_PAIRS = 300


@click.command(
    cls=Command,
    short_help="What each head does over a corpus, and how important it is.",
    epilog=examples("dragoman inspect heads my-model --source test.en --target test.de"),
)
@click.argument("model", type=NAME, shell_complete=complete_model)
@click.option("--source", type=FILE, required=True, help="Sentences, one per line.")
@click.option("--target", type=FILE, required=True, help="Their translations.")
@click.option("--source-trees", "trees", type=FILE, help="Trees of the sources (CoNLL-U), for a model that reads them.")
@click.option("--to", metavar="CODE", help="Language of the targets, for a multilingual model.")
@click.option("--pairs", type=click.IntRange(1), default=DEFAULT_PAIRS, show_default=True, help="Number of pairs.")
@click.option("--ablate/--no-ablate", default=None,
              help="Remove each head in turn (default: if it takes a few minutes at most).")  # fmt: skip
@click.option("--curve", is_flag=True, help="Also remove heads cumulatively, the least important first.")
@click.option("--bleu", is_flag=True, help="Score translations at each point of the curve.")
@click.option("--out", type=OUTPUT_FILE, help=f"Also write a picture, a page or data: {', '.join(SURVEY_SUFFIXES)}.")
def command(
    model: str,
    source: Path,
    target: Path,
    trees: Path | None,
    to: str | None,
    pairs: int,
    ablate: bool | None,
    curve: bool,
    bleu: bool,
    out: Path | None,
) -> None:
    """Show what each head attends to, and how important it is, over a corpus of sentence pairs.

    The importance is the increase in cross-entropy per target token when the head is removed (exact, one pass per
    head), or else the absolute gradient at the head's gate (one backward pass for all heads, for ranking only).
    """
    if out is not None:
        check_suffix(out, SURVEY_SUFFIXES)
        if out.is_dir():  # checked before the work
            raise OutputError(f"{out} is a directory; choose another --out", code="not_a_file")
    if bleu and not curve:
        raise DragomanError("--bleu needs --curve, whose points it scores", code="missing_option")
    if out is not None and out.suffix.lower() in PICTURE_SUFFIXES:
        from dragoman.inspect.pictures import load_pyplot

        load_pyplot()  # fail before the work if it is missing
    sources, targets = first_pairs(source, target, pairs)
    from dragoman.data.corpora.reader import read_trees_file
    from dragoman.files import write_output
    from dragoman.translation.translator import Translator

    source_trees = None
    if trees is not None:
        source_trees = list(islice(read_trees_file(trees), sum(1 for text in sources if text.strip())))
    translator = Translator.load(model, device="cpu", engine="torch")
    from dragoman.inspect.heads.survey import survey_heads

    options: dict[str, Any] = {"trees": source_trees, "to": to, "ablate": ablate, "curve": curve}
    reporter = ConsoleReporter(transient=True)
    try:
        score = score_bleu if bleu else None
        survey = survey_heads(translator, sources, targets, **options, bleu=score, reporter=reporter)
    finally:
        reporter.close()
    print_survey(survey)
    if out is None:
        return
    from dragoman.modeldir.locate import model_name

    title = f"{model_name(translator.engines.directory)}: what each head attends to, and its importance"
    match out.suffix.lower():
        case ".json":
            write_output(out, json.dumps(survey.to_dict(), ensure_ascii=False, indent=1) + "\n")
        case ".html":
            from dragoman.inspect.heads.page import heads_page

            write_output(out, heads_page(survey, translator, sources, targets, source_trees, to, title))
        case _:
            from dragoman.inspect.heads.picture import draw_survey

            note_warning(draw_survey(survey, out, title))


def first_pairs(source: Path, target: Path, count: int) -> tuple[list[str], list[str]]:
    """The first pairs of two files; both are read to the end, to detect different numbers of lines."""
    from dragoman.data.corpora.corpus import Corpus
    from dragoman.data.corpora.reader import read_pairs

    check_readable([source, target], "--source and --target are files with one sentence per line")
    sources: list[str] = []
    targets: list[str] = []
    for some, others in read_pairs(Corpus(source, target), 4096):
        sources += some[: count - len(sources)]
        targets += others[: count - len(targets)]
    return sources, targets


def score_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """BLEU from sacreBLEU."""
    from dragoman.evaluation.metrics import score_corpus

    return score_corpus(hypotheses, references, ["BLEU"])[0].value


def print_survey(survey: HeadSurvey) -> None:
    """Print a table to stdout, and what it is based on to stderr."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table("head", box=None, pad_edge=False, header_style="bold")
    for column in (["ablation"] if survey.ablated else []) + ["sensitivity", "confidence"]:
        grid.add_column(column, justify="right", no_wrap=True)
    grid.add_column("attends to")
    for head in survey.heads:
        figures = [f"{head.ablation:+.4f}"] if head.ablation is not None else []
        figures.append(f"{head.sensitivity:.4f}")
        figures.append("" if head.statistics is None else f"{head.statistics.confidence:.2f}")
        grid.add_row(str(head.id), *figures, Text(head.label + (", the alignment head" if head.alignment_head else "")))
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    console.print(grid)
    if survey.curve:
        bleu = survey.curve[0].bleu is not None
        points = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("heads removed", "cross-entropy", *(["BLEU"] if bleu else [])):
            points.add_column(column, justify="right")
        for point in survey.curve:
            score = [f"{point.bleu:.2f}"] if point.bleu is not None else []
            points.add_row(str(point.removed), f"{point.cross_entropy:.4f}", *score)
        console.print()
        console.print(points)
    skipped = f" ({survey.skipped_pairs:,} skipped: one side is empty or too long)" if survey.skipped_pairs else ""
    note(
        f"{plural(survey.sentences, 'pair')}{skipped}, {survey.tokens:,} target tokens (EOS included), "
        f"cross-entropy {survey.cross_entropy:.4f} nats per token"
    )
    note(f"alignments are read from {survey.alignment_head}")
    correlations = survey.rank_correlations()
    if correlations:
        value = f"{correlations['sensitivity']:.2f}"
        note(f"Spearman's rank correlation of sensitivity and ablation: {value}")
    if not survey.ablated:
        note("sensitivity is an estimate, for ranking heads only; --ablate removes each head in turn")
