"""`dragoman translate`: a line in, a line out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dragoman.cli import note
from dragoman.cli.input import check_inputs, decode_argument, parse_path, stream_lines
from dragoman.cli.line_progress import LineReporter, should_report
from dragoman.cli.options.completion import complete_model
from dragoman.cli.options.constraint_options import LineConstraints, constraint_files, constraint_options
from dragoman.cli.options.ensemble_options import ensemble_arguments, ensemble_options
from dragoman.cli.options.unused_options import reject_unused
from dragoman.cli.output import open_output, resolve_output
from dragoman.data.corpora.compression import check_file
from dragoman.engines.base import EngineRequest
from dragoman.engines.select import ENGINES, PRECISIONS
from dragoman.search.types import MAX_BEAM, Sampling, Search

LINE_ENDS = {ord("\n"): " ", ord("\r"): " "}


@click.command()
@click.argument("model", shell_complete=complete_model)
@click.argument("files", nargs=-1, type=click.Path())
@click.option(
    "-o", "--output", type=click.Path(), default="-", help="Write to this file, which appears when it is done."
)
@click.option(
    "--nbest", type=click.IntRange(1, MAX_BEAM), default=1, help="So many translations of each line, best first."
)
@click.option("--scores", is_flag=True, help="Add a column with the score, log P / lp; --json has it anyway.")
@click.option("--alignments", is_flag=True, help="Add a column with aligned words, as in 0-0 1-2, source first.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object for each line, with all there is to know.")
@click.option("--beam", type=int, help="Hypotheses kept; 1 is greedy search.  [default: 4, or --nbest if that is more]")
@click.option("--length-penalty", type=float, default=Search.length_penalty, show_default=True, help="alpha of lp.")
@click.option("--min-length", type=int, default=0, help="At least so many tokens.")
@click.option("--max-length", type=int, help="At most so many tokens; --extra-length holds as well.")
@click.option("--extra-length", type=int, default=Search.extra_length, show_default=True,
              help="At most so many tokens more than the source has.")  # fmt: skip
@click.option("--no-repeat", type=int, default=0, metavar="N", help="Never write the same N tokens in a row twice.")
@click.option("--source-trees", "trees", type=click.Path(), multiple=True,
              help="The lines' dependency trees in CoNLL-U, for a model that reads them.")  # fmt: skip
@click.option("--to", metavar="CODE", help="The language to translate into, such as de, for a model of several.")
@click.option("--prefix", help="What every translation begins with.")
@constraint_options
@click.option("--sample", is_flag=True, help="Draw translations by chance; the next three options imply it.")
@click.option("--temperature", type=float, help="Under 1 the likely gets likelier, over 1 less so.")
@click.option("--top-k", type=int, help="Draw from the K likeliest tokens.")
@click.option("--top-p", type=float, help="Draw from the likeliest tokens that together have probability P.")
@click.option("--seed", type=int, default=1, show_default=True, help="Which draws.")
@click.option("--split", type=click.Choice(["long", "sentences", "never"]), default="long", show_default=True,
              help="Which lines are translated sentence by sentence.")  # fmt: skip
@ensemble_options
@click.option("--language", default="en", show_default=True, help="The source's code, for rules to find sentences by.")
@click.option("--engine", type=click.Choice(["auto", *ENGINES]), default="auto", show_default=True,
              help="What computes; auto takes the quickest that is there and knows the model.")  # fmt: skip
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ...")
@click.option("--precision", type=click.Choice(PRECISIONS), default="auto", show_default=True,
              help="Of the weights; auto is int8 on a CPU where the engine has it.")  # fmt: skip
@click.option("--threads", type=int, help="CPU threads; without it OMP_NUM_THREADS, or all.")
@click.option("--batch", type=int, help="Sentences at a time; the engine's own choice, without it.")
@click.option("--reproducible", is_flag=True, help="To the last bit the same, whatever else is translated with a line.")
@click.option("--progress/--no-progress", default=None,
              help="What translates, and how quickly, on stderr; by default where that is a terminal.")  # fmt: skip
def command(
    model: str,
    files: tuple[str, ...],
    output: str,
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
    ensemble: tuple[str, ...],
    mean: str,
    language: str,
    engine: str,
    device: str,
    precision: str,
    threads: int | None,
    progress: bool | None,
    **settings: Any,
) -> None:
    """Translate FILES, or standard input, with MODEL (a directory, or a model's name) to standard output.

    Each line of the input gives one line of the output; empty lines stay empty. Lines end at \\n alone. With --nbest
    each line gives several, with the number of the line as a first column. Columns are separated by tabs.
    """
    from dragoman.modeldir.locate import find_model

    directory = find_model(model)  # before the files: where the two are swapped, it is the model that is missed
    sources = [parse_path(file) for file in files or ("-",)]
    check_inputs(sources)
    parses = [Path(file) for file in trees]
    for parse in parses:
        check_file(parse)
    place = resolve_output(parse_path(output), [*sources, *parses, *constraint_files(settings)])
    prefix = None if prefix is None else decode_argument("--prefix", prefix)
    chances: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    drawn = {name: value for name, value in chances.items() if value is not None}
    if settings["split"] == "never":
        reject_unused(("language",), "it finds the sentences of a line, and --split never finds none")
    models, line_constraints = ensemble_arguments(ensemble, mean), LineConstraints(settings)
    search = search_of(nbest, beam, Sampling(seed=seed, **drawn) if sample or drawn else None, settings)
    from dragoman.data.corpora.reader import read_trees_file
    from dragoman.text.trees.dependency import TreeAligner
    from dragoman.translation.source_trees import check_trees
    from dragoman.translation.translator import Translator

    translator = Translator.load(
        directory, device=device, engine=engine, threads=threads, precision=precision, language=language, **models
    )
    grown = TreeAligner(tree for path in parses for tree in read_trees_file(path)) if parses else None
    check_trees(translator.tree_model, grown)
    translator.resolve_target(to)  # refused before a line is read
    # loaded now: the first line is answered the sooner
    running = translator.running_for(search=search, prefix=prefix, alignment=alignments)
    if line_constraints:
        constraints = line_constraints.take([])[1]  # checked before a line is read
        list(translator.stream([], search=search, prefix=prefix, trees=grown, to=to, **constraints))
    show = Columns(scores, alignments, nbest > 1, as_json)
    report = LineReporter(should_report(progress, place))
    if report.live:
        request = EngineRequest(search, prefix is not None, constraints=bool(line_constraints))
        other = translator.engines.spec_for(request).name if line_constraints else running.engine
        note(f"{running}{'' if other == running.engine else f'; {other} for required or avoided phrases'}")
    with open_output(place) as (target, done), report:
        for found in stream_lines(sources):
            asked = {"search": search, "prefix": prefix, "alignment": alignments, "trees": grown, "to": to, **settings}
            found, constraints, wrong = line_constraints.take(found)
            for translation in translator.stream(found, **asked, **constraints):
                report.count(translation)
                line_constraints.warn(translation, report.done)
                target.write(show.lines(translation, report.done))
                if report.done % 64 == 0:
                    target.flush()
            target.flush()
            if wrong is not None:
                raise wrong
        if grown is not None:
            grown.check_finished()
        line_constraints.check_all_used()
        done()


def search_of(nbest: int, beam: int | None, sampling: Sampling | None, settings: dict[str, Any]) -> Search:
    """What is searched for, with what of `settings` is the search's, which is taken out of them."""
    if sampling is not None:
        reject_unused(("beam",), "translations that are drawn come without a search; leave it out, or --sample")
    else:
        reject_unused(("seed",), "nothing is drawn; add --sample")
    if beam is not None and 0 < beam < nbest:
        raise click.UsageError(f"--nbest {nbest} cannot come from --beam {beam}; use --beam {nbest}, or leave it out")
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


class Columns:
    """How a translation is written: its text, and what was asked for besides."""

    def __init__(self, scores: bool, alignments: bool, numbered: bool, as_json: bool) -> None:
        self.scores, self.alignments, self.numbered, self.as_json = scores, alignments, numbered, as_json
        self.plain = not (scores or alignments or numbered)

    def lines(self, translation: Any, number: int) -> bytes:
        """The line of a translation, or the lines of its n best."""
        if self.as_json:
            return self._json(translation, number)
        if self.plain:
            return f"{translation.text.translate(LINE_ENDS)}\n".encode()
        return "".join(self._line(one, number) for one in (translation, *translation.alternatives)).encode()

    def _line(self, one: Any, number: int) -> str:
        cells = [str(number)] if self.numbered else []
        cells.append(one.text.translate(LINE_ENDS).replace("\t", " "))
        if self.scores:
            cells.append(f"{one.score:.4f}")
        if self.alignments:
            cells.append(" ".join(f"{s}-{t}" for s, t in one.alignment or ()))
        return "\t".join(cells) + "\n"

    def _json(self, translation: Any, number: int) -> bytes:
        import json

        def told(one: Any) -> dict[str, Any]:
            entry = {"text": one.text, "score": one.score, "log_probability": one.log_probability}
            entry |= {"tokens": one.tokens, "flags": one.flags}
            if one.met or one.unmet:
                entry |= {"met": one.met, "unmet": one.unmet}
            return entry if one.alignment is None else entry | {"alignment": one.alignment}

        entry = {"line": number, **told(translation)}
        if self.numbered:
            entry["alternatives"] = [told(one) for one in translation.alternatives]
        return (json.dumps(entry, ensure_ascii=False) + "\n").encode()
