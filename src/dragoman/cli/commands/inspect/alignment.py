"""`dragoman inspect alignment`: word alignments of sentence pairs, as text or as a picture."""

from __future__ import annotations

from pathlib import Path

import click

from dragoman.cli.commands.inspect.arguments import (
    check_line,
    check_suffix,
    load_translator,
    load_trees,
    note_warning,
)
from dragoman.cli.options import FILE, NAME, OUTPUT_FILE, Command, complete_model, examples
from dragoman.cli.options.sentence_options import check_pair_options, read_given_pairs, sentence_options
from dragoman.cli.output import check_stdout
from dragoman.errors import DragomanError
from dragoman.inspect.pictures import PICTURE_SUFFIXES
from dragoman.values import MAX_INT, plural


@click.command(
    cls=Command,
    short_help="Word alignments of sentence pairs.",
    epilog=examples("dragoman inspect alignment my-model --source test.en --target test.de"),
)
@click.argument("model", type=NAME, shell_complete=complete_model)
@sentence_options
@click.option("--source-trees", "trees", type=FILE, help="Trees of the sources (CoNLL-U), for a model that reads them.")
@click.option("--to", metavar="CODE", help="Language of the targets, for a multilingual model.")
@click.option("--out", type=OUTPUT_FILE, help=f"Draw one pair ({', '.join(PICTURE_SUFFIXES)}) instead of printing all.")
@click.option("--line", type=click.IntRange(1, MAX_INT), help="Pair to draw (default: the first).")
@click.option("--gold", type=FILE, help="Gold links (i-j sure, ipj possible); prints the alignment error rate.")
@click.option("--gold-first", type=click.IntRange(0, 1), help="Number of the first word in --gold (default: 0).")
def command(
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
        check_suffix(out, PICTURE_SUFFIXES)
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
    translator = load_translator(model)
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
        note_warning(draw_alignment(names[0], names[1], links[number - 1], out))
