"""`dragoman detokenize`: lines of tokens or ids back to text."""

from __future__ import annotations

from pathlib import Path

import click

from dragoman.cli.commands.data.tokenize import convert_lines
from dragoman.cli.options import FILE, Command, complete_model, examples
from dragoman.errors import TextError
from dragoman.modeldir.locate import find_directory
from dragoman.text import load_tokenizer

MAX_ID_DIGITS = 40  # more than any id has


@click.command(cls=Command, epilog=examples("dragoman tokenize my-model < test.en | dragoman detokenize my-model"))
@click.argument("directory", type=FILE, shell_complete=complete_model)
@click.option("--name", default="shared", show_default=True, help="Which tokenizer: shared, source or target.")
@click.option("--ids", is_flag=True, help="Read numbers instead of tokens.")
def command(directory: Path, name: str, ids: bool) -> None:
    """Convert each line of tokens on standard input, as `dragoman tokenize` prints them, back to text.

    DIRECTORY is a model, by path or name, or any directory with a tokenizer.
    """
    tokenizer = load_tokenizer(find_directory(directory), name)

    def decode(lines: list[str], _: int) -> list[str]:
        rows = [[token for token in line.split(" ") if token] for line in lines]
        return [tokenizer.decode(parse_ids(row) if ids else tokenizer.to_ids(row)) for row in rows]

    convert_lines(decode, "ids" if ids else "tokens")


def parse_ids(words: list[str]) -> list[int]:
    """Parse words as ids."""
    for word in words:
        if not (word.isascii() and word.removeprefix("-").isdecimal()) or len(word) > MAX_ID_DIGITS:
            raise TextError(
                f"{word[:MAX_ID_DIGITS]!r} is not an id; --ids reads integers separated by spaces; leave it out to "
                "read tokens",
                code="wrong_type",
            )
    return [int(word) for word in words]
