"""`dragoman train`: from files of sentence pairs to a model, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dragoman.cli.prepare import Bars, gather
from dragoman.config import Recipe
from dragoman.data.preparing import prepare
from dragoman.data.reading import Corpus
from dragoman.errors import DataError

FILE = click.Path(path_type=Path)


@click.command(name="train")
@click.option("--source", "sources", type=FILE, multiple=True, help="Plain text, a source sentence per line.")
@click.option("--target", "targets", type=FILE, multiple=True, help="Its translation, line by line.")
@click.option("--tsv", "tsvs", type=FILE, multiple=True, help="Source, tab, target on each line.")
@click.option("--jsonl", "jsonls", type=FILE, multiple=True, help='A JSON object per line: {"en": ..., "de": ...}.')
@click.option("--source-key", default="", help="The source in JSON lines (such as en), or its column in TSV.")
@click.option("--target-key", default="", help="The target in JSON lines (such as de), or its column in TSV.")
@click.option("--weight", "weights", type=float, multiple=True, help="How often an epoch goes through each corpus.")
@click.option("--valid-source", type=FILE, help="Validation sentences; without them, pairs are held out by hash.")
@click.option("--valid-target", type=FILE, help="Their translations.")
@click.option("--out", type=FILE, required=True, help="The model directory to write.")
@click.option(
    "--recipe", "source_recipe", help="A preset or a TOML file; without it, sizes are chosen to suit the data."
)
@click.option("--set", "changes", multiple=True, metavar="SECTION.KEY=VALUE", help="Change the recipe.")
@click.option("--from", "start_from", type=FILE, help="A model to fine-tune; its tokenisers are kept.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="Where to train; a GPU by default, if there is one.")
def command(
    sources: tuple[Path, ...],
    targets: tuple[Path, ...],
    tsvs: tuple[Path, ...],
    jsonls: tuple[Path, ...],
    source_key: str,
    target_key: str,
    weights: tuple[float, ...],
    valid_source: Path | None,
    valid_target: Path | None,
    out: Path,
    source_recipe: str | None,
    changes: tuple[str, ...],
    start_from: Path | None,
    device: str | None,
) -> None:
    """Train a translator from files of sentence pairs.

    Run the same command again to go on where it stopped.
    """
    import torch

    from dragoman.evaluate.validation import Validation
    from dragoman.train.display import Display
    from dragoman.train.parallel import join
    from dragoman.train.progress import Silence
    from dragoman.train.run import TRAINING, finished, train
    from dragoman.train.sizes import model_choices, training_choices, vocabulary_choice

    corpora = gather(sources, targets, tsvs, jsonls, source_key, target_key, weights)
    valid = None
    if valid_source is not None and valid_target is not None:
        valid = Corpus(valid_source, valid_target)
    elif valid_source is not None or valid_target is not None:
        raise DataError("a validation set needs both sides: give --valid-source and --valid-target")
    ranks = join(None if device is None else torch.device(device))
    watch: Any = Display() if ranks.first else Silence()
    if finished(out):
        watch.note(f"{out} is finished; nothing to do")
        return
    fast = ranks.device.type == "cuda"
    chosen = []
    if source_recipe is None:
        pairs = count_pairs(corpora)
        chosen = [vocabulary_choice(pairs, fast), *model_choices(pairs, fast)]
        recipe = Recipe.from_changes([*(c.change for c in chosen), *changes])
    else:
        recipe = Recipe.load(source_recipe, changes)
    place = out / TRAINING / "prepared"
    if ranks.first:
        with Bars() as bars:
            prepared = prepare(corpora, recipe, place, valid=valid, tokenisers=start_from, watch=bars)
    ranks.wait()
    prepared = prepare(corpora, recipe, place, valid=valid, tokenisers=start_from)
    if source_recipe is None:
        split = prepared.split("train")
        tokens = int(split.target.lengths.sum()) + len(split)
        chosen += training_choices(len(split), tokens, recipe.model, fast)
        recipe = Recipe.from_changes([*(c.change for c in chosen), *changes])
        for choice in chosen:
            watch.note(f"{choice.change}: {choice.reason}")
    names = (sources[0].name, targets[0].name) if sources else (source_key or "source", target_key or "target")
    evaluate: Any = Validation(prepared, recipe.data, ranks.device)
    train(prepared, recipe, out, evaluate=evaluate, watch=watch, ranks=ranks, start_from=start_from, names=names)
    watch.note(f"{out} is finished")


def count_pairs(corpora: list[Corpus]) -> int:
    """How many pairs the files hold, as near as sizes need it."""
    from dragoman.data.reading import read

    return sum(len(sources) for corpus in corpora for sources, _ in read(corpus, 1 << 14))
