"""`dragoman translate`: one line of output for each line of input, or whole documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dragoman.cli import decode_argument, note
from dragoman.cli.input import (
    are_documents,
    check_model_first,
    check_readable,
    existing_files,
    is_folder,
    parse_path,
    prompt_terminal,
    read_trees,
    stream_lines,
)
from dragoman.cli.options import NAME, Command, complete_model, examples, reject_unused
from dragoman.cli.options.constraint_options import LineConstraints, constraint_files, constraint_options
from dragoman.cli.options.engine_options import engine_options, ensemble_arguments, ensemble_options
from dragoman.cli.options.ray_options import RayArguments, row_options
from dragoman.cli.output import (
    LineReporter,
    flush_before_waiting,
    open_output,
    parse_output,
    resolve_output,
    should_report,
)
from dragoman.engines.base import EngineRequest
from dragoman.errors import DataError
from dragoman.search.types import MAX_BEAM, Sampling, Search

if TYPE_CHECKING:
    from dragoman.translation.translator import Translator

LINE_OPTIONS = ("nbest", "scores", "alignments", "as_json", "trees", "prefix", "require", "constraints")
ROW_OPTIONS = ("texts", "nbest", "as_json", "trees", "constraints")
LINE_ENDS = {ord("\n"): " ", ord("\r"): " "}


@click.command(
    cls=Command,
    epilog=examples(
        'dragoman translate my-model --text "Good morning!"',
        "dragoman translate my-model book.en -o book.de",
        "dragoman translate my-model page.html -o page.de.html",
        "dragoman translate my-model --nbest 4 --scores < book.en",
    ),
)
@click.argument("model", type=NAME, shell_complete=complete_model)
@click.argument("files", nargs=-1, type=NAME)
@click.option("--text", "texts", multiple=True, metavar="SENTENCE", help="A sentence to translate; repeatable.")
@click.option("-o", "--output", type=NAME, default="-", help="Output file; it appears when it is complete.")
@click.option("--format", "format_name", metavar="NAME",
              help="Format of a document, such as html; text is line by line.  [default: by content]")  # fmt: skip
@click.option("--review", type=NAME, help="HTML page to write with a document and its translation side by side.")
@click.option("--bilingual", type=NAME, help="File to write with both texts for CAT tools: .xlf or .tmx.")
@click.option("--memory", type=NAME, multiple=True,
              help="Translation memory for documents, .tmx or .tsv; repeatable, the last one wins.")  # fmt: skip
@click.option("--retranslate", is_flag=True, help="Replace the translations that a PO, XLIFF or TMX file has.")
@click.option(
    "--nbest", type=click.IntRange(1, MAX_BEAM), default=1, help="Number of translations per line, best first."
)
@click.option(
    "--scores",
    is_flag=True,
    help="Add a column with the score: log-probability divided by the length penalty; --json always has it.",
)
@click.option("--alignments", is_flag=True, help="Add a column with word alignments, such as 0-0 1-2, source first.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line, with all results.")
@click.option("--beam", type=int, help="Beam size; 1 is greedy search.  [default: 4, or --nbest if that is larger]")
@click.option(
    "--length-penalty",
    type=float,
    default=Search.length_penalty,
    show_default=True,
    help="Length-penalty exponent (0 ranks by probability alone).",
)
@click.option("--min-length", type=int, default=0, help="Minimum number of tokens.")
@click.option("--max-length", type=int, help="Maximum number of tokens; --extra-length applies too.")
@click.option("--extra-length", type=int, default=Search.extra_length, show_default=True,
              help="Maximum number of tokens beyond the length of the source.")  # fmt: skip
@click.option("--no-repeat", type=int, default=0, metavar="N", help="Never repeat an n-gram of N tokens.")
@click.option("--source-trees", "trees", type=NAME, multiple=True,
              help="Dependency trees of the lines in CoNLL-U, for a model that reads them.")  # fmt: skip
@click.option("--to", metavar="CODE", help="Target language, such as de, for a multilingual model.")
@click.option("--prefix", help="Beginning of every translation.")
@constraint_options
@click.option("--sample", is_flag=True, help="Sample translations; implied by the next three options.")
@click.option(
    "--temperature", type=float, help="Sampling temperature; below 1 sharpens the distribution, above 1 flattens it."
)
@click.option("--top-k", type=int, help="Sample from the K likeliest tokens.")
@click.option("--top-p", type=float, help="Sample from the likeliest tokens with total probability P.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed for sampling.")
@click.option("--split", type=click.Choice(["auto", "sentences", "never"]), default="auto", show_default=True,
              help="Split lines into sentences; auto joins those that the training data had together.")  # fmt: skip
@ensemble_options
@click.option("--language", help="Source language, for splitting lines into sentences.  [default: the model's, or en]")
@engine_options
@click.option("--batch", type=int, help="Sentences per batch.  [default: the engine's choice]")
@click.option("--reproducible", is_flag=True, help="Bit-identical output, independent of the other lines; slower.")
@click.option("--progress/--no-progress", default=None,
              help="Show engine and speed on stderr; the default if stderr is a terminal.")  # fmt: skip
@row_options("translation")
@click.option(
    "--field", metavar="NAME", help="Field of the text in JSON lines and Parquet, with --ray.  [default: text]"
)
def command(
    model: str,
    files: tuple[str, ...],
    texts: tuple[str, ...],
    output: str,
    format_name: str | None,
    review: str | None,
    bilingual: str | None,
    memory: tuple[str, ...],
    retranslate: bool,
    nbest: int,
    scores: bool,
    alignments: bool,
    as_json: bool,
    beam: int | None,
    trees: tuple[str, ...],
    to: str | None,
    prefix: str | None,
    sample: bool,
    temperature: float | None,
    top_k: int | None,
    top_p: float | None,
    seed: int,
    adapter: str | None,
    ensemble: tuple[str, ...],
    mean: str,
    language: str | None,
    progress: bool | None,
    **settings: Any,
) -> None:
    """Translate FILES, --text, or standard input, with MODEL (a directory, or a model's name) to standard output.

    Documents (.docx, .html, .po, .srt and others) are recognized and written with their markup; several of them, or
    folders, need -o DIR, and what is finished is not translated again.

    Each line of input gives one line of output; empty lines stay empty. Only \\n ends a line. With --nbest each line
    gives several, with the line number as the first column. Columns are separated by tabs.

    With --ray, FILES are also patterns and URLs of text, JSON lines and Parquet; each gives a file of the same name in
    -o DIR, and what is finished is not translated again.
    """
    from dragoman.modeldir.locate import find_model

    check_model_first(model, files)
    directory = find_model(model)
    on_ray = RayArguments.take(settings)
    sources = text_files(model, files, texts) if on_ray is None else on_ray.find_documents(files, format_name)
    sentences = [line for text in texts for line in decode_argument("--text", text).split("\n")]
    documents = format_name != "text" and are_documents(sources, format_name)
    tree_files = existing_files(trees)
    existing_files(memory)
    given = [*sources, *tree_files, *constraint_files(settings)]
    if documents:
        reject_unused(LINE_OPTIONS, "documents are translated as a whole; use --format text for lines")
    else:
        reject_unused(("review", "bilingual", "memory", "retranslate"), "it is for documents, such as .html")
    place = None if documents or on_ray else text_output(output, given)
    prefix = None if prefix is None else decode_argument("--prefix", prefix)
    if settings["split"] == "never":
        reject_unused(("language",), "--split never does not split lines into sentences")
    models, constraints = ensemble_arguments(ensemble, mean, adapter), LineConstraints(settings)
    sampling = make_sampling(sample, seed, temperature=temperature, top_k=top_k, top_p=top_p)
    search = make_search(nbest, beam, sampling, settings)
    from dragoman.translation.translator import Translator

    engine = {name: settings.pop(name) for name in ("engine", "device", "precision", "threads")}
    translator = Translator.load(directory, language=language, **engine, **models)
    options = {"search": search, "to": to, **settings}
    if documents:
        from dragoman.cli.document_files import translate_files

        options |= constraints.take([])[1]
        translate_files(
            translator, sources, output, format_name, progress, options, review, bilingual, memory, retranslate, on_ray,
            given=[path for path in given if path is not None],
        )  # fmt: skip
        return
    if on_ray is not None:
        reject_unused(ROW_OPTIONS, "--ray writes a row for each row of FILES")
        options |= {"prefix": prefix, "scores": scores, "alignments": alignments, **constraints.take([])[1]}
        loading = {**engine, "language": language, **models}
        import dragoman.ray

        on_ray.run(dragoman.ray.translate, directory, files, output, progress, loading, options)
        return
    aligner = read_trees(tree_files)
    options |= {"prefix": prefix, "alignment": alignments, "trees": aligner}
    engine_note = check_options(translator, constraints, options)
    report = LineReporter(should_report(progress, place), place)
    if report.live:
        note(engine_note)
    prompt_terminal(sources, "Type a sentence and press Enter; Ctrl-D ends.")
    show = Columns(scores, alignments, nbest > 1, as_json)
    blocks = [sentences] if texts else stream_lines(sources)
    translate_lines(translator, blocks, place, constraints, options, show, report)


def text_output(output: str, given: Sequence[Path | None]) -> Path | None:
    """The file to write lines to, None for standard output."""
    place = resolve_output(parse_output(output), given)
    if place is not None:
        from dragoman.documents.detect import check_text_output

        check_text_output(place)
    return place


def text_files(model: str, files: tuple[str, ...], texts: tuple[str, ...]) -> list[Path | None]:
    """The files to read, None for standard input; empty if --text is given instead."""
    if texts:
        if files:
            raise DataError(f"--text cannot be combined with {files[0]}; give one of them", code="conflicting_options")
        reject_unused(("format_name",), "sentences have no format")
        return []
    sources = [parse_path(file) for file in files or ("-",)]
    advice = f"to translate a sentence, use --text, or: echo SENTENCE | dragoman translate {model}"
    check_readable([path for path in sources if not is_folder(path)], advice)
    return sources


def make_sampling(sample: bool, seed: int, **values: Any) -> Sampling | None:
    """How to sample, or None; each of the options implies --sample."""
    given = {name: value for name, value in values.items() if value is not None}
    return Sampling(seed=seed, **given) if sample or given else None


def make_search(nbest: int, beam: int | None, sampling: Sampling | None, settings: dict[str, Any]) -> Search:
    """The search; its options are removed from `settings`."""
    if sampling is not None:
        reject_unused(("beam",), "sampling does not search; drop it, or --sample")
    else:
        reject_unused(("seed",), "nothing is sampled; add --sample")
    if beam is not None and 0 < beam < nbest:
        raise click.UsageError(f"--nbest {nbest} needs --beam {nbest} or more; got --beam {beam}; raise or drop --beam")
    return Search(
        beam=max(Search.beam, nbest) if beam is None else beam,
        n_best=nbest,
        length_penalty=settings.pop("length_penalty"),
        min_length=settings.pop("min_length"),
        max_length=settings.pop("max_length"),
        extra_length=settings.pop("extra_length"),
        no_repeat=settings.pop("no_repeat"),
        sampling=sampling,
    )


def check_options(translator: Translator, constraints: LineConstraints, options: dict[str, Any]) -> str:
    """Check the options and load the engine before a line is read; a description of the engine."""
    search, prefix, aligner, to = (options[name] for name in ("search", "prefix", "trees", "to"))
    translator.parse_trees(aligner)
    translator.resolve_target(to)
    running = translator.running_for(search=search, prefix=prefix, alignment=options["alignment"])
    if not constraints:
        return str(running)
    list(translator.stream([], search=search, prefix=prefix, trees=aligner, to=to, **constraints.take([])[1]))
    other = translator.engines.spec_for(EngineRequest(search, prefix is not None, constraints=True)).name
    return f"{running}{'' if other == running.engine else f'; {other} for required or avoided phrases'}"


def translate_lines(
    translator: Translator,
    blocks: Iterable[list[str]],
    place: Path | None,
    constraints: LineConstraints,
    options: dict[str, Any],
    show: Columns,
    report: LineReporter,
) -> None:
    """Write the translation of each line to `place`, or to standard output, as soon as it is there."""
    with open_output(place) as (target, done), report:
        blocks = flush_before_waiting(target, blocks)
        if protects_placeholders(constraints, options):
            from dragoman.documents.lines import LineTranslator

            found = LineTranslator(translator, **options, **constraints.all).stream(blocks)
        else:
            found = constraints.stream(translator, blocks, options)
        for translation in found:
            report.count(translation)
            constraints.warn(translation, report.done)
            target.write(show.lines(translation, report.done))
            if report.done % 64 == 0:
                target.flush()
        target.flush()
        if options["trees"] is not None:
            options["trees"].check_finished()
        constraints.check_all_used()
        done()


def protects_placeholders(constraints: LineConstraints, options: dict[str, Any]) -> bool:
    """Whether URLs and placeholders are masked: not if words of the line itself are needed, or given for each line."""
    search: Search = options["search"]
    given = any(options[name] for name in ("prefix", "alignment", "trees"))
    plain = search.n_best == 1 and search.sampling is None and not given
    return plain and constraints.each is None and not constraints.all.get("require")


def one_line(text: str) -> str:
    """A text without line ends."""
    return text.translate(LINE_ENDS) if "\n" in text or "\r" in text else text


class Columns:
    """Format a translation as columns or JSON."""

    def __init__(self, scores: bool, alignments: bool, numbered: bool, as_json: bool) -> None:
        self.scores, self.alignments, self.numbered, self.as_json = scores, alignments, numbered, as_json
        self.plain = not (scores or alignments or numbered)

    def lines(self, translation: Any, number: int) -> bytes:
        """The line of a translation, or the lines of its n-best list."""
        if self.as_json:
            return self._json(translation, number)
        if self.plain:
            return f"{one_line(translation.text)}\n".encode()
        return "".join(self._line(one, number) for one in (translation, *translation.alternatives)).encode()

    def _line(self, one: Any, number: int) -> str:
        cells = [str(number)] if self.numbered else []
        cells.append(one_line(one.text).replace("\t", " "))
        if self.scores:
            cells.append(f"{one.score:.4f}")
        if self.alignments:
            cells.append(" ".join(f"{s}-{t}" for s, t in one.alignment or ()))
        return "\t".join(cells) + "\n"

    def _json(self, translation: Any, number: int) -> bytes:
        import json

        def fields_of(one: Any) -> dict[str, Any]:
            entry = {"text": one.text, "score": one.score, "log_probability": one.log_probability}
            entry["confidence"] = one.confidence
            entry |= {"tokens": one.tokens, "flags": one.flags}
            if one.met or one.unmet:
                entry |= {"met": one.met, "unmet": one.unmet}
            return entry if one.alignment is None else entry | {"alignment": one.alignment}

        entry = {"line": number, **fields_of(translation)}
        if self.numbered:
            entry["alternatives"] = [fields_of(one) for one in translation.alternatives]
        return (json.dumps(entry, ensure_ascii=False) + "\n").encode()
