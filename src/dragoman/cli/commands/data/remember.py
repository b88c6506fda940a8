"""`dragoman remember`: add corrected translations to a translation memory."""

from __future__ import annotations

from pathlib import Path

import click

from dragoman.cli.options import FILE, examples
from dragoman.values import plural


@click.command(
    epilog=examples(
        "dragoman remember memory.tmx corrected.xlf --from en --to de",
        "dragoman remember memory.tmx de.po --from en --to de",
    )
)
@click.argument("memory", type=FILE)
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--from", "source", required=True, metavar="CODE", help="Source language, such as en.")
@click.option("--to", "target", required=True, metavar="CODE", help="Target language, such as de.")
def command(memory: Path, files: tuple[Path, ...], source: str, target: str) -> None:
    """Add the translations of FILES (XLIFF, TMX, PO) to MEMORY, a .tmx or .tsv file, which is created if needed.

    Nothing in MEMORY changes; new translations are added at its end, and the last one of a sentence counts. Fuzzy
    messages of PO files are left out.
    """
    from dragoman.documents.memory.remember import remember
    from dragoman.text.languages.codes import normalize_language

    added = remember(memory, files, normalize_language(source), normalize_language(target))
    click.echo(f"{plural(added, 'translation')} added to {memory}")
