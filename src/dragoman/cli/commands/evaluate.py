"""`dragoman evaluate`: how good translations are, with figures that others can compare with."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dragoman import api
from dragoman.cli import note
from dragoman.cli.options.completion import complete_model
from dragoman.cli.options.ensemble_options import ensemble_arguments, ensemble_options
from dragoman.cli.options.unused_options import reject_unused
from dragoman.cli.output import check_stdout
from dragoman.engines.select import ENGINES, PRECISIONS
from dragoman.search.types import Search

if TYPE_CHECKING:
    from dragoman.evaluation.report import Report, Result

FILE = click.Path(path_type=Path)


@click.command(name="evaluate")
@click.argument("model", required=False, shell_complete=complete_model)
@click.option("--source", "sources", type=FILE, multiple=True, help="Sentences to translate, one a line.")
@click.option("--reference", "references", type=FILE, multiple=True, help="Their right translations.")
@click.option("--source-trees", "trees", type=FILE, multiple=True,
              help="The sources' dependency trees in CoNLL-U, for a model that reads them.")  # fmt: skip
@click.option("--to", "languages", multiple=True, metavar="CODE",
              help="The references' language, for a model of several: for each test set, or one for all.")  # fmt: skip
@click.option("--hypothesis", "hypotheses", type=FILE, multiple=True, help="Score these translations; no model.")
@click.option("--against", type=FILE, multiple=True, help="Compare with another model, or with a file for each set.")
@click.option("--name", "names", multiple=True, help="What to call each test set.")
@click.option(
    "--metric", "metrics", multiple=True, type=click.Choice(api.METRICS, False), help="Which; all by default."
)
@click.option("--tokenize", help="sacreBLEU's tokenizer for BLEU; by default the references' script decides.")
@click.option("--lowercase", is_flag=True, help="Take no notice of upper and lower case.")
@click.option("--report", "place", type=FILE, help="Write report.json, report.md and the translations there.")
@click.option("--beam", type=int, default=Search.beam, show_default=True, help="Hypotheses kept; 1 is greedy search.")
@click.option("--length-penalty", type=float, default=Search.length_penalty, show_default=True, help="alpha of lp.")
@ensemble_options
@click.option("--language", default="en", show_default=True, help="The sources' code, for rules to split long ones by.")
@click.option("--engine", type=click.Choice(["auto", *ENGINES]), default="auto", show_default=True,
              help="What computes; auto takes the quickest that is there and knows the model.")  # fmt: skip
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ...")
@click.option("--precision", type=click.Choice(PRECISIONS), default="auto", show_default=True,
              help="Of the weights; auto is int8 on a CPU where the engine has it.")  # fmt: skip
@click.option("--threads", type=int, help="CPU threads; without it OMP_NUM_THREADS, or all.")
@click.option("--batch", type=int, help="Sentences at a time; the engine's own choice, without it.")
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
    place: Path | None,
    beam: int,
    length_penalty: float,
    ensemble: tuple[str, ...],
    mean: str,
    **engine: Any,
) -> None:
    """Translate test sets with MODEL and score them, or score the files of --hypothesis.

    BLEU, chrF and TER are sacreBLEU's, and come with its signatures. Give --source and --reference once for each test
    set. --with adds models that translate together with MODEL. --against adds sacreBLEU's paired bootstrap test, which
    says whether a difference is more than chance.
    """
    check_stdout()
    chosen = [name for name in api.METRICS if not metrics or name in metrics]
    if model is None and (len(against) != 1 or against[0].is_file()):
        options = ("beam", "length_penalty", "language", "engine", "device", "precision", "threads", "batch")
        reject_unused(options, "nothing is translated, as there are only files of translations")
    if model is None:
        reject_unused(("ensemble",), "there is no MODEL to translate together with")
    models = ensemble_arguments(ensemble, mean)
    if chosen == ["chrF"]:
        reject_unused(("tokenize",), "chrF counts letters, whatever the words; it is for BLEU")
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
        report=place,
        beam=beam,
        length_penalty=length_penalty,
        **models,
        **engine,
    )
    show(result)
    if place is not None:
        note(f"the report is in {place}")


def show(report: Report) -> None:
    """A table on a terminal, lines elsewhere; the signatures always."""
    if sys.stdout.isatty():
        table(report)
    else:
        for result in report.results:
            lines(result)


def lines(result: Result) -> None:
    """A set, then a line for each figure: name, value, signature."""
    rate = f", {result.rate:.1f} sentences/s" if result.rate is not None else ""
    click.echo(f"{result.held_out.name}: {len(result.hypotheses):,} sentences{rate}")
    for score in result.scores:
        click.echo(f"  {score.metric:4}  {score.value:6.2f}  {score.signature}")
    for d in result.differences:
        click.echo(f"  {d.metric:4}  {d.difference:+6.2f}  against {d.other:.2f}, p = {d.p:.4f}  {d.signature}")
    if result.flags:
        click.echo(f"  {flagged(result)}")


def flagged(result: Result) -> str:
    """How many translations need a second look."""
    return "of these " + ", ".join(f"{count:,} {flag}" for flag, count in result.flags.items())


def table(report: Report) -> None:
    """All sets in one table, the signatures below it."""
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
        grid.add_row(Text(result.held_out.name), f"{len(result.hypotheses):,}", *figures, *rate)
    console = Console()
    console.print(grid)
    differences(console, report.results)
    console.print()
    for number, metric in enumerate(metrics):
        by_signature: dict[str, list[str]] = {}
        for result in report.results:
            by_signature.setdefault(result.scores[number].signature, []).append(result.held_out.name)
        for signature, names in by_signature.items():
            where = f"  ({', '.join(names)})" if len(by_signature) > 1 else ""
            words = f"{metric:5} {signature}{where}"
            console.print(words, style="dim", highlight=False, markup=False, soft_wrap=True)
    for result in report.results:
        if result.flags:
            console.print(f"{result.held_out.name}: {flagged(result)}", highlight=False, markup=False)


def differences(console: Any, results: Sequence[Result]) -> None:
    """Both systems side by side, where there are two."""
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
            grid.add_row(Text(result.held_out.name), d.metric, *figures)
    console.print()
    console.print(grid)
