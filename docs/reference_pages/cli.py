"""reference/cli.md: every command with its options and their defaults, from click."""

from __future__ import annotations

import click

from dragoman.cli import COMMANDS, group
from reference_pages.markdown import code, paragraphs, table, wrap


def page() -> list[str]:
    """The title and the blocks of the page."""
    context = click.Context(group, info_name="dragoman")
    blocks = [
        "Command line",
        wrap("Every command, with its options and their defaults. `dragoman COMMAND --help` prints the same."),
        wrap(
            "Exit codes are 0 for success, 2 for an error, which is one line on stderr without a traceback, and "
            "130 after Ctrl-C. The [error codes](errors.md) are printed with `--json`, where a command has it."
        ),
        table(
            ["command", "purpose"], [[f"[`{name}`](#dragoman-{name})", purpose] for name, purpose in COMMANDS.items()]
        ),
    ]
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        blocks += _command(command, click.Context(command, parent=context, info_name=name), "##")
    return blocks


def _command(command: click.Command, context: click.Context, level: str) -> list[str]:
    usage = f"{context.command_path} {' '.join(command.collect_usage_pieces(context))}"
    blocks = [f"{level} {context.command_path}", code(usage), *paragraphs(command.help)]
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            blocks += _command(each, click.Context(each, parent=context, info_name=name), level + "#")
        return blocks
    rows = [_row(option, context) for option in command.params if isinstance(option, click.Option)]
    if rows:
        blocks.append(table(["option", "meaning", "value", "default"], rows))
    return blocks + paragraphs(command.epilog)


def _row(option: click.Option, context: click.Context) -> list[str]:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    return [names, option.help or "", _value(option, context), _default(option)]


def _value(option: click.Option, context: click.Context) -> str:
    if option.is_flag:
        return "flag"
    if isinstance(option.type, click.Choice):
        value = ", ".join(f"`{choice}`" for choice in option.type.choices)
    elif option.metavar:
        value = f"`{option.metavar}`"
    elif isinstance(option.type, click.IntRange | click.FloatRange):
        value = f"{option.type.name.removesuffix(' range')}, {_range(option.type)}"
    else:
        value = option.type.name
    return f"{value}, repeatable" if option.multiple else value


def _range(kind: click.IntRange | click.FloatRange) -> str:
    if kind.max is None:
        return f"at least {kind.min}"
    return f"at most {kind.max:,}" if kind.min is None else f"{kind.min:,} to {kind.max:,}"


def _default(option: click.Option) -> str:
    if option.required:
        return "required"
    default = option.to_info_dict()["default"]
    if option.is_flag or default in (None, "", (), []):
        return "on" if default is True else ""
    return f"`{default}`"
