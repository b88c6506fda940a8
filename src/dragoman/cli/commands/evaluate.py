"""`dragoman evaluate`: score translations with sacreBLEU."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dragoman import api
from dragoman.cli import note
from dragoman.cli.options import FILE, NAME, Command, complete_model, examples, reject_unused
from dragoman.cli.options.engine_options import engine_options, ensemble_arguments, ensemble_options
from dragoman.cli.output import check_stdout
from dragoman.evaluation.metrics import METRICS
from dragoman.search.types import Search
from dragoman.values import plural

if TYPE_CHECKING:
    from dragoman.evaluation.report import EvaluationReport, SetResult


@click.command(
    cls=Command,
    name="evaluate",
    epilog=examples(
        "dragoman evaluate my-model --source test.en --reference test.de",
        "dragoman evaluate --hypothesis book.de --reference test.de --metric bleu",
    ),
)
@click.argument("model", required=False, type=NAME, shell_complete=complete_model)
@click.option("--source", "sources", type=FILE, multiple=True, help="Sentences to translate, one per line.")
@click.option("--reference", "references", type=FILE, multiple=True, help="Reference translations.")
@click.option("--source-trees", "trees", type=FILE, multiple=True,
              help="Dependency trees of the sources (CoNLL-U), for a model that reads them.")  # fmt: skip
@click.option("--to", "languages", multiple=True, metavar="CODE",
              help="Language of the references, for a multilingual model: one, or one per test set.")  # fmt: skip
@click.option("--hypothesis", "hypotheses", type=FILE, multiple=True, help="Translations to score, without a model.")
@click.option("--against", type=FILE, multiple=True, help="Compare with a model, or a file per test set.")
@click.option("--name", "names", multiple=True, help="Name of each test set.")
@click.option("--metric", "metrics", multiple=True, type=click.Choice(METRICS, False), help="Metric; default all.")
@click.option("--tokenize", help="sacreBLEU's tokenizer for BLEU (default: by the script of the references).")
@click.option("--lowercase", is_flag=True, help="Ignore case.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--report", "report_directory", type=FILE, help="Directory for report.json, report.md and translations.")
@click.option("--beam", type=int, default=Search.beam, show_default=True, help="Beam size; 1 is greedy.")
@click.option(
    "--length-penalty", type=float, default=Search.length_penalty, show_default=True, help="Length-penalty exponent."
)
@ensemble_options
@click.option("--language", help="Source language, for splitting lines.  [default: the model's, or en]")
@engine_options
@click.option("--batch", type=int, help="Sentences per batch (default: the engine's choice).")
def command(
    model: str | None,
    sources: tuple[Path, ...],
    trees: tuple[Path, ...],
    languages: tuple[str, ...],
    references: tuple[Path, ...],
    hypotheses: tuple[Path, ...],
    against: tuple[Path, ...],
    names: tuple[str, ...],
    metrics: tuple[str, ...],
    tokenize: str | None,
    lowercase: bool,
    as_json: bool,
    report_directory: Path | None,
    beam: int,
    length_penalty: float,
    adapter: str | None,
    ensemble: tuple[str, ...],
    mean: str,
    **engine: Any,
) -> None:
    """Translate test sets with MODEL and score them, or score the files of --hypothesis.

    BLEU, chrF and TER are sacreBLEU's, with its signatures. Give --source and --reference for each test set. --ensemble
    adds models to an ensemble with MODEL. --against adds sacreBLEU's paired bootstrap test of the difference.
    """
    check_stdout()
    chosen = [name for name in METRICS if not metrics or name in metrics]
    if model is None and (len(against) != 1 or against[0].is_file()):
        options = ("beam", "length_penalty", "language", "engine", "device", "precision", "threads", "batch")
        reject_unused(options, "nothing is translated, because only files of translations are given")
    if model is None:
        reject_unused(("ensemble", "adapter"), "it needs MODEL")
    models = ensemble_arguments(ensemble, mean, adapter)
    if chosen == ["chrF"]:
        reject_unused(("tokenize",), "it applies to BLEU; chrF counts letters")
    result = api.evaluate(
        model,
        reference=references,
        source=sources,
        source_trees=trees,
        to=languages,
        hypothesis=hypotheses,
        against=against,
        names=names,
        metrics=chosen,
        tokenize=tokenize,
        lowercase=lowercase,
        report=report_directory,
        beam=beam,
        length_penalty=length_penalty,
        **models,
        **engine,
    )
    if as_json:
        click.echo(json.dumps(result.to_dict(), indent=1, ensure_ascii=False))
    else:
        print_scores(result)
    if report_directory is not None:
        note(f"the report is in {report_directory}")


def print_scores(report: EvaluationReport) -> None:
    """Print a table on a terminal, lines elsewhere or without rich; both with signatures."""
    if sys.stdout.isatty() and find_spec("rich"):
        print_table(report)
    else:
        for result in report.results:
            print_lines(result)


def print_lines(result: SetResult) -> None:
    """Print a test set, then a line for each score: name, value, signature."""
    rate = f", {result.rate:.1f} sentences/s" if result.rate is not None else ""
    click.echo(f"{result.test_set.name}: {plural(len(result.hypotheses), 'sentence')}{rate}")
    for score in result.scores:
        click.echo(f"  {score.metric:4}  {score.value:6.2f}  {score.signature}")
    for d in result.differences:
        click.echo(f"  {d.metric:4}  {d.difference:+6.2f}  against {d.other:.2f}, p = {d.p:.4f}  {d.signature}")
    if result.flags:
        click.echo(f"  {format_flags(result)}")


def format_flags(result: SetResult) -> str:
    """The number of translations with each warning."""
    return "warnings: " + ", ".join(f"{count:,} {flag}" for flag, count in result.flags.items())


def print_table(report: EvaluationReport) -> None:
    """Print all test sets in one table, and the signatures below it."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    metrics = [score.metric for score in report.results[0].scores]
    timed = any(result.rate is not None for result in report.results)
    grid = Table("test set", box=None, pad_edge=False, header_style="bold")
    for column in ("sentences", *metrics, *(["sentences/s"] if timed else [])):
        grid.add_column(column, justify="right")
    for result in report.results:
        figures = [f"{score.value:.2f}" for score in result.scores]
        rate = [f"{result.rate:.1f}"] if result.rate is not None else []
        grid.add_row(Text(result.test_set.name), f"{len(result.hypotheses):,}", *figures, *rate)
    console = Console()
    console.print(grid)
    print_differences(console, report.results)
    console.print()
    for number, metric in enumerate(metrics):
        by_signature: dict[str, list[str]] = {}
        for result in report.results:
            by_signature.setdefault(result.scores[number].signature, []).append(result.test_set.name)
        for signature, names in by_signature.items():
            where = f"  ({', '.join(names)})" if len(by_signature) > 1 else ""
            words = f"{metric:5} {signature}{where}"
            console.print(words, style="dim", highlight=False, markup=False, soft_wrap=True)
    for result in report.results:
        if result.flags:
            console.print(f"{result.test_set.name}: {format_flags(result)}", highlight=False, markup=False)


def print_differences(console: Any, results: Sequence[SetResult]) -> None:
    """Print the scores of both systems, if there are two."""
    from rich.table import Table
    from rich.text import Text

    if not results[0].differences:
        return
    grid = Table("test set", "metric", box=None, pad_edge=False, header_style="bold")
    for column in ("this", "other", "difference", "p"):
        grid.add_column(column, justify="right")
    for result in results:
        for d in result.differences:
            figures = (f"{d.value:.2f}", f"{d.other:.2f}", f"{d.difference:+.2f}", f"{d.p:.4f}")
            grid.add_row(Text(result.test_set.name), d.metric, *figures)
    console.print()
    console.print(grid)
