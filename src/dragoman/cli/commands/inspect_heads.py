"""`dragoman inspect heads`: what each head of a translator does, and what it is worth."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dragoman.cli import tell
from dragoman.cli.options.completion import complete_model
from dragoman.errors import DragomanError
from dragoman.progress import ConsoleReporter

if TYPE_CHECKING:
    from dragoman.inspect.heads import Survey

FILE = click.Path(path_type=Path)
FORMS = (".png", ".svg", ".pdf", ".html", ".json")
PAIRS = 300


@click.command(short_help="What each head does, and what it is worth, over a corpus.")
@click.argument("model", shell_complete=complete_model)
@click.option("--source", type=FILE, required=True, help="Sentences, one a line.")
@click.option("--target", type=FILE, required=True, help="Their translations.")
@click.option("--source-trees", "trees", type=FILE, help="The sources' trees in CoNLL-U, for a model that reads them.")
@click.option("--to", metavar="CODE", help="The language of the targets, for a model of several.")
@click.option("--pairs", type=click.IntRange(1), default=PAIRS, show_default=True, help="Ask about the first so many.")
@click.option("--ablate/--no-ablate", default=None,
              help="Remove each head in turn, a pass for each; by default where it takes few minutes.")  # fmt: skip
@click.option("--curve", is_flag=True, help="Remove heads together as well, the least worthy first.")
@click.option("--bleu", is_flag=True, help="Translate and score the sources at each point of that curve.")
@click.option("--out", type=FILE, help=f"Also write {', '.join(FORMS)}: a picture, a page to explore, or figures.")
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
    """What each head looks at, in words and figures, and what it is worth, over a corpus of sentence pairs.

    Worth is the rise of the cross-entropy of a target token when the head is removed (exact, a pass for each head), or
    without that the size of its slope at the head's gate (one pass back for all heads, good for their order alone).
    """
    if out is not None and out.suffix.lower() not in FORMS:
        raise DragomanError(f"{out} is no name for a picture, a page or figures; let it end in {', '.join(FORMS)}")
    if out is not None and out.is_dir():  # said before the work and not after it
        raise DragomanError(f"{out} is a directory; choose another --out")
    if bleu and not curve:
        raise DragomanError("--bleu scores the points of the curve; give --curve too")
    if out is not None and out.suffix.lower() in FORMS[:3]:
        from dragoman.inspect.pictures import pyplot

        pyplot()  # where it is missing, that is said before the work and not after it
    sources, targets = first_pairs(source, target, pairs)
    from dragoman.data.corpora.reader import read_trees_file
    from dragoman.translation.translator import Translator

    grown = None
    if trees is not None:
        grown = list(islice(read_trees_file(trees), sum(1 for text in sources if text.strip())))
    translator = Translator.load(model, device="cpu", engine="torch")
    from dragoman.inspect.heads import survey

    asked: dict[str, Any] = {"trees": grown, "to": to, "ablate": ablate, "curve": curve}
    reporter = ConsoleReporter(transient=True)
    try:
        found = survey(translator, sources, targets, **asked, bleu=scored if bleu else None, reporter=reporter)
    finally:
        reporter.close()
    show(found)
    if out is None:
        return
    title = f"What each head of {model} looks at, and what it is worth"
    match out.suffix.lower():
        case ".json":
            written(out, json.dumps(found.data(), ensure_ascii=False, indent=1) + "\n")
        case ".html":
            from dragoman.inspect.heads_page import page

            written(out, page(found, translator, sources, targets, grown, to, title))
        case _:
            from dragoman.inspect.heads_picture import draw_survey

            if note := draw_survey(found, out, title):
                tell(f"dragoman: {note}\n")


def first_pairs(source: Path, target: Path, count: int) -> tuple[list[str], list[str]]:
    """So many pairs of two files; both are read to their end, so that lines that do not match are seen."""
    from dragoman.data.corpora.corpus import Corpus
    from dragoman.data.corpora.reader import read_pairs

    sources: list[str] = []
    targets: list[str] = []
    for some, others in read_pairs(Corpus(source, target), 4096):
        sources += some[: count - len(sources)]
        targets += others[: count - len(targets)]
    return sources, targets


def scored(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """BLEU by sacreBLEU."""
    from dragoman.evaluation.metrics import score

    return score(hypotheses, references, ["BLEU"])[0].value


def show(found: Survey) -> None:
    """A table on stdout; on stderr what stands behind it."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    exact = found.exact
    grid = Table("head", box=None, pad_edge=False, header_style="bold")
    for column in (["removed"] if exact else []) + ["sensitivity", "confidence"]:
        grid.add_column(column, justify="right", no_wrap=True)
    grid.add_column("looks at")
    for head in found.heads:
        figures = [f"{head.removal:+.4f}"] if head.removal is not None else []
        figures.append(f"{head.sensitivity:.4f}")
        figures.append("" if head.does is None else f"{head.does.confidence:.2f}")
        grid.add_row(str(head.place), *figures, Text(head.label + (", the model's pointer" if head.points else "")))
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    console.print(grid)
    if found.curve:
        bleu = found.curve[0].bleu is not None
        points = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("removed together", "cross-entropy", *(["BLEU"] if bleu else [])):
            points.add_column(column, justify="right")
        for point in found.curve:
            score = [f"{point.bleu:.2f}"] if point.bleu is not None else []
            points.add_row(str(point.removed), f"{point.cross_entropy:.4f}", *score)
        console.print()
        console.print(points)
    left = f" ({found.left_out:,} left out: empty on a side, or too long)" if found.left_out else ""
    tell(f"dragoman: {found.sentences:,} pairs{left}, {found.tokens:,} target tokens and end marks, cross-entropy "
         f"{found.cross_entropy:.4f} nats a token\n")  # fmt: skip
    tell(f"dragoman: alignments are read from {found.pointer}\n")
    if exact:
        told = found.agreement()
        if told:
            tell(f"dragoman: ranks of sensitivity and of removal agree by {told['sensitivity']:.2f} (Spearman)\n")
    else:
        tell("dragoman: sensitivity is an estimate, good for the order of heads alone; --ablate removes each in turn\n")


def written(path: Path, text: str) -> None:
    """Write a file, or say why not."""
    from dragoman.files import write_atomically

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
    except OSError as error:
        raise DragomanError(f"{path} could not be written: {error.strerror}; choose another --out") from None
