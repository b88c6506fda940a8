"""`dragoman prepare`: files of sentence pairs to prepared data, with a report."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from dragoman.cli.options.completion import complete_recipe
from dragoman.cli.options.corpus_options import FILE, Given, corpus_options
from dragoman.config import Recipe
from dragoman.data.prepare.pipeline import prepare
from dragoman.data.prepare.report import draw_lengths, print_report
from dragoman.data.prepared import PICTURE, Prepared

PLAIN_EVERY = 10.0  # seconds between lines of progress where there is no terminal


@click.command(name="prepare")
@corpus_options
@click.option("--out", type=FILE, required=True, help="The directory to write.")
@click.option("--recipe", "source_recipe", default="base", show_default=True, shell_complete=complete_recipe,
              help="A preset or a TOML file.")  # fmt: skip
@click.option("--set", "changes", multiple=True, metavar="SECTION.KEY=VALUE", help="Change the recipe.")
@click.option("--tokenizers", type=FILE, help="A directory with tokenizers to use instead of learning new ones.")
@click.option("--processes", type=click.IntRange(1), help="Processes to work in; all cores by default.")
@click.option("--anew", is_flag=True, help="Replace what --out holds, where it was prepared from other inputs.")
def command(
    given: Given,
    out: Path,
    source_recipe: str,
    changes: tuple[str, ...],
    tokenizers: Path | None,
    processes: int | None,
    anew: bool,
) -> None:
    """Learn the tokenizer, clean the pairs, and write them as ids for training.

    Several corpora can be given, each by its own --source and --target, --tsv or --jsonl; weights and trees go with
    them in that order. Files may be packed as .gz, .xz or .zst.
    """
    recipe = Recipe.load(source_recipe, changes)
    started = time.monotonic()
    with Bars() as bars:
        prepared = prepare(
            given.corpora,
            recipe,
            out,
            valid=given.valid,
            tokenizers=tokenizers,
            anew=anew,
            processes=processes,
            watch=bars,
        )
    show(prepared, begun=bars.begun, seconds=time.monotonic() - started)


def show(prepared: Prepared, begun: bool, seconds: float) -> None:
    """The report on stdout, and the picture beside the data."""
    if not begun:
        click.echo(f"{prepared.directory} is already prepared from these inputs; nothing was done.")
        return
    print_report(prepared, Console(highlight=False))
    picture = prepared.directory / PICTURE
    try:
        seen = f"; {picture.name} shows the lengths" if draw_lengths(prepared, picture) else ""
    except OSError as error:
        picture.unlink(missing_ok=True)
        seen = f"; {picture.name} could not be written ({error.strerror or error}), but the data are whole"
    pairs = prepared.report["read"]
    rate = f"{pairs / max(seconds, 1e-9):,.0f}"
    click.echo(f"{prepared.directory}: {pairs:,} pairs in {seconds:.1f} s ({rate} pairs/s){seen}")


class Bars:
    """Progress on stderr: bars with rate and time left on a terminal, now and then a line elsewhere."""

    def __init__(self) -> None:
        self.begun = False
        self.bars: Progress | None = None
        self.task: TaskID | None = None
        self.title, self.total, self.unit, self.done = "", 0, "", 0
        self.started = self.told = 0.0

    def __enter__(self) -> Bars:
        if sys.stderr.isatty():
            self.bars = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._finish()
        if self.bars is not None:
            self.bars.stop()

    def stage(self, title: str, total: int | None, unit: str) -> None:
        """A new bar, or a new kind of line."""
        self._finish()
        self.begun = True
        self.title, self.total, self.unit, self.done = title, total or 0, unit, 0
        self.started = self.told = time.monotonic()
        if self.bars is not None:
            self.task = self.bars.add_task(title, total=total, rate="")

    def advance(self, done: int) -> None:
        """Move the bar; without a terminal, say something every few seconds."""
        self.done += done
        if self.bars is not None and self.task is not None:
            self.bars.update(self.task, completed=self.done, rate=self._rate())
        elif time.monotonic() - self.told > PLAIN_EVERY:
            self.told = time.monotonic()
            spent = self.told - self.started
            left = spent * (self.total / max(self.done, 1) - 1)
            share = 100 * self.done / max(self.total, 1)
            click.echo(f"{self.title}: {share:.0f} %, {self._rate()}, {left:.0f} s left", err=True)

    def _rate(self) -> str:
        rate = self.done / max(time.monotonic() - self.started, 1e-9)
        return f"{rate / 1e6:.1f} MB/s" if self.unit == "B" else f"{rate:,.0f} {self.unit}/s"

    def _finish(self) -> None:
        if self.title and self.bars is None:
            click.echo(f"{self.title}: done in {time.monotonic() - self.started:.1f} s, {self._rate()}", err=True)
        elif self.bars is not None and self.task is not None:
            self.bars.update(self.task, completed=self.total)
