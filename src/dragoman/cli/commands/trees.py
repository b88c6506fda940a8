"""`dragoman trees`: constituency parsing as translation (section 6.3), before training and after translating."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from dragoman.cli import note, print_stderr
from dragoman.cli.input import STDIN, check_inputs, parse_path, stream_lines
from dragoman.cli.output import check_stdout, open_output, resolve_output
from dragoman.errors import DataError

if TYPE_CHECKING:
    from dragoman.text.trees.constituency import Bracketing
    from dragoman.text.trees.linearization import ParsedLine

FILE = click.Path(path_type=Path)
T = TypeVar("T")


@click.group(name="trees")
def command() -> None:
    """Constituency trees, in Penn Treebank brackets, as lines that a model is trained to write for a sentence.

    A line has the labels of a tree at both of its brackets, and XX (or its tag) for each word: (S (NP XX )NP XX )S.
    (Dependency trees, which some models read, are given to other commands by --source-trees.)
    """


@command.command(name="lines", short_help="Trees to files of sentences and of lines, to train on.")
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--source", required=True, type=click.Path(), help="Write the sentences there, words apart by spaces.")
@click.option("--target", required=True, type=click.Path(), help="Write the lines of their trees there.")
@click.option("--tags", is_flag=True, help="Write the words' tags; without it, XX for each.")
def to_lines(files: tuple[Path, ...], source: str, target: str, tags: bool) -> None:
    """Write the sentences of FILES, such as wsj_0001.mrg, and the lines of their trees, for `dragoman train`.

    Traces and the functions of labels (the SBJ of NP-SBJ) are left out, and so are trees without a word.
    One of --source and --target may be -, which is standard output.
    """
    from dragoman.text.trees.linearization import bracket_line

    places = [resolve_output(parse_path(place), files) for place in (source, target)]
    if places[0] == places[1]:
        raise DataError(f"--source and --target are both {source}; sentences and lines need a file each")
    count = 0
    with ExitStack() as stack:
        streams = [stack.enter_context(open_output(place)) for place in places]
        for tree in grown(files):
            for (stream, _), text in zip(streams, (" ".join(tree.words), bracket_line(tree, tags)), strict=True):
                stream.write(f"{text}\n".encode())
            count += 1
        for _, done in streams:
            done()
    there = " and ".join("standard output" if parse_path(place) is None else place for place in (source, target))
    note(f"{count:,} {'tree is' if count == 1 else 'trees are'} in {there}")


@command.command(short_help="Written lines to trees in brackets.")
@click.argument("lines", type=click.Path())
@click.argument("source", type=FILE)
@click.option("-o", "--output", type=click.Path(), default="-", help="Write to this file.")
def brackets(lines: str, source: Path, output: str) -> None:
    """Lay the lines of LINES (- for standard input), as a model wrote them, over the sentences of SOURCE.

    Prints a tree in brackets for each, with the tags that were written, or XX. Lines that do not fit are mended, and
    how is said at the end. An empty sentence gives an empty line.
    """
    from dragoman.text.trees.linearization import parse_bracket_line, split_words

    place = resolve_output(parse_path(output), [parse_path(lines), source])
    tally = Tally()
    with open_output(place) as (stream, done):
        for line, sentence in together(lines, [source], (text for block in stream_lines([source]) for text in block)):
            words = split_words(sentence)
            stream.write((tally.add(parse_bracket_line(line, words)).tree.text() if words else "").encode() + b"\n")
        done()
    tally.say()


@command.command(short_help="Written lines against the right trees: precision, recall, F1.")
@click.argument("lines", type=click.Path())
@click.argument("gold", nargs=-1, required=True, type=FILE)
def score(lines: str, gold: tuple[Path, ...]) -> None:
    """Score the lines of LINES (- for standard input), as a model wrote them, against the trees of the files GOLD.

    Labeled bracketing, as EVALB counts it: without punctuation and the top. Lines that do not fit their sentence are
    mended first, and how is said too.
    """
    from dragoman.evaluation.bracketing import score_brackets
    from dragoman.text.trees.linearization import parse_bracket_line

    check_stdout()
    tally = Tally()
    pairs = (
        (tally.add(parse_bracket_line(line, tree.words)).tree, tree)
        for line, tree in together(lines, gold, grown(gold))
    )
    found = score_brackets(pairs)
    figures = {"precision": found.precision, "recall": found.recall, "F1": found.f1, "exact": found.complete}
    click.echo(
        f"{found.sentences:,} sentences, {found.gold:,} phrases, {found.written:,} written, {found.right:,} right"
    )
    for name, value in figures.items():
        click.echo(f"  {name:9}  {100 * value:6.2f}")
    tally.say()


def grown(files: Sequence[Path]) -> Iterator[Bracketing]:
    """The trees of files, each of which must have one."""
    from dragoman.data.corpora.reader import read_brackets_file

    check_inputs(files)
    for path in files:
        found = False
        for tree in read_brackets_file(path):
            found = True
            yield tree
        if not found:
            raise DataError(f"{path} holds no tree with a word; expected brackets such as (S (NP (PRP it)) ...)")


def together(lines: str, files: Sequence[Path], others: Iterator[T]) -> Iterator[tuple[str, T]]:
    """Each line with what belongs to it; both must end together. `files` are where the others come from."""
    place = parse_path(lines)
    check_inputs([place, *files])
    counts = [0, 0]
    written = (line for block in stream_lines([place]) for line in block)
    for line, other in zip_longest(written, others):
        counts = [counts[0] + (line is not None), counts[1] + (other is not None)]
        if line is not None and other is not None and counts[0] == counts[1]:
            yield line, other
    if counts[0] != counts[1]:
        there = f"{files[0]}{' and the files after it' if files[1:] else ''}"
        raise DataError(
            f"{place or STDIN} has {counts[0]:,} lines, but {there} {'have' if files[1:] else 'has'} {counts[1]:,} "
            "sentences; each sentence needs the line that was written for it, in the same order"
        )


class Tally:
    """How many lines did not fit their sentences, and what had to be done to them."""

    def __init__(self) -> None:
        self.lines = self.odd = 0
        self.repairs: Counter[str] = Counter()

    def add(self, laid: ParsedLine) -> ParsedLine:
        """One line more."""
        self.lines += 1
        self.odd += bool(laid.repairs)
        self.repairs.update(laid.repairs)
        return laid

    def say(self) -> None:
        """On stderr, where there is something to say."""
        from dragoman.text.trees.linearization import REPAIRS

        if self.odd:
            note(f"{self.odd:,} of {self.lines:,} lines did not fit their sentence and were mended:")
            for kind, words in REPAIRS.items():
                if self.repairs[kind]:
                    print_stderr(f"  {self.repairs[kind]:,} {words}\n")
