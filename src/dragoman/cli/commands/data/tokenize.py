"""`dragoman tokenize`: convert lines of text to tokens or ids."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from dragoman.cli.input import check_readable, prompt_terminal, stream_lines
from dragoman.cli.options import FILE, Command, complete_model, examples, reject_unused
from dragoman.cli.output import resolve_output
from dragoman.errors import TextError
from dragoman.modeldir.locate import find_directory
from dragoman.text import load_tokenizer


@click.command(cls=Command, epilog=examples("dragoman tokenize my-model < test.en"))
@click.argument("directory", type=FILE, shell_complete=complete_model)
@click.option("--name", default="shared", show_default=True, help="Which tokenizer: shared, source or target.")
@click.option("--ids", is_flag=True, help="Print numbers instead of tokens.")
@click.option(
    "--sample", "alpha", type=float, default=0.0, metavar="ALPHA", help="Sample another segmentation, with this alpha."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed for sampling; line N uses SEED + N - 1.")
@click.option("--threads", type=int, default=1, show_default=True, help="Number of threads.")
def command(directory: Path, name: str, ids: bool, alpha: float, seed: int, threads: int) -> None:
    """Convert each line of standard input to tokens, separated by spaces.

    DIRECTORY is a model, by path or name, or any directory with a tokenizer.
    """
    if alpha:
        reject_unused(("threads",), "sampling uses one thread; leave it out, or drop --sample")
    else:
        reject_unused(("seed",), "nothing is sampled; add --sample ALPHA")
    tokenizer = load_tokenizer(find_directory(directory), name)

    def encode(lines: list[str], number: int) -> list[str]:
        if alpha:
            rows = [tokenizer.sample(line, alpha, one) for one, line in enumerate(lines, seed + number - 1)]
        else:
            rows = tokenizer.encode_many(lines, threads=threads)
        return [" ".join(map(str, row) if ids else tokenizer.tokens(row)) for row in rows]

    encode([""], 1)  # reject wrong options before reading
    convert_lines(encode, "a sentence")


def convert_lines(convert: Callable[[list[str], int], list[str]], what: str) -> None:
    """Convert standard input to standard output, line by line, each as soon as it arrives.

    `convert` takes lines and the number of the first; `what` names the content of a line. All lines before an invalid
    one are written.
    """
    check_readable([None])
    resolve_output(None, [None])
    prompt_terminal([None], f"Type {what} and press Enter; Ctrl-D ends.")
    number = 1
    for texts in stream_lines([None]):
        try:
            write(convert(texts, number))
        except TextError:
            for i, text in enumerate(texts, number):  # again, one at a time, to find the invalid line
                try:
                    write(convert([text], i))
                except TextError as error:
                    raise TextError(f"standard input, line {i}: {error}", code=error.code) from None
        number += len(texts)


def write(lines: list[str]) -> None:
    """Write lines and flush, for readers that wait for each answer."""
    sys.stdout.buffer.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
    sys.stdout.buffer.flush()
