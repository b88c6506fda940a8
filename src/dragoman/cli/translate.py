"""`dragoman translate`: a line in, a line out."""

from __future__ import annotations

import fcntl
import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import click

from dragoman.data.reading import lines_in
from dragoman.data.unpacking import blocks, check_file
from dragoman.decode.engines import ENGINES, PRECISIONS
from dragoman.decode.settings import Sampling, Search
from dragoman.errors import SearchError

AT_ONCE = 1 << 20  # bytes taken from a pipe before the first of its lines is translated, if they are there already
STDIN = Path("standard input")
LINE_ENDS = {ord("\n"): " ", ord("\r"): " "}


@click.command()
@click.argument("model")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write to this file, which appears when it is done."
)
@click.option("--nbest", type=click.IntRange(1), default=1, help="So many translations of each line, best first.")
@click.option("--scores", is_flag=True, help="Add a column with the score, log P / lp.")
@click.option("--alignments", is_flag=True, help="Add a column with aligned words, as in 0-0 1-2, source first.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object for each line, with all there is to know.")
@click.option("--beam", type=int, help="Hypotheses kept; 1 is greedy search.  [default: 4, or --nbest if that is more]")
@click.option("--length-penalty", type=float, default=Search.length_penalty, show_default=True, help="alpha of lp.")
@click.option("--min-length", type=int, default=0, help="At least so many pieces.")
@click.option("--max-length", type=int, help="At most so many pieces; 50 more than the source has, without it.")
@click.option("--no-repeat", type=int, default=0, metavar="N", help="Never write the same N pieces in a row twice.")
@click.option("--prefix", help="What every translation begins with.")
@click.option("--sample", is_flag=True, help="Draw translations by chance; the next three options imply it.")
@click.option("--temperature", type=float, help="Under 1 the likely gets likelier, over 1 less so.")
@click.option("--top-k", type=int, help="Draw from the K likeliest pieces.")
@click.option("--top-p", type=float, help="Draw from the likeliest pieces that together have probability P.")
@click.option("--seed", type=int, default=1, show_default=True, help="Which draws.")
@click.option("--split", type=click.Choice(["long", "sentences", "never"]), default="long", show_default=True,
              help="Which lines are translated sentence by sentence.")  # fmt: skip
@click.option("--language", default="en", show_default=True, help="The source's code, for rules to find sentences by.")
@click.option("--engine", type=click.Choice(["auto", *ENGINES]), default="auto", show_default=True)
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ...")
@click.option("--precision", type=click.Choice(PRECISIONS), default="auto", show_default=True)
@click.option("--threads", type=int, help="CPU threads; the engine's own choice, without it.")
@click.option("--batch", type=int, help="Sentences at a time; the engine's own choice, without it.")
@click.option("--reproducible", is_flag=True, help="To the last bit the same, whatever else is translated with a line.")
@click.option("--progress/--no-progress", default=None, help="On stderr; by default where that is a terminal.")
def command(
    model: str,
    files: tuple[Path, ...],
    output: Path | None,
    nbest: int,
    scores: bool,
    alignments: bool,
    as_json: bool,
    beam: int | None,
    prefix: str | None,
    sample: bool,
    temperature: float | None,
    top_k: int | None,
    top_p: float | None,
    seed: int,
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
    check_streams(files, output)
    for path in files:
        if path != Path("-") and not is_pipe(path):
            check_file(path)  # all of them, before an hour is spent on the first
    chances: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    drawn = {name: value for name, value in chances.items() if value is not None}
    search = Search(
        beam=max(Search.beam, nbest) if beam is None else beam,
        n_best=nbest,
        length_penalty=settings.pop("length_penalty"),
        min_length=settings.pop("min_length"),
        max_length=settings.pop("max_length"),
        no_repeat=settings.pop("no_repeat"),
        sampling=Sampling(seed=seed, **drawn) if sample or drawn else None,
    )
    from dragoman.decode.translator import Translator

    translator = Translator.load(
        model, device=device, engine=engine, threads=threads, precision=precision, language=language
    )
    translator.engines.for_search(search, prefix is not None)  # loaded now: the first line is answered the sooner
    show = Columns(scores, alignments, nbest > 1, as_json)
    report = Report(
        sys.stderr.isatty() and (output is not None or not sys.stdout.isatty()) if progress is None else progress
    )
    with opened(output) as (target, done), report:
        for found in arriving(files):
            for translation in translator.stream(found, search=search, prefix=prefix, alignment=alignments, **settings):
                report.count(translation)
                target.write(show.lines(translation, report.done))
                if report.done % 64 == 0:
                    target.flush()
            target.flush()
        done()


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
            return entry if one.alignment is None else entry | {"alignment": one.alignment}

        entry = {"line": number, **told(translation)}
        if self.numbered:
            entry["alternatives"] = [told(one) for one in translation.alternatives]
        return (json.dumps(entry, ensure_ascii=False) + "\n").encode()


class Report:
    """Lines done and lines a second on stderr, and at the end which lines need a second look."""

    def __init__(self, live: bool) -> None:
        self.live, self.terminal = live, sys.stderr.isatty()
        self.done, self.begun, self.told = 0, time.monotonic(), 0.0
        self.careful: dict[str, list[int]] = {}

    def count(self, translation: Any) -> None:
        """One line more."""
        self.done += 1
        for flag in translation.flags:
            if flag in ("truncated", "repetitive", "split"):
                self.careful.setdefault(flag, []).append(self.done)
        now = time.monotonic()
        if self.live and now - self.told > (0.2 if self.terminal else 10):
            self.told = now
            self._say()

    def _say(self) -> None:
        rate = self.done / max(1e-9, time.monotonic() - self.begun)
        text = f"{self.done:,} lines, {rate:,.1f} a second"
        sys.stderr.write(f"\r{text}\x1b[K" if self.terminal else f"{text}\n")
        sys.stderr.flush()

    def __enter__(self) -> Report:
        return self

    def __exit__(self, *_: object) -> None:
        if self.live and self.done:
            self._say()
            sys.stderr.write("\n" if self.terminal else "")
        if self.careful:
            told = [f"{len(n):,} {flag} (line {n[0]}{', ...' if n[1:] else ''})" for flag, n in self.careful.items()]
            sys.stderr.write(f"dragoman: of {self.done:,} lines {', '.join(told)}\n")


def check_streams(files: tuple[Path, ...], output: Path | None) -> None:
    """Refuse what can neither be read nor written, before anything is loaded."""
    if sys.stdin is None and (not files or Path("-") in files):
        raise SearchError("standard input is closed, so that there is nothing to translate; give FILES, or open it")
    if sys.stdout is None and output is None:
        raise SearchError("standard output is closed, so that nothing can be written; give --output, or open it")
    if output is not None and output.is_dir():
        raise SearchError(f"{output} is a directory; give the name of a file to --output")
    if output is not None and any(output.exists() and file.exists() and file.samefile(output) for file in files):
        raise SearchError(f"{output} is also what is to be translated; give another file to --output")


def is_pipe(path: Path) -> bool:
    """Whether something can be read once and from the beginning only, as `<(...)` of a shell."""
    return path.is_fifo() or path.is_char_device()


def arriving(files: tuple[Path, ...]) -> Iterator[list[str]]:
    """Lines as soon as they are there: those of a slow writer one by one, those of a file by the megabyte."""
    for path in files or (Path("-"),):
        if path == Path("-"):
            yield from lines_in(STDIN, as_they_come(sys.stdin.buffer))
        elif is_pipe(path):
            with path.open("rb", buffering=0) as pipe:
                yield from lines_in(path, as_they_come(pipe))
        else:
            yield from lines_in(path, blocks(path))


def as_they_come(source: IO[bytes]) -> Iterator[bytes]:
    """What a pipe or a terminal holds now, waiting only where it holds nothing."""
    handle, ended = source.fileno(), False
    while not ended:
        held = bytearray()
        while not held or (len(held) < AT_ONCE and select.select([handle], [], [], 0)[0]):
            block = os.read(handle, 1 << 16)
            held += block
            if not block:
                ended = True
                break
        yield bytes(held)


@contextmanager
def opened(output: Path | None) -> Iterator[tuple[IO[bytes], Any]]:
    """Where to write, and what to call when all is written: a file gets its name only then."""
    if output is None:
        yield sys.stdout.buffer, sys.stdout.buffer.flush
        return
    if is_pipe(output):
        with output.open("wb") as stream:
            yield stream, stream.flush
        return
    part = output.with_name(f"{output.name}.part")
    with held(part) as target:

        def done() -> None:
            target.flush()
            os.fsync(target.fileno())
            part.replace(output)

        try:
            yield target, done
        except BaseException:
            with suppress(OSError):  # a full disk: what is on it stays
                target.flush()
            if part.exists() and part.stat().st_size:
                sys.stderr.write(f"dragoman: what was translated until then is in {part}\n")
            else:
                part.unlink(missing_ok=True)
            raise


def held(part: Path) -> IO[bytes]:
    """The file, empty and locked: two runs with one --output would write into each other's lines."""
    while True:
        try:
            target = part.open("ab")  # not "wb", which would empty what another run is writing
        except OSError as error:
            raise SearchError(f"{part} cannot be written: {error.strerror}; choose another --output") from None
        try:
            with suppress(OSError):  # a file system without locks
                try:
                    fcntl.flock(target, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise SearchError(
                        f"another process is writing {part} right now; wait for it, or choose another --output"
                    ) from None
            if part.exists() and os.path.samestat(os.fstat(target.fileno()), part.stat()):
                target.truncate(0)
                return target
            target.close()  # its last holder has just given it its name: what we have locked is the output
        except BaseException:
            target.close()
            raise
