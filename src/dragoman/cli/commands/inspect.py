"""`dragoman inspect`: pictures and pages of a model's attention, heads, alignments and positions; layer costs."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dragoman.cli.commands import inspect_heads as heads
from dragoman.cli.commands import inspect_positions as positions
from dragoman.cli.options import FILE, NAME, OUTPUT_FILE, complete_model, examples, reject_unused
from dragoman.cli.options.sentence_options import check_pair_options, read_given_pairs, sentence_options
from dragoman.cli.output import check_stdout
from dragoman.errors import DragomanError
from dragoman.values import MAX_INT, plural

if TYPE_CHECKING:
    from dragoman.text import Tree

PAGE_SUFFIXES = (".png", ".svg", ".pdf", ".html")
PICTURES = PAGE_SUFFIXES[:3]


@click.group(
    name="inspect", epilog=examples('dragoman inspect attention my-model --text "Good morning!" --out page.html')
)
def command() -> None:
    """Look inside a model: attention, heads, word alignments, positions; and measure the cost of layers."""


@command.command(
    short_help="Attention of every layer and head for one sentence.",
    epilog=examples('dragoman inspect attention my-model --text "Good morning!" --out page.html'),
)
@click.argument("model", type=NAME, shell_complete=complete_model)
@sentence_options
@click.option(
    "--line", type=click.IntRange(1, MAX_INT), help="Line of --source and --target to show (default: the first)."
)
@click.option("--source-trees", "trees", type=FILE, help="Trees of the sources (CoNLL-U), for a model that reads them.")
@click.option("--to", metavar="CODE", help="Target language, for a model with several.")
@click.option(
    "--out", type=OUTPUT_FILE, required=True, help=f"Output file: {', '.join(PAGE_SUFFIXES)} (a page to explore)."
)
@click.option(
    "--kind",
    type=click.Choice(["cross", "encoder", "decoder"]),
    help="One kind of attention (default: cross in a picture, all three in a page).",
)
@click.option("--layer", type=int, help="One layer, from 1 (default: all).")
@click.option("--head", type=int, help="One head, from 1 (default: all).")
@click.option("--words", is_flag=True, help="Rows and columns are words instead of tokens.")
def attention(
    model: str,
    text: str | None,
    translation: str | None,
    source: Path | None,
    target: Path | None,
    line: int | None,
    trees: Path | None,
    to: str | None,
    out: Path,
    kind: Any,
    layer: int | None,
    head: int | None,
    words: bool,
) -> None:
    """Show the attention of every layer and head for one sentence pair.

    Without a translation, the model translates the sentence, and its translation is printed. A picture shows all
    layers and heads of one kind. A page (.html) has all kinds, to explore offline in a browser. --kind, --layer, --head
    and --words select a part, for both.
    """
    check_suffix(out, PAGE_SUFFIXES)
    check_pair_options(text, translation, source, target, paired=False)
    if text is not None:
        reject_unused(("line",), "it selects a line of --source; --text is one sentence")
    number = line or 1
    before = list(islice(read_given_pairs(text, translation, source, target), number))
    check_line(number, len(before), source)
    shown, given = before.pop()
    tree = load_trees(trees)
    if tree is not None:  # an empty line has no tree
        skipped = sum(1 for each, _ in before if each.strip())
        tree = tree[skipped : skipped + 1] if source is not None else tree
    translator = load_translator(model)
    from dragoman.inspect.attention.maps import record_attention

    recorded = record_attention(translator, shown, given, tree, to)
    if out.suffix.lower() == ".html":
        from dragoman.files import write_output
        from dragoman.inspect.attention.page import attention_page

        write_output(out, attention_page(recorded.select(kind, layer, head), words))
    else:
        from dragoman.inspect.attention.picture import draw_heads

        print_note(draw_heads(recorded, out, kind or "cross", layer, head, words))
    if given is None:
        click.echo(recorded.target_text)


command.add_command(heads.command, "heads")


@command.command(
    short_help="Word alignments of sentence pairs.",
    epilog=examples("dragoman inspect alignment my-model --source test.en --target test.de"),
)
@click.argument("model", type=NAME, shell_complete=complete_model)
@sentence_options
@click.option("--source-trees", "trees", type=FILE, help="Trees of the sources (CoNLL-U), for a model that reads them.")
@click.option("--to", metavar="CODE", help="Language of the targets, for a model with several.")
@click.option("--out", type=OUTPUT_FILE, help=f"Draw one pair ({', '.join(PICTURES)}) instead of printing all.")
@click.option("--line", type=click.IntRange(1, MAX_INT), help="Pair to draw (default: the first).")
@click.option("--gold", type=FILE, help="Gold links (i-j sure, ipj possible); prints the alignment error rate.")
@click.option("--gold-first", type=click.IntRange(0, 1), help="Number of the first word in --gold (default: 0).")
def alignment(
    model: str,
    text: str | None,
    translation: str | None,
    source: Path | None,
    target: Path | None,
    trees: Path | None,
    to: str | None,
    out: Path | None,
    line: int | None,
    gold: Path | None,
    gold_first: int | None,
) -> None:
    """Align the words of sentence pairs, from the attention of the decoder.

    Prints a line for each pair: `i-j` for source word i and target word j, counted from 0 (Pharaoh format). Words are
    separated by spaces. With --out, one pair is drawn instead.
    """
    if line is not None and out is None:
        message = f"--line {line} selects a pair to draw and needs --out, such as --out pair.png"
        raise DragomanError(message, code="missing_option")
    if gold_first is not None and gold is None:
        raise DragomanError(f"--gold-first {gold_first} needs --gold", code="missing_option")
    if out is not None:
        check_suffix(out, PICTURES)
    else:
        check_stdout()
    check_pair_options(text, translation, source, target)
    number = line or 1
    pairs = [(one, other or "") for one, other in read_given_pairs(text, translation, source, target)]
    if out is not None:
        check_line(number, len(pairs), source)
    gold_links = []
    if gold is not None:
        from dragoman.evaluation.alignment_error import read_gold, score_alignment

        gold_links = read_gold(gold, gold_first or 0)
        if len(gold_links) != len(pairs):
            counts = f"{plural(len(gold_links), 'line')} for {plural(len(pairs), 'sentence pair')}"
            raise DragomanError(f"{gold} has {counts}; give one for each pair", code="count_mismatch")
    from dragoman.translation.translator import Translator

    translator = Translator.load(model, device="cpu", precision="float32")
    from dragoman.inspect.alignment import align_pairs, draw_alignment, format_pharaoh
    from dragoman.text.word_groups import Side

    if out is not None and not gold_links and trees is None:  # trees are matched with all pairs in order
        pairs, number = [pairs[number - 1]], 1
    links = align_pairs(translator, [s for s, _ in pairs], [t for _, t in pairs], load_trees(trees), to)
    for each in links if out is None else ():
        click.echo(format_pharaoh(each))
    if gold_links:
        found = score_alignment(links, gold_links)
        figures = f"error rate {found.error_rate:.3f}, precision {found.precision:.3f}, recall {found.recall:.3f}"
        click.echo(f"alignment {figures}", err=True)
    if out is not None:
        tokenizers = (translator.source, translator.target)
        sides = [Side.from_ids(t, t.encode(text)) for t, text in zip(tokenizers, pairs[number - 1], strict=True)]
        names = [[word.label for word in side.words] for side in sides]
        print_note(draw_alignment(names[0], names[1], links[number - 1], out))


command.add_command(positions.command, "positions")


@command.command(
    short_help="Table 1 of the paper, measured; needs no model.",
    epilog=examples("dragoman inspect costs --length 64 --length 256 --d-model 128"),
)
@click.option("--out", type=OUTPUT_FILE, help=f"Also draw curves over n, for the last d: {', '.join(PICTURES)}.")
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
def costs(
    out: Path | None, lengths: tuple[int, ...], widths: tuple[int, ...], n_heads: int, kernel: int, neighbors: int
) -> None:
    """Measure Table 1 of the paper: the cost of self-attention, recurrent and convolutional layers. Needs no model.

    PyTorch counts the operations; the chain is the number of sequential products; the path is the number of steps
    from the first position to the last; times are for one sentence on this CPU.
    """
    if out is not None:
        check_suffix(out, PICTURES)
    from dragoman.evaluation.layer_costs import cost_curves, format_table, measure_costs, powers_of_two
    from dragoman.evaluation.layer_types import LayerSizes

    lengths, widths = tuple(sorted({*lengths})) or (64, 256, 1024), tuple(dict.fromkeys(widths)) or (128, 512)
    all_sizes = [LayerSizes(width, n_heads, kernel, neighbors) for width in widths]
    drawn = sorted({*lengths, *powers_of_two(max(lengths))}) if out is not None else lengths
    found = []
    for sizes in all_sizes:
        if sys.stderr.isatty():
            print_note(f"measuring layers with d_model {sizes.d_model}; this takes about half a minute")
        found = measure_costs(sizes, drawn if sizes is all_sizes[-1] else lengths)
        click.echo(format_table([cost for cost in found if cost.n in lengths]) + "\n")
    if out is not None:
        from dragoman.inspect.pictures import draw_curves

        settings = f"d = {widths[-1]}, {n_heads} heads, k = {kernel}, r = {neighbors}"
        title = f"Table 1, measured: {settings}. Dashed: the formulas"
        print_note(draw_curves(cost_curves(found, max_length=4096), out, "positions n", title))


def check_suffix(path: Path, suffixes: tuple[str, ...]) -> None:
    """Reject an unknown output format before a model is loaded."""
    if path.suffix.lower() not in suffixes:
        raise DragomanError(f"{path} has an unknown format; use {', '.join(suffixes)}", code="unsupported_format")


def check_line(number: int, count: int, source: Path | None) -> None:
    """Reject an empty file, and a line number that is out of range."""
    if source is not None and not count:
        raise DragomanError(f"{source} is empty; expected a sentence per line", code="file_empty")
    if number > count:
        where = source or "--text"
        message = f"--line {number} is out of range: {where} has {plural(count, 'line')}"
        raise DragomanError(message, code="out_of_range")


def load_translator(model: str) -> Any:
    """Load a model on the CPU, in float32; PyTorch is imported only for a model that the native engine cannot run."""
    from dragoman.translation.translator import Translator

    return Translator.load(model, device="cpu", precision="float32")


def load_trees(path: Path | None) -> list[Tree] | None:
    """The trees of a file, if given."""
    from dragoman.data.corpora.reader import read_trees_file

    return None if path is None else list(read_trees_file(path))


def print_note(note: str) -> None:
    """Print a line to stderr, such as a warning about missing characters; nothing if it is empty."""
    if note:
        click.echo(f"dragoman: {note}", err=True)
