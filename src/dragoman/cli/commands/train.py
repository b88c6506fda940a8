"""`dragoman train`: from files of sentence pairs to a model, in one command."""

from __future__ import annotations

import os
import sys
import tomllib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from dragoman.cli.options.completion import complete_recipe
from dragoman.cli.options.corpus_options import FILE, Given, corpus_options
from dragoman.config import Recipe, toml_value, unused_keys
from dragoman.data.prepare.inputs import OtherInputsError
from dragoman.data.prepare.pipeline import prepare
from dragoman.data.prepare.report import summarize
from dragoman.data.prepare.target_languages import with_targets
from dragoman.data.prepared import Prepared
from dragoman.errors import TrainingError
from dragoman.modeldir.layout import TRAINING
from dragoman.modeldir.locate import read_recipe
from dragoman.modeldir.verify import verify_model_cached
from dragoman.progress import ConsoleReporter, SilentReporter

OPEN = ("train.warmup_steps=0", "train.learning_rate=1.0")  # until they are chosen, they fit every number of steps


@click.command(name="train")
@corpus_options
@click.option("--out", type=FILE, required=True, help="The model directory to write.")
@click.option("--recipe", "source_recipe", shell_complete=complete_recipe,
              help="A preset or a TOML file; without it, sizes are chosen to suit the data.")  # fmt: skip
@click.option("--set", "changes", multiple=True, metavar="SECTION.KEY=VALUE", help="Change the recipe.")
@click.option("--from", "start_from", type=FILE, help="A model to fine-tune; its tokenizers are kept.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="Where to train; a GPU by default, if there is one.")
@click.option("--tensorboard", is_flag=True, help="Also write training/tensorboard in the model directory.")
@click.option("--processes", type=click.IntRange(1), default=1, help="Processes on this machine, a GPU or cores each.")
@click.pass_context
def command(
    context: click.Context,
    given: Given,
    out: Path,
    source_recipe: str | None,
    changes: tuple[str, ...],
    start_from: Path | None,
    device: str | None,
    tensorboard: bool,
    processes: int,
) -> None:
    """Train a translator from files of sentence pairs.

    Run the same command again to go on where it stopped. Ctrl-C and SIGTERM save first, and leave with exit code 130
    and 143.
    """
    if processes > 1 and "WORLD_SIZE" not in os.environ:
        from dragoman.training.distributed.launch import launch

        sys.exit(launch(processes, ["train", *written_out(context)]))
    import torch

    from dragoman.evaluation.validation import Validation
    from dragoman.training.distributed.ranks import join
    from dragoman.training.interrupt import InterruptedTrainingError
    from dragoman.training.run import is_finished, train
    from dragoman.training.run_record import RUN, RunRecord, check_output_directory, confirm_record

    ranks = join(None if device is None else torch.device(device))
    watch: Any = ConsoleReporter() if ranks.first else SilentReporter()
    if tensorboard and ranks.first:
        from dragoman.training.reporting.tensorboard import TensorBoardReporter

        watch = TensorBoardReporter(out / TRAINING / "tensorboard", watch)
    place = out / TRAINING / "prepared"
    if ranks.device.type == "cpu" and ranks.world == 1 and (busy := busy_machine(torch.get_num_threads())):
        watch.note(busy)

    def validation(prepared: Prepared, recipe: Recipe) -> Validation:
        """What evaluates; a model that learns positions can write no more tokens than it has of them."""
        learned = recipe.model.positions == "learned"
        longest = recipe.model.max_positions - 1 if learned else None  # the mark needs a position too
        return Validation(prepared, recipe.data, ranks.device, longest=longest)

    def settle() -> str | None:
        """The recipe, once the data are prepared; None where all is done."""
        check_output_directory(out)
        done = is_finished(out)
        if done and not place.exists():
            return None
        told = SilentReporter() if done else watch
        recipe = settled(given, place, source_recipe, changes, start_from, ranks.device, ranks.world, told)
        prepared = Prepared.open(place)
        validation(prepared, recipe)  # refuses data that have none, before the first step
        if done:
            begun = RunRecord.current(recipe, prepared, start_from, ranks)
            confirm_record(out / TRAINING / RUN, begun, told)
        return None if done else recipe.to_toml()

    try:
        with ranks.guard():
            words = ranks.broadcast(settle)
            if words is None:
                whose = "" if place.exists() else ", with whatever data it was trained: its training/ is not there"
                watch.note(f"{out} is finished{whose}; nothing to do (another --out would train anew)")
                return
            recipe, prepared = Recipe.from_table(tomllib.loads(words)), Prepared.open(place)
            evaluate: Any = validation(prepared, recipe)
            train(
                prepared,
                recipe,
                out,
                evaluate=evaluate,
                reporter=watch,
                ranks=ranks,
                start_from=start_from,
            )
    except InterruptedTrainingError as stopped:
        click.echo(f"dragoman: {stopped}", err=True)
        sys.exit(stopped.exit_code)
    watch.note(f"{out} is finished")


def busy_machine(threads: int) -> str:
    """A word of warning where other programs hold the processors: threads of one step wait for each other."""
    load, processors = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0, os.cpu_count() or 1
    if threads < 2 or load < 0.75 * processors:
        return ""
    return (
        f"other programs have kept this machine busy (load {load:.1f} on {processors} processors); while they do, "
        "OMP_NUM_THREADS=1 before the command can make training many times as fast"
    )


def settled(
    given: Given,
    place: Path,
    source_recipe: str | None,
    changes: tuple[str, ...],
    start_from: Path | None,
    device: Any,
    world: int,
    watch: Any,
) -> Recipe:
    """Prepare the data, and settle the recipe by what they are, where none was given."""
    from dragoman.nn.kernels.availability import triton_available
    from dragoman.nn.kernels.cpu_bf16 import has_bfloat16_matmul
    from dragoman.training.defaults import (
        Choice,
        agreement_choices,
        model_choices,
        precision_choices,
        speed_choices,
        steps_of_epoch,
        training_choices,
        vocabulary_choice,
    )
    from dragoman.training.run_record import has_started, with_tokenizers_of

    fast = device.type == "cuda"
    chosen: list[Choice] = []
    base = None if start_from is None else read_recipe(start_from)
    if start_from is not None:
        verify_model_cached(start_from)
    own = [] if base is None else settings("model", base.model)
    targets: tuple[str, ...] = ()

    def made(pairs: int | None = None) -> Recipe:
        """The recipe as far as it is chosen; a number of pairs chooses the sizes."""
        nonlocal chosen
        if source_recipe is None and not own and pairs is not None:
            chosen = [vocabulary_choice(pairs, fast), *model_choices(pairs, fast)]
        if source_recipe is not None:
            recipe = Recipe.load(source_recipe, changes)
        else:
            recipe = Recipe.from_changes([*OPEN, *own, *(c.change for c in chosen), *changes])
        recipe = recipe if start_from is None else with_tokenizers_of(start_from, recipe, changes)
        return recipe if not targets else replace(recipe, text=replace(recipe.text, targets=targets))

    targets = with_targets(made(0), [*given.corpora, *given.valid], start_from).text.targets
    recipe = made()
    check_trees(given, recipe)
    out = place.parent.parent
    try:
        prepared = prepare(
            given.corpora,
            made,
            place,
            valid=given.valid,
            tokenizers=start_from,
            anew=not has_started(out),
            reporter=watch,
        )
    except OtherInputsError as error:
        raise TrainingError(
            f"{out} was started with other data or settings:\n  {error.changed}\nGive the same ones to resume, or "
            "another --out to start a new run",
            code="run_mismatch",
        ) from None
    finally:
        watch.close()
    recipe = made()
    if not prepared.reused:
        watch.note(summarize(prepared))
    if source_recipe is None:
        split = prepared.split("train")
        tokens = int(split.target.lengths.sum()) + len(split)
        asked = {change.partition("=")[0].strip() for change in changes}
        steps = recipe.train.steps if "train.steps" in asked else None

        def epoch(batch_tokens: int) -> int:
            """With the batch that was asked for, if one was."""
            data = recipe.data if "data.batch_tokens" in asked else replace(recipe.data, batch_tokens=batch_tokens)
            return steps_of_epoch(split, data, world, recipe.train.accumulate)

        chosen += training_choices(len(split), tokens, recipe.model, fast, epoch, steps)
        chosen += agreement_choices(len(split), recipe.model, fast) if not own else []
        chosen += precision_choices(recipe.model, has_bfloat16_matmul if not fast else lambda: False)
        recipe = made()
        length = recipe.train.steps, recipe.train.steps * recipe.data.batch_tokens
        chosen += speed_choices(*length, fast and world == 1 and triton_available("cuda"), recipe.model)
        recipe = made()
        if base is not None:
            added = recipe.text.targets[len(base.text.targets) :]
            more = f", and a token for each of {', '.join(added)}" if added else ""
            watch.note(f"model and tokenizers: as {start_from} has them{more}")
        for choice in chosen:
            if choice.change.partition("=")[0] not in asked:
                watch.note(f"{choice.change}: {choice.reason}")
    return recipe


def check_trees(given: Given, recipe: Recipe) -> None:
    """Refuse a model without the trees that it reads, and trees that no model reads, before all the work."""
    reads, there = recipe.model.reads_trees, given.corpora[0].source_trees is not None
    if reads and not there:
        raise TrainingError(
            "model.positions='syntax' needs the dependency tree of each source sentence; give --source-trees with a "
            "CoNLL-U file for each corpus, or use other positions"
        )
    if there and not reads:
        if "positions" in unused_keys(recipe.model.architecture):
            raise TrainingError(
                f"--source-trees would do nothing: a {recipe.model.architecture} model reads no trees; leave them out"
            )
        raise TrainingError(
            f"--source-trees would do nothing: model.positions={recipe.model.positions!r} reads no trees; add --set "
            "model.positions=syntax, or leave them out"
        )


def settings(section: str, values: Any) -> list[str]:
    """A section of a recipe as changes that make it."""
    return [f"{section}.{key}={toml_value(value)}" for key, value in asdict(values).items() if value is not None]


def written_out(context: click.Context) -> list[str]:
    """The options of this call as a command line, for the processes that do the work."""
    words = []
    for option in context.command.params:
        value = context.params[str(option.name)]
        if isinstance(value, bool):
            words += [option.opts[0]] if value else []
            continue
        for each in value if isinstance(value, tuple) else () if value is None else (value,):
            words += [option.opts[0], str(each)]
    return words
