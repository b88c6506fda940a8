"""`dragoman inspect attention`: attention of one sentence pair, as a picture or a page."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import click

from dragoman.cli.commands.inspect.arguments import (
    PAGE_SUFFIXES,
    check_line,
    check_suffix,
    load_translator,
    load_trees,
    note_warning,
)
from dragoman.cli.options import FILE, NAME, OUTPUT_FILE, Command, complete_model, examples, reject_unused
from dragoman.cli.options.sentence_options import check_pair_options, read_given_pairs, sentence_options
from dragoman.values import MAX_INT


@click.command(
    cls=Command,
    short_help="Attention of every layer and head for one sentence.",
    epilog=examples('dragoman inspect attention my-model --text "Good morning!" --out page.html'),
)
@click.argument("model", type=NAME, shell_complete=complete_model)
@sentence_options
@click.option(
    "--line", type=click.IntRange(1, MAX_INT), help="Line of --source and --target to show (default: the first)."
)
@click.option("--source-trees", "trees", type=FILE, help="Trees of the sources (CoNLL-U), for a model that reads them.")
@click.option("--to", metavar="CODE", help="Target language, for a multilingual model.")
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
def command(
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

        note_warning(draw_heads(recorded, out, kind or "cross", layer, head, words))
    if given is None:
        click.echo(recorded.target_text)
