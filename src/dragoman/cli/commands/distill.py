"""`dragoman distill`: train a small student on the translations of a teacher."""

from __future__ import annotations

from pathlib import Path

import click

from dragoman import api
from dragoman.cli.options import FILE, NAME, Command, complete_model, complete_recipe, examples, reject_unused
from dragoman.cli.options.ray_options import RAY_OPTION, WITHOUT_RAY, WORKERS_OPTION
from dragoman.search.types import Search


@click.command(
    cls=Command,
    name="distill",
    epilog=examples(
        "dragoman distill my-model --source more.en --out student",
        "dragoman distill my-model --source a.en --target a.de --size tiny --out b",
    ),
)
@click.argument("teachers", nargs=-1, required=True, type=NAME, shell_complete=complete_model)
@click.option("--source", "sources", type=FILE, multiple=True, required=True, help="Sentences, one per line.")
@click.option("--target", "targets", type=FILE, multiple=True, help="Their references, one per line, if there are any.")
@click.option("--valid-source", type=FILE, help="Validation sentences; without them, some pairs are held out.")
@click.option("--valid-target", type=FILE, help="Their translations.")
@click.option("--out", type=FILE, required=True, help="The model directory to write; int8 goes to OUT-int8.")
@click.option("--size", default="auto", show_default=True, help="Size of the student: auto, tiny, small or base.")
@click.option("--recipe", shell_complete=complete_recipe, help="A preset or a TOML file, instead of --size.")
@click.option(
    "--set", "changes", multiple=True, metavar="SECTION.KEY=VALUE", help="Change one setting of the recipe; repeatable."
)
@click.option("--beam", type=click.IntRange(1), default=Search.beam, show_default=True, help="Beam of the teacher.")
@click.option("--nbest", type=click.IntRange(1), help="Translations to choose from by BLEU.  [default: the beam]")
@click.option("--drop", type=float, default=0.02, show_default=True, help="Share of lines to drop, by lowest score.")
@click.option("--min-bleu", type=float, default=0.0, help="Drop lines with a lower sentence BLEU, given references.")
@click.option(
    "--alignment-weight", type=float, default=0.05, show_default=True, help="Weight of guided alignment; 0 for none."
)
@click.option(
    "--reverse",
    type=NAME,
    shell_complete=complete_model,
    help="A model of the opposite direction, to align words with.",
)
@click.option("--minutes", type=float, help="Time that training the student may take on this machine.")
@click.option(
    "--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", help="Device; auto is a GPU, if any."
)
@RAY_OPTION
@WORKERS_OPTION
def command(
    teachers: tuple[str, ...],
    sources: tuple[Path, ...],
    targets: tuple[Path, ...],
    valid_source: Path | None,
    valid_target: Path | None,
    out: Path,
    size: str,
    recipe: str | None,
    changes: tuple[str, ...],
    beam: int,
    nbest: int | None,
    drop: float,
    min_bleu: float,
    alignment_weight: float,
    reverse: str | None,
    minutes: float | None,
    device: str | None,
    ray: str | None,
    workers: int | None,
) -> None:
    """Train a small student on the translations of TEACHERS, one model or an ensemble.

    The teacher translates the sources, bad translations are dropped and reported, the student is trained and stored in
    int8 too, and both are compared. Run the same command again to resume where it stopped. With --ray, the teacher
    translates on a cluster.
    """
    if ray is None:
        reject_unused(("workers",), WITHOUT_RAY)
    if (valid_source is None) != (valid_target is None):
        raise click.UsageError("--valid-source and --valid-target belong together; give both, or neither")
    if recipe is not None and size != "auto":
        raise click.UsageError("--size has no effect with --recipe; drop one of them")
    result = api.distill(
        teachers,
        source=sources,
        target=targets,
        valid=None if valid_source is None or valid_target is None else (valid_source, valid_target),
        out=out,
        size=size,
        recipe=recipe,
        changes=changes,
        beam=beam,
        n_best=nbest,
        drop=drop,
        min_bleu=min_bleu,
        alignment_weight=alignment_weight,
        reverse=reverse,
        minutes=minutes,
        device=device,
        ray=ray,
        workers=workers,
    )
    click.echo(f"{result.path}; in int8: {result.int8_path}\n{result.comparison}")
