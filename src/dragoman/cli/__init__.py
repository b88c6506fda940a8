"""The command line: one thin file per verb, loaded when the verb is used, so that none pays for another's imports."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper
from typing import Any, TextIO

import click

from dragoman import __version__
from dragoman.errors import DragomanError, shortage
from dragoman.values import suggest

# command -> its line in `dragoman --help`; it is `command` in dragoman.cli.commands.<name>, or as ELSEWHERE says
VERBS = {
    "demo": "Train on the embedded corpus and translate unseen lines: a tour in a few minutes.",
    "train": "Train a translator from files of sentence pairs.",
    "evaluate": "Score translations: BLEU, chrF and TER, with signatures, and a report.",
    "inspect": "Pictures of a model: attention, word alignment, positions; what layers cost.",
    "average": "Average checkpoints or models into one model.",
    "import": "Make a model of one of another toolkit: Opus-MT, fairseq, JoeyNMT.",
    "prepare": "Learn the tokenizer, clean sentence pairs, and write them as ids for training.",
    "translate": "Translate lines of text with a model.",
    "score": "How likely a model finds translations that are given, a line for each pair.",
    "serve": "Serve models over HTTP, with a page to translate on.",
    "trees": "Constituency trees to lines to train on, and written lines to trees and scores.",
    "engines": "Show what each engine supports, and which can be used here.",
    "recipe": "Show a recipe in full, with the model's size.",
    "tokenize": "Lines of text to lines of tokens or ids.",
    "detokenize": "Lines of tokens or ids back to text.",
}
ELSEWHERE = {"import": "import_model"}  # a word that no module can be called by


class Verbs(click.Group):
    """The verbs by name, each imported only when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs, in the order a person meets them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The click command of one verb."""
        if cmd_name not in VERBS:
            raise click.UsageError(f"there is no command {cmd_name!r}{suggest(cmd_name, VERBS)}")
        command: click.Command = import_module(f"dragoman.cli.commands.{ELSEWHERE.get(cmd_name, cmd_name)}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; where the reader went away (as `| head` does), leave as other programs do then."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # here, because click's main would make it exit code 1
            discard(sys.stdout)  # nothing more to say, and nothing to flush at exit either
            sys.exit(141)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in `--help`, from VERBS alone, so that help imports nothing."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


COMPLETION = """\b
To have your shell complete words (also zsh_source, fish_source):
  eval "$(_DRAGOMAN_COMPLETE=bash_source dragoman)"
"""


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]}, epilog=COMPLETION)
@click.version_option(__version__, prog_name="dragoman")
def group() -> None:
    """Train, open up and run your own translator."""


def main(args: list[str] | None = None) -> None:
    """Run the command line; a refusal is a message and exit code 2, never a traceback."""
    if sys.stderr is None:  # closed: what is said goes nowhere, and no file that is opened gets its number
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123  # until the end
    elif type(sys.stderr) is TextIOWrapper:
        sys.stderr = Heedless(sys.stderr.buffer, sys.stderr.encoding, sys.stderr.errors, line_buffering=True)
    if isinstance(sys.stdout, TextIOWrapper):  # in an old locale, what it cannot write is spelled and not the end of us
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        group.main(args, prog_name="dragoman", standalone_mode=False)
    except click.exceptions.Exit as leave:
        sys.exit(leave.exit_code)
    except click.ClickException as error:
        refuse(error)
    except DragomanError as error:
        refuse(str(error))
    except (KeyboardInterrupt, click.Abort):
        refuse("stopped", 130)
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        refuse(f"{where}{error.strerror or error}")
    except (MemoryError, RuntimeError) as error:
        what = shortage(error)
        if what is None:
            raise
        refuse(
            f"there is not enough memory{f' ({what})' if what else ''}; ask for less at a time: to train, a smaller "
            "data.batch_tokens or a smaller model; to translate, a smaller --batch or --beam"
        )


class Heedless(TextIOWrapper):
    """A stderr that nobody may read any more, or whose disk is full: progress and notes then go nowhere, and work on.

    Programs of others (bars, warnings) write there as well, and know nothing of `tell`.
    """

    def write(self, words: str, /) -> int:
        """All of it, or nothing from now on."""
        try:
            return super().write(words)
        except OSError:
            discard(self)
            return len(words)

    def flush(self) -> None:
        """The same."""
        try:
            super().flush()
        except OSError:
            discard(self)


def refuse(message: str | click.ClickException, code: int = 2) -> None:
    """Leave with a line that says why; what cannot be written any more is not tried again at exit."""
    if isinstance(message, str):
        tell(f"dragoman: {message}\n")
    else:
        with telling():
            message.show()
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        discard(sys.stdout)
    sys.exit(code)


def tell(words: str) -> None:
    """Words on stderr, at once; work does not end because nobody hears of it, as when a terminal was closed."""
    with telling():
        sys.stderr.write(words)
        sys.stderr.flush()


@contextmanager
def telling() -> Iterator[None]:
    """Where stderr cannot be written any more, what is still to be said goes nowhere."""
    try:
        yield
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Have whatever is still to be written to a standard stream go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
