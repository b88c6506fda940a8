"""`dragoman inspect costs`: Table 1 of the paper, measured."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from dragoman.cli import note
from dragoman.cli.commands.inspect.arguments import check_suffix, note_warning
from dragoman.cli.options import OUTPUT_FILE, Command, examples
from dragoman.inspect.pictures import PICTURE_SUFFIXES


@click.command(
    cls=Command,
    short_help="Table 1 of the paper, measured; needs no model.",
    epilog=examples("dragoman inspect costs --length 64 --length 256 --d-model 128"),
)
@click.option(
    "--out", type=OUTPUT_FILE, help=f"Also draw curves over n, for the last d: {', '.join(PICTURE_SUFFIXES)}."
)
@click.option("--length", "lengths", type=click.IntRange(2, 4096), multiple=True,
              help="Positions n (default: 64, 256 and 1024).")  # fmt: skip
@click.option(
    "--d-model", "widths", type=click.IntRange(1), multiple=True, help="Model sizes d (default: 128 and 512)."
)
@click.option(
    "--n-heads", type=click.IntRange(1), default=8, show_default=True, help="Number of heads h of self-attention."
)
@click.option("--kernel", type=int, default=3, show_default=True, help="Kernel width k of a convolution.")
@click.option(
    "--neighbors", type=int, default=65, show_default=True, help="Neighborhood r of restricted self-attention."
)
def command(
    out: Path | None, lengths: tuple[int, ...], widths: tuple[int, ...], n_heads: int, kernel: int, neighbors: int
) -> None:
    """Measure Table 1 of the paper: the cost of self-attention, recurrent and convolutional layers. Needs no model.

    PyTorch counts the operations; the chain is the number of sequential products; the path is the number of steps
    from the first position to the last; times are for one sentence on this CPU.
    """
    if out is not None:
        check_suffix(out, PICTURE_SUFFIXES)
    from dragoman.evaluation.layer_costs import cost_curves, format_table, measure_costs, powers_of_two
    from dragoman.evaluation.layer_types import LayerSizes

    lengths, widths = tuple(sorted({*lengths})) or (64, 256, 1024), tuple(dict.fromkeys(widths)) or (128, 512)
    all_sizes = [LayerSizes(width, n_heads, kernel, neighbors) for width in widths]
    drawn = sorted({*lengths, *powers_of_two(max(lengths))}) if out is not None else lengths
    found = []
    for sizes in all_sizes:
        if sys.stderr.isatty():
            note(f"measuring layers with d_model {sizes.d_model}; this takes about half a minute")
        found = measure_costs(sizes, drawn if sizes is all_sizes[-1] else lengths)
        click.echo(format_table([cost for cost in found if cost.n in lengths]) + "\n")
    if out is not None:
        from dragoman.inspect.pictures import draw_curves

        settings = f"d = {widths[-1]}, {n_heads} heads, k = {kernel}, r = {neighbors}"
        title = f"Table 1, measured: {settings}. Dashed: the formulas"
        note_warning(draw_curves(cost_curves(found, max_length=4096), out, "positions n", title))
