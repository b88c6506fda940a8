"""`dragoman prepare`: files of sentence pairs to prepared data, with a report."""

from __future__ import annotations

import time
from pathlib import Path

import click

from dragoman import api
from dragoman.cli.options import FILE, Command, complete_recipe, examples
from dragoman.cli.options.corpus_options import CorpusArguments, corpus_options
from dragoman.cli.options.ray_options import RAY_OPTION
from dragoman.data.prepared import PICTURE, Prepared
from dragoman.values import MAX_THREADS, plural


@click.command(
    cls=Command, name="prepare", epilog=examples("dragoman prepare --source train.en --target train.de --out prepared")
)
@corpus_options
@click.option("--out", type=FILE, required=True, help="The directory to write.")
@click.option("--recipe", default="base", show_default=True, shell_complete=complete_recipe,
              help="A preset or a TOML file.")  # fmt: skip
@click.option(
    "--set", "changes", multiple=True, metavar="SECTION.KEY=VALUE", help="Change one setting of the recipe; repeatable."
)
@click.option("--tokenizers", type=FILE, help="A directory with tokenizers to use instead of learning new ones.")
@click.option("--processes", type=click.IntRange(1, MAX_THREADS), help="Number of processes.  [default: all cores]")
@RAY_OPTION
@click.option("--overwrite", is_flag=True, help="Replace the data in --out if they were prepared from other inputs.")
def command(
    data: CorpusArguments,
    out: Path,
    recipe: str,
    changes: tuple[str, ...],
    tokenizers: Path | None,
    processes: int | None,
    ray: str | None,
    overwrite: bool,
) -> None:
    """Learn the tokenizer, clean the pairs, and write them as ids for training.

    Several corpora can be given, each with its own --source and --target, --tsv or --jsonl; give weights and trees in
    the same order. Files may be compressed as .gz, .xz or .zst. With --ray, the --processes are on a cluster, whose
    machines must all see --out; the result is the same.
    """
    import dragoman.data.prepare.report  # noqa: F401  # fails before the work if a package is missing

    started = time.monotonic()
    prepared = api.prepare(
        corpora=data.corpora,
        valid=data.valid,
        out=out,
        recipe=recipe,
        changes=changes,
        tokenizers=tokenizers,
        processes=processes,
        ray=ray,
        overwrite=overwrite,
    )
    show(prepared, time.monotonic() - started)


def show(prepared: Prepared, seconds: float) -> None:
    """Print the report, and draw the lengths next to the data."""
    if prepared.reused:
        click.echo(f"{prepared.directory} is already prepared from these inputs; nothing was done.")
        return
    from rich.console import Console

    from dragoman.data.prepare.report import plot_lengths, print_preparation

    print_preparation(prepared, Console(highlight=False))
    picture = prepared.directory / PICTURE
    try:
        drawn = f"; {picture.name} shows the lengths" if plot_lengths(prepared, picture) else ""
    except OSError as error:
        picture.unlink(missing_ok=True)
        drawn = f"; {picture.name} could not be written ({error.strerror or error}), but the data are complete"
    pairs = prepared.report["read"]
    rate = f"{pairs / max(seconds, 1e-9):,.0f}"
    click.echo(f"{prepared.directory}: {plural(pairs, 'pair')} in {seconds:.1f} s ({rate} pairs/s){drawn}")
