"""`dragoman train`: from files of sentence pairs to a model, in one command."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from dragoman import api
from dragoman.cli.options import FILE, Command, complete_recipe, examples
from dragoman.cli.options.corpus_options import CorpusArguments, corpus_options
from dragoman.cli.options.ray_options import RAY_OPTION


@click.command(
    cls=Command,
    name="train",
    epilog=examples(
        "dragoman train --source train.en --target train.de --out my-model",
        "dragoman train --tsv pairs.tsv --out my-model --minutes 60",
        "dragoman train --tsv law.tsv --from my-model --out law-model",
    ),
)
@corpus_options
@click.option("--out", type=FILE, required=True, help="The model directory to write.")
@click.option("--recipe", shell_complete=complete_recipe,
              help="A preset or a TOML file; without it, sizes are chosen by the amount of data.")  # fmt: skip
@click.option(
    "--set", "changes", multiple=True, metavar="SECTION.KEY=VALUE", help="Change one setting of the recipe; repeatable."
)
@click.option("--from", "start_from", type=FILE, help="A model to fine-tune; its tokenizers are kept.")
@click.option(
    "--minutes", type=float, help="Time that the run may take on this machine; the number of steps is chosen to fit."
)
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    help="Device to train on; auto is a GPU, if any.",
)
@click.option("--tensorboard", is_flag=True, help="Also write training/tensorboard in the model directory.")
@click.option(
    "--processes",
    type=click.IntRange(1),
    help="Number of processes, each with a GPU or a share of the cores.  [default: 1; with --ray, one for each GPU]",
)
@RAY_OPTION
@click.option("--dry-run", is_flag=True, help="Prepare the data, print the plan with its time and memory, and stop.")
@click.option("--finish-now", is_flag=True, help="Write a model from the checkpoints so far, like `dragoman finish`.")
@click.pass_context
def command(
    context: click.Context,
    data: CorpusArguments,
    out: Path,
    recipe: str | None,
    changes: tuple[str, ...],
    start_from: Path | None,
    minutes: float | None,
    device: str | None,
    tensorboard: bool,
    processes: int | None,
    ray: str | None,
    dry_run: bool,
    finish_now: bool,
) -> None:
    """Train a translator from files of sentence pairs.

    Run the same command again to resume where it stopped. Ctrl-C and SIGTERM save first, and exit with code 130 and
    143.
    """
    if finish_now:
        if dry_run:
            raise click.UsageError("--dry-run cannot be combined with --finish-now; drop one of them")
        api.finish(out, device=device)
        return
    arguments: dict[str, Any] = {
        "corpora": data.corpora,
        "valid": data.valid,
        "out": out,
        "recipe": recipe,
        "changes": changes,
        "start_from": start_from,
        "minutes": minutes,
        "device": device,
    }
    if dry_run:
        if ray is not None or (processes or 1) > 1:
            raise click.UsageError("--dry-run measures one process; leave out --processes and --ray")
        click.echo(api.plan(**arguments).summary())
        return
    if "WORLD_SIZE" not in os.environ and ray is not None:
        from dragoman.cluster.training import RayTraining

        sys.exit(RayTraining(["train", *command_line(context)], out, ray, processes, device).run())
    if "WORLD_SIZE" not in os.environ and (processes or 1) > 1:
        from dragoman.training.distributed.launch import launch

        sys.exit(launch(processes or 1, ["train", *command_line(context)]))
    api.train(**arguments, tensorboard=tensorboard)


def command_line(context: click.Context) -> list[str]:
    """The options of this call as arguments, for the worker processes."""
    words = []
    for option in context.command.params:
        value = context.params[str(option.name)]
        if isinstance(value, bool):
            words += [option.opts[0]] if value else []
            continue
        for each in value if isinstance(value, tuple) else () if value is None else (value,):
            words += [option.opts[0], str(each)]
    return words
