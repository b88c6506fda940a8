"""Options that commands share, their completion, the check that each has an effect, and examples in help texts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from dragoman.errors import OutputError
from dragoman.files import check_parent


class NamedPath(click.Path):
    """A path that is not empty; click takes an empty one, such as an unset shell variable, for the current directory.

    With `is_output_file`, a name that ends in a slash is rejected too, because a Path drops the slash, and one in a
    directory that does not exist.
    """

    def __init__(self, path_type: type[Path] | None = None, *, is_output_file: bool = False) -> None:
        super().__init__(path_type=path_type)
        self.is_output_file = is_output_file

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert a word to a path."""
        word = os.fsdecode(value)
        if not word:
            self.fail("the name is empty", param, ctx)
        if self.is_output_file and word.endswith(os.sep):
            raise OutputError(f"{word} is a directory; give the name of a file", code="not_a_file")
        if self.is_output_file:
            check_parent(Path(word))
        return super().convert(value, param, ctx)


class Command(click.Command):
    """A command whose options have one value each, unless they are declared as `multiple`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; reject an option that is given twice, of which click takes the last value silently."""
        if not ctx.resilient_parsing:
            _, _, given = self.make_parser(ctx).parse_args(list(args))
            for option in given:
                if isinstance(option, click.Option) and not repeatable(option) and given.count(option) > 1:
                    raise click.UsageError(f"{option.opts[0]} is given twice; give it once", ctx)
        return super().parse_args(ctx, args)


class Group(click.Group):
    """A group of such commands."""

    command_class = Command


def repeatable(option: click.Option) -> bool:
    """Whether an option may be given several times; a switch has no value to lose."""
    return option.multiple or option.count or option.is_flag


FILE = NamedPath(Path)
OUTPUT_FILE = NamedPath(Path, is_output_file=True)
NAME = NamedPath()  # a str: the path of a file or model, a model's name, or `-`


def examples(*lines: str) -> str:
    """The end of a command's help: one command line per line."""
    return "\n".join(["\b", "Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)])


def given_options(*names: str) -> list[str]:
    """The options among these parameters that the user passed, such as `--beam`."""
    context = click.get_current_context()
    return [
        option.opts[0]
        for option in context.command.params
        if option.name in names and context.get_parameter_source(option.name) is not ParameterSource.DEFAULT
    ]


def reject_unused(names: tuple[str, ...], reason: str) -> None:
    """Raise a usage error if the user passed any of `names`."""
    for option in given_options(*names)[:1]:
        raise click.UsageError(f"{option} has no effect: {reason}")


def complete_model(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete directories and names of models."""
    from dragoman.modeldir.locate import model_names

    return [CompletionItem(incomplete, type="dir"), *matching(incomplete, model_names())]


def complete_recipe(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete files and presets."""
    from dragoman.config import PRESETS

    return [CompletionItem(incomplete, type="file"), *matching(incomplete, list(PRESETS))]


def matching(incomplete: str, names: list[str]) -> list[CompletionItem]:
    """The names that start with the incomplete word."""
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
