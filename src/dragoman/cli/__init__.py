"""The command line: one thin file per command, imported when the command is used."""

from __future__ import annotations

import errno
import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper
from typing import Any, TextIO

import click

from dragoman import __version__
from dragoman.errors import DataError, DragomanError, missing_extra, shortage, warning_printer
from dragoman.values import close_matches, suggest

# the commands by purpose, each with its line in `dragoman --help`; a command is `command` in
# dragoman.cli.commands.<name>, or as MODULES says
COMMAND_GROUPS = {
    "Train": {
        "demo": "Take a tour: train on the embedded corpus, translate.",
        "train": "Train a translator from files of sentence pairs.",
        "distill": "Train a small model on the translations of another.",
        "finish": "Write a model from a training run that was stopped.",
    },
    "Translate": {
        "translate": "Translate text and documents.",
        "serve": "Serve models over HTTP, with a web page.",
        "engines": "Show what each engine supports, and which run here.",
    },
    "Evaluate": {
        "evaluate": "Measure translations: BLEU, chrF and TER.",
        "score": "Print the log-probability of given translations.",
        "inspect": "Show attention, heads, alignments and positions.",
    },
    "Series": {
        "forecast": "Train on series of numbers, predict, and evaluate.",
    },
    "Models": {
        "models": "List the installed models.",
        "import": "Convert a model of Opus-MT, Marian, fairseq or JoeyNMT.",
        "export": "Write a model for CTranslate2, Hugging Face or ONNX.",
        "average": "Average checkpoints or models into one model.",
        "quantize": "Store a model's weights in int8, a quarter of the size.",
        "verify": "Check that this machine computes what a model should.",
        "merge": "Merge an adapter into its base model.",
        "recipe": "Show a recipe in full, with the model's size.",
    },
    "Data": {
        "prepare": "Clean pairs, learn a tokenizer, write ids to train on.",
        "tokenize": "Convert lines of text to tokens or ids.",
        "detokenize": "Convert tokens or ids back to text.",
        "remember": "Add corrected translations to a translation memory.",
        "trees": "Convert constituency trees to lines to train on.",
    },
}
COMMANDS = {name: line for commands in COMMAND_GROUPS.values() for name, line in commands.items()}
CONTROLS = {number: f"\\x{number:02x}" for number in (*range(9), *range(11, 32), *range(127, 160))}
MODULES = {  # of the commands that are in a folder
    **{name: f"models.{name}" for name in ("average", "export", "merge", "models", "quantize", "verify")},
    **{name: f"data.{name}" for name in ("prepare", "tokenize", "detokenize", "remember", "trees")},
    "import": "models.import_model",  # a keyword cannot be the name of a module
    "inspect": "inspect.group",
}


OPTION_SIMILARITY = 0.7  # from 0 to 1, of a wrong option and one that is suggested
TARGET_LANGUAGE = (
    "lang",
    "target",
    "target-lang",
    "target-language",
    "tgt",
    "tgt-lang",
)  # of other tools; ours is --to


class CommandGroup(click.Group):
    """The commands by name, each imported only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands, in the order in which a user needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The click command with this name."""
        if cmd_name not in COMMANDS:
            raise click.UsageError(f"there is no command {cmd_name!r}{suggest(cmd_name, COMMANDS)}")
        command: click.Command = import_module(f"dragoman.cli.commands.{MODULES.get(cmd_name, cmd_name)}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; exit like other programs when the reader is gone, as with `| head`."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # handled here, because click's main would exit with code 1
            redirect_to_null(sys.stdout)  # nothing is left to flush at exit
            sys.exit(141)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by purpose and the options, on one screen, from COMMAND_GROUPS alone: help imports nothing."""
        formatter.write_paragraph()
        for purpose, commands in COMMAND_GROUPS.items():
            for name, line in commands.items():
                formatter.write(f"{purpose:<12} {name:<11} {line}\n")
                purpose = ""


EPILOG = """\b
Options: --version, -h or --help. Examples: dragoman COMMAND --help
Completion: eval "$(_DRAGOMAN_COMPLETE=bash_source dragoman)" (or zsh_source)
"""


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
@click.version_option(__version__, prog_name="dragoman")
def group() -> None:
    """Train, inspect and run your own translator."""


def main(args: list[str] | None = None) -> None:
    """Run the command line; an expected error is a message and an exit code, never a traceback."""
    if sys.stderr is None:  # closed: reopen it, or the next opened file would get its descriptor
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123  # until the end
    elif type(sys.stderr) is TextIOWrapper:
        sys.stderr = TolerantStderr(sys.stderr.buffer, sys.stderr.encoding, sys.stderr.errors, line_buffering=True)
    if isinstance(sys.stdout, TextIOWrapper):  # escape characters that an old locale cannot write
        sys.stdout.reconfigure(errors="backslashreplace")
    given = sys.argv[1:] if args is None else args
    as_json = wants_json(given)
    warnings.showwarning = warning_printer(note, print_stderr)
    try:
        group.main(args, prog_name="dragoman", standalone_mode=False)
    except click.exceptions.Exit as leave:
        sys.exit(leave.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:  # `dragoman inspect`
        print_stderr(f"{error.format_message()}\n")
        leave_with(2)
    except click.ClickException as error:
        fail(usage_message(error, given), "usage", as_json=as_json)
    except DragomanError as error:
        fail(str(error), error.code, getattr(error, "exit_code", 2), as_json=as_json)
    except ModuleNotFoundError as error:
        words = " ".join(["dragoman", *(word for word in given[:1] if word in COMMANDS)])
        missing = missing_extra(error, f"`{words}`")
        if missing is None:
            raise
        fail(str(missing), missing.code, as_json=as_json)
    except (KeyboardInterrupt, click.Abort):
        fail("stopped", "interrupted", 130, as_json=as_json)
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        advice = "; free some space, or write elsewhere" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        fail(f"{where}{error.strerror or error}{advice}", "system_error", as_json=as_json)
    except (MemoryError, RuntimeError) as error:
        what = shortage(error)
        if what is None:
            raise
        message = (
            f"there is not enough memory{f' ({what})' if what else ''}; to train, use a smaller data.batch_tokens or "
            "a smaller model; to translate, a smaller --batch or --beam"
        )
        fail(message, "out_of_memory", as_json=as_json)


def wants_json(args: Sequence[str]) -> bool:
    """Whether `--json` is given to a command that has it: its errors are then JSON too."""
    name = next((word for word in args if not word.startswith("-")), "")
    if "--json" not in args or name not in COMMANDS:
        return False
    command = group.get_command(click.Context(group), name)
    if isinstance(command, click.Group):
        command = next((each for word, each in command.commands.items() if word in args), None)
    return command is not None and any("--json" in option.opts for option in command.params)


def usage_message(error: click.ClickException, args: Sequence[str]) -> str:
    """The message of a usage error on one line; click's own messages get a hint on what to do."""
    if isinstance(error, click.NoSuchOption):
        word = written_option(error, args)
        message = f"No such option {word!r}.{suggest_options(error, word)}"  # not click's suggestions
    else:
        message = " ".join(error.format_message().split())
    if not message[:1].isupper():
        return message
    message += suggest_sides(error, message)
    message = f"{message[0].lower()}{message[1:].rstrip('.')}".replace("valid integer range", "valid integer")
    message = message.replace(". (Did you mean one of: ", "; did you mean one of ").replace("?)", "?")
    if message.endswith("?"):
        return message.replace(". Did you mean", "; did you mean")
    context = error.ctx if isinstance(error, click.UsageError) else None
    words = [word for word in args[:1] if word in COMMANDS]  # click does not always name the command
    command = context.command_path if context is not None else " ".join(["dragoman", *words])
    return f"{message}; see {command} --help"


def written_option(error: click.NoSuchOption, args: Sequence[str]) -> str:
    """The unknown option as the user wrote it: of `-source`, click reports only `-s`."""
    name = error.option_name
    if name.startswith("--"):
        return name
    return next((word.partition("=")[0] for word in args if word.startswith(name)), name)


def suggest_sides(error: click.ClickException, message: str) -> str:
    """The options of two files that are given without, as in `dragoman train a.en a.de`; or nothing."""
    words = message.partition("(")[2].rstrip(")").split()
    if not isinstance(error, click.UsageError) or error.ctx is None or len(words) != 2:
        return ""
    known = {name for option in error.ctx.command.params for name in option.opts}
    if not (message.startswith("Got unexpected extra arguments") and {"--source", "--target"} <= known):
        return ""
    return f". Did you mean --source {words[0]} --target {words[1]}?"


def suggest_options(error: click.NoSuchOption, written: str) -> str:
    """` Did you mean ...?` for options with a close name, or nothing; click compares the dashes as well."""
    if error.ctx is None:
        return ""
    word = written.lstrip("-")
    names = (name for option in error.ctx.command.params for name in (*option.opts, *option.secondary_opts))
    known = [name for name in names if name.startswith("--")]
    if f"--{word}" in known:
        return f" Did you mean '--{word}'?"
    similar = close_matches(word, [name[2:] for name in known], 3, OPTION_SIMILARITY)
    found = [name for name in known if name[2:] in similar or begins_like(name[2:], word)]
    if word in TARGET_LANGUAGE and "--to" in known:
        found.insert(0, "--to")
    return f" Did you mean {' or '.join(map(repr, found[:3]))}?" if found else ""


def begins_like(name: str, word: str) -> bool:
    """Whether one of two names is the beginning of the other, and long enough to mean it."""
    return min(len(name), len(word)) > 2 and (name.startswith(word) or word.startswith(name))


class TolerantStderr(TextIOWrapper):
    """A stderr that drops output when it is closed or its disk is full.

    Other libraries (progress bars, warnings) write there too, and must not stop the work.
    """

    def write(self, text: str, /) -> int:
        """Write, or drop everything from now on."""
        try:
            return super().write(text)
        except OSError:
            redirect_to_null(self)
            return len(text)

    def flush(self) -> None:
        """Flush, or drop everything from now on."""
        try:
            super().flush()
        except OSError:
            redirect_to_null(self)


def fail(message: str, code: str, exit_code: int = 2, *, as_json: bool = False) -> None:
    """Print an error and exit."""
    if as_json:
        print_stderr(json.dumps({"error": {"code": code, "message": message}}, ensure_ascii=False) + "\n")
    else:
        note(message)
    leave_with(exit_code)


def leave_with(exit_code: int) -> None:
    """Exit without trying again to write output that could not be written."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        redirect_to_null(sys.stdout)
    sys.exit(exit_code)


def decode_argument(option: str, word: str) -> str:
    """A text argument, decoded as UTF-8 in any locale."""
    try:
        return os.fsencode(word).decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{option} is not UTF-8; got {os.fsencode(word)!r}", code="not_utf8") from None


def note(text: str) -> None:
    """Print a line on stderr, with the program's name; control characters are escaped."""
    print_stderr(f"dragoman: {text.translate(CONTROLS)}\n")


def print_stderr(text: str) -> None:
    """Write to stderr and flush; a closed stderr does not stop the work."""
    with ignore_closed_stderr():
        sys.stderr.write(text)
        sys.stderr.flush()


@contextmanager
def ignore_closed_stderr() -> Iterator[None]:
    """Drop further output on stderr once it cannot be written."""
    try:
        yield
    except OSError:
        redirect_to_null(sys.stderr)


def redirect_to_null(stream: TextIO) -> None:
    """Redirect all further output of a standard stream to the null device."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
