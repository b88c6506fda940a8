"""`dragoman tokenize`: lines of text to lines of pieces or ids."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count, islice
from pathlib import Path
from typing import BinaryIO

import click

from dragoman.errors import TextError
from dragoman.text import load_tokeniser

AT_ONCE = 1024  # lines read before the first is written, unless a person types them


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--name", default="shared", show_default=True, help="Which tokeniser: shared, source or target.")
@click.option("--ids", is_flag=True, help="Print numbers instead of pieces.")
@click.option("--sample", "alpha", type=float, default=0.0, metavar="ALPHA", help="Draw another segmentation.")
@click.option("--seed", type=int, default=1, show_default=True, help="Which draws; line N uses SEED + N - 1.")
@click.option("--threads", type=int, default=1, show_default=True, help="Threads to encode with.")
def command(directory: Path, name: str, ids: bool, alpha: float, seed: int, threads: int) -> None:
    """Turn each line of standard input into pieces of the tokeniser in DIRECTORY, separated by spaces."""
    tokeniser = load_tokeniser(directory, name)
    seeds = count(seed)

    def encode(lines: list[str]) -> list[str]:
        if alpha:
            rows = [tokeniser.sample(line, alpha, one) for line, one in zip(lines, seeds, strict=False)]
        else:
            rows = tokeniser.encode_many(lines, threads=threads)
        return [" ".join(map(str, row) if ids else tokeniser.pieces(row)) for row in rows]

    convert_lines(encode)


def convert_lines(convert: Callable[[list[str]], list[str]]) -> None:
    """Standard input to standard output, a line for a line; lines end at \\n alone, and \\r\\n is taken for one."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    at_once = 1 if source.isatty() else AT_ONCE
    number = 1
    while raw := list(islice(source, at_once)):
        texts = [text_of(line, number + i) for i, line in enumerate(raw)]
        try:
            results = convert(texts)
        except TextError:
            for i, text in enumerate(texts):  # once more, one at a time, to say which line it was
                try:
                    convert([text])
                except TextError as error:
                    raise TextError(f"line {number + i} of standard input: {error}") from None
            raise
        write(target, results)
        number += len(raw)


def text_of(line: bytes, number: int) -> str:
    """A line's text without its end, or an error that names the line."""
    try:
        return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise TextError(
            f"line {number} of standard input is not UTF-8: byte 0x{line[error.start]:02X} at position {error.start}; "
            "convert the text first, such as with: iconv -f latin1 -t utf-8"
        ) from None


def write(target: BinaryIO, lines: list[str]) -> None:
    """Lines out, at once, so that a reader that waits gets its answer."""
    target.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
    target.flush()
