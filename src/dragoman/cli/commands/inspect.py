"""`dragoman inspect`: pictures of what is inside a model, and of what its layers cost."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dragoman.cli.commands import inspect_heads as heads
from dragoman.cli.input import text_of
from dragoman.cli.options.completion import complete_model
from dragoman.errors import DragomanError

if TYPE_CHECKING:
    from dragoman.text import Tree

FILE = click.Path(path_type=Path)
FORMS = (".png", ".svg", ".pdf", ".html")


@click.group(name="inspect")
def command() -> None:
    """Look inside a model: its attention, its heads, its word alignments, its positions; and at what layers cost."""


@command.command()
@click.argument("model", shell_complete=complete_model)
@click.option("--source", required=True, help="A sentence.")
@click.option("--target", help="Its translation; the model's own, without it.")
@click.option("--source-trees", "trees", type=FILE, help="A CoNLL-U file with its tree, for a model that reads trees.")
@click.option("--to", metavar="CODE", help="The language to translate into, for a model of several.")
@click.option("--out", type=FILE, required=True, help=f"The picture to write: {', '.join(FORMS)}; .html is to explore.")
@click.option(
    "--kind",
    type=click.Choice(["cross", "encoder", "decoder"]),
    help="One use of attention; without it, a picture shows cross, and a page all three.",
)
@click.option("--layer", type=int, help="One layer, counted from 1; all, without it.")
@click.option("--head", type=int, help="One head, counted from 1; all, without it.")
@click.option("--words", is_flag=True, help="A row and a column for each word instead of each token.")
def attention(
    model: str,
    source: str,
    target: str | None,
    trees: Path | None,
    to: str | None,
    out: Path,
    kind: Any,
    layer: int | None,
    head: int | None,
    words: bool,
) -> None:
    """What every layer and head looks at, for one sentence pair.

    A picture shows all layers and heads of one kind. A page (.html) holds them for all kinds, to explore in a browser;
    it needs no network. --kind, --layer, --head and --words choose a part of it, for both.
    """
    known_form(out, FORMS)
    source, target = text_of("--source", source), None if target is None else text_of("--target", target)
    translator = load(model)
    from dragoman.inspect.attention_maps import look

    looked = look(translator, source, target, trees_in(trees), to)
    if out.suffix.lower() == ".html":
        from dragoman.files import write_atomically
        from dragoman.inspect.attention_page import page

        text = page(looked.only(kind, layer, head), words)
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(out, text)
        except OSError as error:
            raise DragomanError(f"{out} could not be written: {error.strerror}; choose another --out") from None
    else:
        from dragoman.inspect.attention import draw_heads

        tell(draw_heads(looked, out, kind or "cross", layer, head, words))
    if target is None:
        click.echo(looked.target_text)


command.add_command(heads.command, "heads")


@command.command(short_help="Which word translates which, for sentence pairs.")
@click.argument("model", shell_complete=complete_model)
@click.option("--source", type=FILE, required=True, help="Sentences, one a line.")
@click.option("--target", type=FILE, required=True, help="Their translations.")
@click.option("--source-trees", "trees", type=FILE, help="The sources' trees in CoNLL-U, for a model that reads them.")
@click.option("--to", metavar="CODE", help="The language of the targets, for a model of several.")
@click.option("--out", type=FILE, help=f"Draw one pair as a picture: {', '.join(FORMS[:3])}; prints nothing.")
@click.option("--line", type=click.IntRange(1), help="Which pair to draw; the first, without it.")
@click.option("--gold", type=FILE, help="Links made by people (i-j sure, ipj possible); prints the error rate.")
@click.option("--gold-first", type=click.IntRange(0, 1), help="Its first word's number; 0, without it.")
def alignment(
    model: str,
    source: Path,
    target: Path,
    trees: Path | None,
    to: str | None,
    out: Path | None,
    line: int | None,
    gold: Path | None,
    gold_first: int | None,
) -> None:
    """Which word translates which, for files of sentence pairs, out of what the decoder looks at.

    Prints a line for each pair: `i-j` for source word i and target word j, counted from 0 (Pharaoh's format). Words
    are what stands between spaces. With --out, one pair is drawn instead.
    """
    if line is not None and out is None:
        raise DragomanError(f"--line {line} says which pair to draw; give --out too, such as --out pair.png")
    if gold_first is not None and gold is None:
        raise DragomanError(f"--gold-first {gold_first} says how the words of --gold are counted; give --gold too")
    if out is not None:
        known_form(out, FORMS[:3])
    drawn = line or 1
    from dragoman.data.corpora.corpus import Corpus
    from dragoman.data.corpora.reader import read_pairs

    pairs = [pair for chunk in read_pairs(Corpus(source, target), 4096) for pair in zip(*chunk, strict=True)]
    if out is not None and drawn > len(pairs):
        raise DragomanError(f"--line {drawn} cannot be drawn: the files have {len(pairs):,} lines")
    right = []
    if gold is not None:
        from dragoman.evaluation.alignment_error import agreement, read_gold

        right = read_gold(gold, gold_first or 0)
        if len(right) != len(pairs):
            raise DragomanError(f"{gold} has {len(right):,} lines but {source} has {len(pairs):,}; they must be equal")
    translator = load(model)
    from dragoman.inspect.alignment import align_pairs, draw_alignment, pharaoh
    from dragoman.text.word_groups import Side

    if out is not None and not right and trees is None:  # else it takes them all to know which tree is whose
        pairs, drawn = [pairs[drawn - 1]], 1
    links = align_pairs(translator, [s for s, _ in pairs], [t for _, t in pairs], trees_in(trees), to)
    for each in links if out is None else ():
        click.echo(pharaoh(each))
    if right:
        found = agreement(links, right)
        figures = f"error rate {found.error_rate:.3f}, precision {found.precision:.3f}, recall {found.recall:.3f}"
        click.echo(f"alignment {figures}", err=True)
    if out is not None:
        tokenizers = (translator.source, translator.target)
        sides = [Side.from_ids(t, t.encode(text)) for t, text in zip(tokenizers, pairs[drawn - 1], strict=True)]
        names = [[word.label for word in side.words] for side in sides]
        tell(draw_alignment(names[0], names[1], links[drawn - 1], out))


@command.command(short_help="The position code, and how alike two positions are.")
@click.argument("model", shell_complete=complete_model)
@click.option("--out", type=FILE, required=True, help=f"The picture to write: {', '.join(FORMS[:3])}.")
@click.option("--length", type=click.IntRange(2, 4000), help="How many positions; 100, or all that were learned.")
def positions(model: str, out: Path, length: int | None) -> None:
    """The position code: its values, and how alike two positions are by their distance."""
    known_form(out, FORMS[:3])
    translator = load(model)
    from dragoman.inspect.positions import draw_positions, position_codes

    recipe = translator.recipe.model
    there = recipe.max_positions if recipe.positions == "learned" else 4000
    if length is not None and length > there:
        raise DragomanError(f"--length {length} was asked for, but {model} has learned {there} positions")
    codes = position_codes(translator.engines.torch.model, length or min(100, there))
    tell(draw_positions(codes, out, f"{recipe.positions} positions, d_model {recipe.d_model}"))


@command.command(short_help="Table 1 of the paper, measured; needs no model.")
@click.option("--out", type=FILE, help=f"Also draw them over n, for the last d: {', '.join(FORMS[:3])}.")
@click.option("--length", "lengths", type=click.IntRange(2, 4096), multiple=True,
              help="So many positions n; 64, 256 and 1024, without it.")  # fmt: skip
@click.option("--d-model", "widths", type=click.IntRange(1), multiple=True, help="d; 128 and 512, without it.")
@click.option("--n-heads", type=click.IntRange(1), default=8, show_default=True, help="h, of self-attention.")
@click.option("--kernel", type=int, default=3, show_default=True, help="k, of a convolution.")
@click.option("--neighbors", type=int, default=65, show_default=True, help="r, of restricted self-attention.")
def costs(
    out: Path | None, lengths: tuple[int, ...], widths: tuple[int, ...], n_heads: int, kernel: int, neighbors: int
) -> None:
    """Table 1 of the paper, measured: what self-attention, recurrent and convolutional layers cost. Needs no model.

    Operations are those that PyTorch counts; a chain is of products of which each waits for the one before; a path is
    how often something is handed on from the first position to the last; times are of one sentence on this CPU.
    """
    if out is not None:
        known_form(out, FORMS[:3])
    from dragoman.evaluation.layer_costs import curves, measure, powers_of_two, table
    from dragoman.evaluation.layer_types import Sizes

    lengths, widths = tuple(sorted({*lengths})) or (64, 256, 1024), tuple(dict.fromkeys(widths)) or (128, 512)
    kinds = [Sizes(width, n_heads, kernel, neighbors) for width in widths]
    drawn = sorted({*lengths, *powers_of_two(max(lengths))}) if out is not None else lengths
    found = []
    for sizes in kinds:
        if sys.stderr.isatty():
            tell(f"measuring layers with d_model {sizes.d_model}, which takes half a minute or so")
        found = measure(sizes, drawn if sizes is kinds[-1] else lengths)
        click.echo(table([cost for cost in found if cost.n in lengths]) + "\n")
    if out is not None:
        from dragoman.inspect.curves import draw_curves

        made_with = f"d = {widths[-1]}, {n_heads} heads, k = {kernel}, r = {neighbors}"
        title = f"Table 1, measured: {made_with}. Dashed: the formulas"
        tell(draw_curves(curves(found, longest=4096), out, "positions n", title))


def known_form(path: Path, forms: tuple[str, ...]) -> None:
    """Refuse a name that asks for nothing we can write, before a model is loaded."""
    if path.suffix.lower() not in forms:
        raise DragomanError(f"{path} is no name for a picture; let it end in {', '.join(forms)}")


def load(model: str) -> Any:
    """The model by PyTorch on the CPU, which has the weights of every head."""
    from dragoman.translation.translator import Translator

    return Translator.load(model, device="cpu", engine="torch")


def trees_in(path: Path | None) -> list[Tree] | None:
    """The trees of a file, if one was given."""
    from dragoman.data.corpora.reader import read_trees_file

    return None if path is None else list(read_trees_file(path))


def tell(note: str) -> None:
    """A line on stderr, such as what could not be drawn."""
    if note:
        click.echo(f"dragoman: {note}", err=True)
