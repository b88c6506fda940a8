"""`dragoman inspect`: pictures and pages of a model's attention, heads, alignments and positions; layer costs."""

from __future__ import annotations

import click

from dragoman.cli.commands.inspect import alignment, attention, costs, heads, positions
from dragoman.cli.options import examples


@click.group(
    name="inspect", epilog=examples('dragoman inspect attention my-model --text "Good morning!" --out page.html')
)
def command() -> None:
    """Look inside a model: attention, heads, word alignments, positions; and measure the cost of layers."""


for name, module in {
    "attention": attention,
    "heads": heads,
    "alignment": alignment,
    "positions": positions,
    "costs": costs,
}.items():
    command.add_command(module.command, name)
