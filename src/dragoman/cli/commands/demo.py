"""`dragoman demo`: train a translator in a few minutes, on the embedded corpus."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from dragoman.cli.options import FILE, examples

TRY = "every Monday at half past seven"
SHOWN = 12  # translations


@click.command(name="demo", epilog=examples("dragoman demo", "dragoman demo --out runs/short --set train.steps=200"))
@click.option("--out", type=FILE, default=Path("runs/demo"), show_default=True,
              help="The directory for the corpus, the model and the picture.")  # fmt: skip
@click.option("--pairs", "size", type=click.IntRange(1000, 10**7), default=40_000, show_default=True,
              help="Training pairs.")  # fmt: skip
@click.option("--set", "changes", multiple=True, metavar="SECTION.KEY=VALUE", help="Change the recipe.")
def command(out: Path, size: int, changes: tuple[str, ...]) -> None:
    """Train on the embedded corpus, and translate lines that were never seen.

    The corpus is made by rule: English numbers, dates, times, prices and short sentences, with the one right German
    translation of each. So the share of lines translated without a mistake is a true score.
    """
    from dragoman.demo.tour import DRAWN, run_demo

    result = run_demo(out, size, changes)
    click.echo(f"trained in {result.training_seconds:.0f} s\n")
    lines = list(zip(result.sources, result.translations, result.references, strict=True))
    for source, translation, reference in lines[:SHOWN]:
        click.echo(f"  {source}\n    {translation}{'' if translation == reference else f'   (right: {reference})'}")
    click.echo(f"\n{result.exact_percent:.1f} % of {len(lines):,} unseen lines are translated without a mistake")
    if result.picture is None:
        click.echo(result.picture_error)
    else:
        click.echo(f"{result.picture} shows the attention of the last layer in the translation of: {DRAWN}")
    model = shlex.quote(str(result.model))
    click.echo(f'the model is in {result.model}; try: echo "{TRY}" | dragoman translate {model}')
