"""`dragoman trees`: convert constituency trees to training lines, and lines back to trees (section 6.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from dragoman.cli import note, print_stderr
from dragoman.cli.input import STDIN, check_readable, parse_path, stream_lines
from dragoman.cli.options import FILE, NAME, Group, examples
from dragoman.cli.output import check_stdout, open_output, parse_output, resolve_output
from dragoman.errors import DataError
from dragoman.values import plural

if TYPE_CHECKING:
    from dragoman.text.trees.constituency import Bracketing
    from dragoman.text.trees.linearization import ParsedLine

T = TypeVar("T")


@click.group(
    cls=Group, name="trees", epilog=examples("dragoman trees lines wsj_0001.mrg --source test.txt --target test.trees")
)
def command() -> None:
    """Convert constituency trees (Penn Treebank brackets) to lines for training a parser, and back.

    A line has the label of a phrase at both brackets, and XX (or a tag) for each word: (S (NP XX )NP XX )S.
    (Dependency trees, which some models read, are an option of other commands: --source-trees.)
    """


@command.command(
    name="lines",
    short_help="Convert trees to sentences and training lines.",
    epilog=examples("dragoman trees lines wsj_0001.mrg --source test.txt --target test.trees"),
)
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--source", required=True, type=NAME, help="Output file for the sentences.")
@click.option("--target", required=True, type=NAME, help="Output file for the lines of their trees.")
@click.option("--tags", is_flag=True, help="Write tags instead of XX for each word.")
def to_lines(files: tuple[Path, ...], source: str, target: str, tags: bool) -> None:
    """Write the sentences of FILES, such as wsj_0001.mrg, and the lines of their trees, for `dragoman train`.

    Traces, function tags (the SBJ of NP-SBJ) and trees without words are left out. One of --source and --target may
    be -, for standard output.
    """
    from dragoman.text.trees.linearization import bracket_line

    outputs = [resolve_output(parse_output(path), files) for path in (source, target)]
    if outputs[0] == outputs[1]:
        raise DataError(f"--source and --target are both {source}; give two different files", code="duplicate_file")
    count = 0
    with ExitStack() as stack:
        streams = [stack.enter_context(open_output(output)) for output in outputs]
        for tree in read_gold_trees(files):
            for (stream, _), text in zip(streams, (" ".join(tree.words), bracket_line(tree, tags)), strict=True):
                stream.write(f"{text}\n".encode())
            count += 1
        for _, done in streams:
            done()
    names = " and ".join("standard output" if parse_path(path) is None else path for path in (source, target))
    note(f"wrote {plural(count, 'tree')} to {names}")


@command.command(
    short_help="Convert a model's lines to trees in brackets.",
    epilog=examples("dragoman trees brackets test.trees test.txt -o test.mrg"),
)
@click.argument("lines", type=NAME)
@click.argument("source", type=FILE)
@click.option("-o", "--output", type=NAME, default="-", help="Output file (default: standard output).")
def brackets(lines: str, source: Path, output: str) -> None:
    """Convert LINES (- for standard input), written by a model for the sentences of SOURCE, to trees in brackets.

    The trees have the tags of the lines, or XX. Lines that do not fit their sentence are repaired, with a summary at
    the end. An empty sentence gives an empty line.
    """
    from dragoman.text.trees.linearization import parse_bracket_line, split_words

    path = resolve_output(parse_output(output), [parse_path(lines), source])
    repairs = RepairCounter()
    with open_output(path) as (stream, done):
        for line, sentence in pair_lines(lines, [source], (text for block in stream_lines([source]) for text in block)):
            words = split_words(sentence)
            stream.write((repairs.add(parse_bracket_line(line, words)).tree.text() if words else "").encode() + b"\n")
        done()
    repairs.print_summary()


@command.command(
    short_help="Score a model's lines against gold trees: precision, recall, F1.",
    epilog=examples("dragoman trees score test.trees wsj_0001.mrg"),
)
@click.argument("lines", type=NAME)
@click.argument("gold", nargs=-1, required=True, type=FILE)
def score(lines: str, gold: tuple[Path, ...]) -> None:
    """Score LINES (- for standard input), written by a model, against the trees of the files GOLD.

    Labeled bracketing as in EVALB: without punctuation and TOP. Lines that do not fit their sentence are repaired
    first, with a summary at the end.
    """
    from dragoman.evaluation.bracketing import score_brackets
    from dragoman.text.trees.linearization import parse_bracket_line

    check_stdout()
    repairs = RepairCounter()
    pairs = (
        (repairs.add(parse_bracket_line(line, tree.words)).tree, tree)
        for line, tree in pair_lines(lines, gold, read_gold_trees(gold))
    )
    found = score_brackets(pairs)
    figures = {"precision": found.precision, "recall": found.recall, "F1": found.f1, "exact": found.exact_share}
    phrases = f"{plural(found.gold, 'phrase')}, {found.predicted:,} predicted, {found.correct:,} correct"
    click.echo(f"{plural(found.sentences, 'sentence')}, {phrases}")
    for name, value in figures.items():
        click.echo(f"  {name:9}  {100 * value:6.2f}")
    repairs.print_summary()


def read_gold_trees(files: Sequence[Path]) -> Iterator[Bracketing]:
    """The trees of files; raise if a file is empty."""
    from dragoman.data.corpora.reader import read_brackets_file

    check_readable(files)
    for path in files:
        found = False
        for tree in read_brackets_file(path):
            found = True
            yield tree
        if not found:
            message = f"{path} has no trees with words; expected brackets such as (S (NP (PRP it)) ...)"
            raise DataError(message, code="no_data")


def pair_lines(lines: str, files: Sequence[Path], others: Iterator[T]) -> Iterator[tuple[str, T]]:
    """Pair each line with its tree or sentence from `files`; raise if the counts differ."""
    path = parse_path(lines)
    check_readable([path, *files])
    counts = [0, 0]
    predicted = (line for block in stream_lines([path]) for line in block)
    for line, other in zip_longest(predicted, others):
        counts = [counts[0] + (line is not None), counts[1] + (other is not None)]
        if line is not None and other is not None and counts[0] == counts[1]:
            yield line, other
    if counts[0] != counts[1]:
        others_from = f"{files[0]}{' and the files after it' if files[1:] else ''}"
        raise DataError(
            f"{path or STDIN} has {plural(counts[0], 'line')}, but {others_from} {'have' if files[1:] else 'has'} "
            f"{plural(counts[1], 'sentence')}; give one line for each sentence, in the same order",
            code="count_mismatch",
        )


class RepairCounter:
    """Count the lines that did not fit their sentences, and how they were repaired."""

    def __init__(self) -> None:
        self.lines = self.repaired = 0
        self.repairs: Counter[str] = Counter()

    def add(self, parsed: ParsedLine) -> ParsedLine:
        """Count a line."""
        self.lines += 1
        self.repaired += bool(parsed.repairs)
        self.repairs.update(parsed.repairs)
        return parsed

    def print_summary(self) -> None:
        """Print the repairs to stderr, if there were any."""
        from dragoman.text.trees.linearization import REPAIRS

        if self.repaired:
            note(f"{self.repaired:,} of {plural(self.lines, 'line')} did not fit their sentence and were repaired:")
            for kind, words in REPAIRS.items():
                if self.repairs[kind]:
                    print_stderr(f"  {self.repairs[kind]:,} {words}\n")
