"""`dragoman score`: how likely a model finds translations that are given, a line for each pair."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from dragoman.cli import note
from dragoman.cli.input import STDIN, check_inputs, parse_path, stream_lines, stream_pairs
from dragoman.cli.line_progress import LineReporter, should_report
from dragoman.cli.options.completion import complete_model
from dragoman.cli.options.ensemble_options import ensemble_arguments, ensemble_options
from dragoman.cli.options.unused_options import reject_unused
from dragoman.cli.output import open_output, resolve_output
from dragoman.data.corpora.compression import check_file
from dragoman.data.corpora.corpus import Corpus
from dragoman.data.corpora.reader import parse_tsv_line
from dragoman.errors import DataError
from dragoman.search.types import Search

Pairs = Iterator[list[tuple[str, str]]]


@click.command()
@click.argument("model", shell_complete=complete_model)
@click.argument("files", nargs=-1, type=click.Path())
@click.option("--source", type=click.Path(), help="Plain text, a source sentence per line.")
@click.option("--target", type=click.Path(), help="Its translation, line by line: what is scored.")
@click.option("--source-key", default="", help="The source's column in TSV, from 1.")
@click.option("--target-key", default="", help="The target's column in TSV.")
@click.option(
    "-o", "--output", type=click.Path(), default="-", help="Write to this file, which appears when it is done."
)
@click.option("--per-token", is_flag=True, help="log P over the number of tokens, the end mark counted.")
@click.option("--length-penalty", type=float,
              help="log P / lp with this alpha, as `translate --scores` has it (there 0.6).")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="A JSON object for each pair, with the tokens and what each had.")
@click.option("--to", metavar="CODE", help="The language of the targets, for a model of several.")
@click.option("--source-trees", "trees", type=click.Path(), multiple=True,
              help="The sources' dependency trees in CoNLL-U, for a model that reads them.")  # fmt: skip
@ensemble_options
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ...")
@click.option("--precision", type=click.Choice(["auto", "bfloat16", "float32"]), default="auto", show_default=True,
              help="Of the weights; auto is float32 on a CPU.")  # fmt: skip
@click.option("--threads", type=int, help="CPU threads; without it OMP_NUM_THREADS, or all.")
@click.option("--batch", type=int, help="Pairs at a time; the engine's own choice, without it.")
@click.option("--progress/--no-progress", default=None,
              help="What scores, how quickly, and the mean, on stderr; by default if that is a terminal.")  # fmt: skip
def command(
    model: str,
    files: tuple[str, ...],
    source: str | None,
    target: str | None,
    source_key: str,
    target_key: str,
    output: str,
    per_token: bool,
    length_penalty: float | None,
    as_json: bool,
    to: str | None,
    trees: tuple[str, ...],
    ensemble: tuple[str, ...],
    mean: str,
    batch: int | None,
    progress: bool | None,
    **engine: Any,
) -> None:
    """Write log P(target | source), the natural logarithm, that MODEL gives each pair of sentences.

    Pairs are lines of FILES or of standard input, source, tab, target; or lines i of --source and --target. Each pair
    gives one line, in order. The whole pair is scored, however long: nothing is dropped, split or cut.
    """
    from dragoman.modeldir.locate import find_model

    directory = find_model(model)
    plain = source is not None or target is not None
    sides = sides_of(files, source, target)
    check_inputs(sides)
    parses = [Path(file) for file in trees]
    for parse in parses:
        check_file(parse)
    place = resolve_output(parse_path(output), [*sides, *parses])
    if plain:
        reject_unused(("source_key", "target_key"), "they are columns of TSV, and --source and --target are plain text")
    if per_token and length_penalty is not None:
        raise click.UsageError("--per-token and --length-penalty divide by different things; give one of them")
    if as_json:
        reject_unused(("per_token",), "--json has it anyway, as per_token")
    models = ensemble_arguments(ensemble, mean)
    search = Search() if length_penalty is None else Search(length_penalty=length_penalty)
    corpora = [] if plain else [Corpus(side or STDIN, None, "tsv", source_key, target_key) for side in sides]
    given = stream_pairs(*sides) if plain else columns(sides, corpora)
    from dragoman.data.corpora.reader import read_trees_file
    from dragoman.text.trees.dependency import TreeAligner
    from dragoman.translation.source_trees import check_trees
    from dragoman.translation.translator import Translator

    translator = Translator.load(directory, engine="torch", **engine, **models)
    grown = TreeAligner(tree for path in parses for tree in read_trees_file(path)) if parses else None
    check_trees(translator.tree_model, grown)
    translator.resolve_target(to)  # refused before a line is read
    running = translator.running_for(search=search)
    report = Tally(should_report(progress, place))
    if report.live:
        note(str(running))
    show = "per_token" if per_token else "log_probability" if length_penalty is None else "score"
    asked: dict[str, Any] = {"length_penalty": search.length_penalty, "trees": grown, "batch": batch, "to": to}
    with open_output(place) as (into, done), report:
        for pairs in given:
            for scored in translator.stream_scores(pairs, before=report.done, **asked):
                report.count(scored)
                into.write(entry(scored, report.done) if as_json else f"{getattr(scored, show):.4f}\n".encode())
                if report.done % 64 == 0:
                    into.flush()
            into.flush()
        if grown is not None:
            grown.check_finished()
        done()


def sides_of(files: Sequence[str], source: str | None, target: str | None) -> list[Path | None]:
    """What is read: the files of pairs, or the two sides of them."""
    if source is None and target is None:
        return [parse_path(file) for file in files or ("-",)]
    if files:
        raise DataError(f"{files[0]} came beside --source and --target; give pairs as lines of FILES, or as two files")
    if source is None or target is None:
        lacking = "--source" if source is None else "--target"
        raise DataError(f"a pair has two sides, but there is no {lacking}; give both --source and --target")
    if source == target == "-":
        raise DataError("--source and --target cannot both be standard input; give pairs there, with a tab between")
    return [parse_path(source), parse_path(target)]


def columns(files: Sequence[Path | None], corpora: Sequence[Corpus]) -> Pairs:
    """The pairs of TSV files, as soon as they are there; those before a wrong line are given before it is refused."""
    for path, corpus in zip(files, corpora, strict=True):
        number = 0
        for lines in stream_lines([path]):
            pairs: list[tuple[str, str]] = []
            try:
                for line in lines:
                    source, target = parse_tsv_line(corpus, line, number + len(pairs) + 1)
                    pairs.append((source, target))
            except DataError:
                yield pairs
                raise
            yield pairs
            number += len(lines)


def entry(scored: Any, number: int) -> bytes:
    """All there is to know of a pair, as a line of JSON."""
    import json

    told = {
        "line": number,
        "log_probability": scored.log_probability,
        "per_token": scored.per_token,
        "score": scored.score,
        "tokens": scored.tokens,
        "token_log_probabilities": scored.token_log_probabilities,
    }
    return (json.dumps(told, ensure_ascii=False) + "\n").encode()


class Tally(LineReporter):
    """Progress, and at the end the mean of all tokens."""

    def __init__(self, live: bool) -> None:
        super().__init__(live)
        self.tokens, self.total = 0, 0.0

    def count(self, scored: Any) -> None:
        """One pair more."""
        self.done += 1
        self.tokens += len(scored.tokens)
        self.total += scored.log_probability
        self.tick()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if self.live and self.tokens:
            mean = self.total / self.tokens
            perplexity = f"{math.exp(-mean):,.2f}" if -mean < 700 else "beyond any number"
            note(f"{self.tokens:,} tokens, log P {mean:.4f} a token, perplexity {perplexity}")
