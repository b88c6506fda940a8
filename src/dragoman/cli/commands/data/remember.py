"""`dragoman remember`: add corrected translations to a translation memory."""

from __future__ import annotations

from pathlib import Path

import click

from dragoman.cli.options import FILE, Command, examples
from dragoman.values import plural


@click.command(
    cls=Command,
    epilog=examples(
        "dragoman remember memory.tmx corrected.xlf --from en --to de",
        "dragoman remember memory.tmx de.po --from en --to de",
    ),
)
@click.argument("memory", type=FILE)
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--from", "source", required=True, metavar="CODE", help="Source language, such as en.")
@click.option("--to", "target", required=True, metavar="CODE", help="Target language, such as de.")
@click.option("--unreviewed", is_flag=True, help="Also add machine translations that nobody has reviewed.")
def command(memory: Path, files: tuple[Path, ...], source: str, target: str, unreviewed: bool) -> None:
    """Add the translations of FILES (XLIFF, TMX, PO) to MEMORY, a .tmx or .tsv file, which is created if needed.

    Nothing in MEMORY changes; new translations are added at its end, and the last one of a sentence counts. Left out
    is what a file marks as not reviewed: machine translations that are still as they were written (in XLIFF by their
    state, in TMX by the creation tool), and fuzzy messages of PO files.
    """
    from dragoman.documents.memory.remember import remember
    from dragoman.text.languages.codes import normalize_language

    done = remember(memory, files, normalize_language(source), normalize_language(target), unreviewed)
    click.echo(f"{plural(done.added, 'translation')} added to {memory}")
    if done.unreviewed:
        click.echo(
            f"{plural(done.unreviewed, 'translation')} left out that the files mark as not reviewed; --unreviewed adds "
            "such translations too",
            err=True,
        )
