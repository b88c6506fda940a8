"""`dragoman score`: the log-probability of given translations, one line per pair."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from dragoman.cli import decode_argument, note
from dragoman.cli.input import (
    STDIN,
    check_readable,
    existing_files,
    parse_path,
    prompt_terminal,
    read_trees,
    stream_lines,
    stream_pairs,
)
from dragoman.cli.options import NAME, Command, complete_model, examples, reject_unused
from dragoman.cli.options.engine_options import ensemble_arguments, ensemble_options
from dragoman.cli.options.ray_options import RayArguments, row_options
from dragoman.cli.options.sentence_options import check_pair_options
from dragoman.cli.output import (
    LineReporter,
    flush_before_waiting,
    open_output,
    parse_output,
    resolve_output,
    should_report,
)
from dragoman.data.corpora.corpus import Corpus
from dragoman.data.corpora.reader import parse_tsv_line
from dragoman.errors import DataError
from dragoman.search.types import Search
from dragoman.values import plural

PairBatches = Iterator[list[tuple[str, str]]]


@click.command(cls=Command, epilog=examples("dragoman score my-model --source test.en --target test.de"))
@click.argument("model", type=NAME, shell_complete=complete_model)
@click.argument("files", nargs=-1, type=NAME)
@click.option("--text", metavar="SENTENCE", help="Source sentence.")
@click.option("--translation", metavar="SENTENCE", help="Translation to score.")
@click.option("--source", type=NAME, help="Plain text, one source sentence per line.")
@click.option("--target", type=NAME, help="Translations to score, one per line.")
@click.option("--source-key", default="", help="Source column in TSV, from 1, or field with --ray.")
@click.option("--target-key", default="", help="Target column in TSV, or field with --ray.")
@click.option("-o", "--output", type=NAME, default="-", help="Output file; it appears when it is complete.")
@click.option("--per-token", is_flag=True, help="log P / number of tokens, EOS included.")
@click.option("--length-penalty", type=float,
              help="log P / lp with this exponent, like `translate --scores` (0.6 there).")  # fmt: skip
@click.option(
    "--json", "as_json", is_flag=True, help="Write a JSON object for each pair, with the log-probability of each token."
)
@click.option("--to", metavar="CODE", help="Target language, for a multilingual model.")
@click.option("--source-trees", "trees", type=NAME, multiple=True,
              help="Dependency trees of the sources in CoNLL-U, for a model that reads them.")  # fmt: skip
@ensemble_options
@click.option("--device", default="auto", show_default=True, help="Device: auto, cpu, cuda, cuda:1, ...")
@click.option("--precision", type=click.Choice(["auto", "bfloat16", "float32"]), default="auto", show_default=True,
              help="Precision of the weights; auto is float32.")  # fmt: skip
@click.option("--threads", type=int, help="CPU threads.  [default: OMP_NUM_THREADS, or all]")
@click.option("--batch", type=int, help="Pairs per batch.  [default: the engine's choice]")
@click.option("--progress/--no-progress", default=None,
              help="Show engine, speed and mean on stderr; the default if stderr is a terminal.")  # fmt: skip
@row_options("score")
def command(
    model: str,
    files: tuple[str, ...],
    text: str | None,
    translation: str | None,
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
    adapter: str | None,
    ensemble: tuple[str, ...],
    mean: str,
    batch: int | None,
    progress: bool | None,
    **engine: Any,
) -> None:
    """Write log P(target | source), the natural logarithm, of each sentence pair under MODEL.

    Pairs are lines of FILES or standard input (source, tab, target), or lines i of --source and --target, or --text
    and --translation. Each pair gives one line, in order. Pairs of any length are scored whole: nothing is dropped,
    split or truncated.

    With --ray, FILES are also patterns and URLs of TSV, JSON lines and Parquet, with --source-key and --target-key for
    their fields; each gives a file of the same name in -o DIR.
    """
    from dragoman.modeldir.locate import find_model

    directory = find_model(model)
    if per_token and length_penalty is not None:
        raise click.UsageError("--per-token cannot be combined with --length-penalty; drop one of them")
    show = "per_token" if per_token else "log_probability" if length_penalty is None else "score"
    search = Search() if length_penalty is None else Search(length_penalty=length_penalty)
    models = ensemble_arguments(ensemble, mean, adapter)
    if (on_ray := RayArguments.take(engine)) is not None:
        reject_unused(("text", "translation", "source", "target", "as_json", "trees"), "--ray reads rows of FILES")
        keys = {"source_field": source_key, "target_field": target_key}
        rows = {name: key for name, key in keys.items() if key} | {"measure": show}
        options: dict[str, Any] = {"length_penalty": search.length_penalty, "batch": batch, "to": to}
        import dragoman.ray

        on_ray.run(dragoman.ray.score, directory, files, output, progress, engine | models, rows | options)
        return
    plain = any(given is not None for given in (text, translation, source, target))
    if plain:
        check_pair_options(text, translation, source, target)
    sides = [] if text is not None else pair_files(files, source, target)
    if text is not None and files:
        raise DataError(f"--text cannot be combined with {files[0]}; give one of them", code="conflicting_options")
    check_readable(sides, "for a pair of sentences, use --text and --translation")
    tree_files = existing_files(trees)
    place = resolve_output(parse_output(output), [*sides, *tree_files])
    if plain:
        reject_unused(("source_key", "target_key"), "only TSV has columns")
    if as_json:
        reject_unused(("per_token",), "--json always has it, as per_token")
    corpora = [] if plain else [Corpus(side or STDIN, None, "tsv", source_key, target_key) for side in sides]
    blocks: PairBatches
    if text is not None and translation is not None:
        blocks = iter([[(decode_argument("--text", text), decode_argument("--translation", translation))]])
    else:
        blocks = stream_pairs(*sides) if plain else read_pair_files(sides, corpora)
    from dragoman.translation.overlap import Blocks
    from dragoman.translation.translator import Translator

    translator = Translator.load(directory, **engine, **models)
    aligner = read_trees(tree_files)
    translator.parse_trees(aligner)
    translator.resolve_target(to)  # checked before a line is read
    running = translator.engines.scoring_info
    report = ScoreReport(should_report(progress, place), place)
    if report.live:
        note(str(running))
    options = {"length_penalty": search.length_penalty, "trees": aligner, "batch": batch, "to": to}
    prompt_terminal([] if plain else sides, "Type a sentence, a tab and its translation; Ctrl-D ends.")
    with open_output(place) as (into, done), report:
        for scored in translator.stream_scores(Blocks(flush_before_waiting(into, blocks)), **options):
            report.count(scored)
            into.write(format_json(scored, report.done) if as_json else f"{getattr(scored, show):.4f}\n".encode())
            if report.done % 64 == 0:
                into.flush()
        into.flush()
        if aligner is not None:
            aligner.check_finished()
        done()


def pair_files(files: Sequence[str], source: str | None, target: str | None) -> list[Path | None]:
    """The files to read: files of pairs, or the two sides."""
    if source is None:
        return [parse_path(file) for file in files or ("-",)]
    if files:
        raise DataError(
            f"{files[0]} cannot be combined with --source and --target; give pairs in FILES, or two files",
            code="conflicting_options",
        )
    assert target is not None  # checked with the options
    if source == target == "-":
        raise DataError(
            "--source and --target cannot both be standard input; give pairs there, separated by tabs",
            code="conflicting_options",
        )
    return [parse_path(source), parse_path(target)]


def read_pair_files(files: Sequence[Path | None], corpora: Sequence[Corpus]) -> PairBatches:
    """The pairs of TSV files as they arrive; all pairs before an invalid line precede the error."""
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


def format_json(scored: Any, number: int) -> bytes:
    """The result of a pair as a line of JSON."""
    import json

    fields = {
        "line": number,
        "log_probability": scored.log_probability,
        "per_token": scored.per_token,
        "score": scored.score,
        "tokens": scored.tokens,
        "token_log_probabilities": scored.token_log_probabilities,
    }
    return (json.dumps(fields, ensure_ascii=False) + "\n").encode()


class ScoreReport(LineReporter):
    """Show progress, and at the end the mean over all tokens."""

    def __init__(self, live: bool, path: Path | None = None) -> None:
        super().__init__(live, path)
        self.tokens, self.total = 0, 0.0

    def count(self, scored: Any) -> None:
        """Count a pair."""
        self.done += 1
        self.tokens += len(scored.tokens)
        self.total += scored.log_probability
        self.tick()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if self.live and self.tokens:
            mean = self.total / self.tokens
            perplexity = f"{math.exp(-mean):,.2f}" if -mean < 700 else "infinite"
            note(f"{plural(self.tokens, 'token')}, log P {mean:.4f} per token, perplexity {perplexity}")
