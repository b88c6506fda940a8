"""Bulk translation: the cost of each host-side stage, the engine alone, and file to file, in one run.

    python benchmarks/translate_bulk.py MODEL FILE --beam 1 --lines 40000
    python benchmarks/translate_bulk.py MODEL FILE --stand-in          # no engine: it answers at once
    python benchmarks/translate_bulk.py MODEL FILE --device cuda       # in one process, and the engine in its own
    python benchmarks/translate_bulk.py MODEL FILE --target FILE       # `dragoman score` instead

The engine gets the same windows, batches and sentences alone and in the pipeline. File to file is what `dragoman
translate` does after loading: read, split, tokenize, search, assemble, write. Rounds take turns; medians. On a GPU,
file to file is measured twice: with the engine in this process, and in a process of its own that is ready when the
clock starts, as it is for most of a long stream. "Engine busy" is the share of the time in which the engine searches,
and "device busy" is what `nvidia-smi` says of the device in the meantime. Where all cores are busy, the ratio of CPU
times is the ratio of speeds, also on a machine with other users.
"""

from __future__ import annotations

import argparse
import datetime
import os
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import dragoman
from dragoman import Translator
from dragoman.arrays import concatenate, ranges
from dragoman.cli.commands.translate import Columns
from dragoman.cli.input import stream_lines, stream_pairs
from dragoman.cli.output import LineReporter
from dragoman.engines.base import EngineRequest
from dragoman.engines.specs import CUDA
from dragoman.search.hypotheses import HypothesisTable
from dragoman.search.types import WINDOW_BATCHES, Ids, Search
from dragoman.translation.options import TranslationRequest
from dragoman.translation.overlap import Blocks, interpreter_settings
from dragoman.translation.pipeline import Pipeline
from dragoman.translation.scoring import encoded_windows

HOST = ("read", "split", "encode", "sort", "assemble", "write")
NOTHING = {"alignment": False, "attention": False, "prefix": None, "trees": None, "to": None, "constraints": None}


class StandIn:
    """Answers at once: each source in reverse order."""

    name, batch, capabilities, precision, threads = "stand-in", CUDA.preferred_batch, CUDA, "none", None

    def search(self, sources: Ids, *_: Any) -> HypothesisTable:
        ids, lengths = concatenate(sources)
        n = len(sources)
        reverse = ids[ranges(np.cumsum(lengths)[::-1] - lengths[::-1], lengths[::-1])][::-1]
        scores = np.full(n, -1.0)
        return HypothesisTable(np.ones(n, np.int64), lengths, reverse, scores, 2 * scores, np.zeros(n, np.bool_))


class Stages:
    """Wall and CPU seconds by stage."""

    def __init__(self) -> None:
        self.wall, self.cpu = defaultdict[str, float](float), defaultdict[str, float](float)

    @contextmanager
    def of(self, stage: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.wall[stage] += time.perf_counter() - wall
        self.cpu[stage] += time.process_time() - cpu


class DeviceUse:
    """The share of the time in which kernels run on the GPU, as `nvidia-smi` samples it."""

    COMMAND = ("nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "100")

    def __init__(self) -> None:
        self.samples: list[float] = []

    @contextmanager
    def watched(self, device: str) -> Iterator[None]:
        """Take samples; on a CPU there are none."""
        if device == "cpu":
            yield
            return
        with subprocess.Popen(self.COMMAND, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield
            finally:
                process.terminate()
                self.samples += [float(line) for line in process.communicate()[0].split()]


class TranslateBench:
    """`dragoman translate`, stage by stage and as a whole."""

    def __init__(self, translator: Translator, file: Path, search: Search) -> None:
        self.translator, self.file, self.search = translator, file, search
        request = TranslationRequest(search, split="auto", batch=None, reproducible=False, **NOTHING)
        self.pipeline = Pipeline(translator, request)
        self.show = Columns(scores=False, alignments=False, numbered=False, as_json=False)

    def stages(self, work: Stages) -> None:
        """Each stage after the other."""
        segmenter, reporter = self.translator.segmenter, LineReporter(live=False)
        lines = stream_lines([self.file])
        with tempfile.TemporaryFile() as out:
            while True:
                with work.of("read"):
                    block = next(lines, None)
                if block is None:
                    break
                with work.of("split"):
                    found = segmenter.split_texts(block)
                with work.of("encode"):
                    segmenter.encode(*found, "auto")
                with work.of("prepare"):
                    windows = [*self.pipeline.builder.build([block])]
                for window in windows:
                    with work.of("engine"):
                        hypotheses = self.pipeline.search(window)
                    with work.of("assemble"):
                        deque(self.pipeline.assemble(window, hypotheses), maxlen=0)
                    made = [*self.pipeline.assemble(window, hypotheses)]
                    with work.of("write"):
                        for one in made:
                            reporter.count(one)
                            out.write(self.show.lines(one, reporter.done))
        work.cpu["sort"] = work.cpu["prepare"] - work.cpu["split"] - work.cpu["encode"]

    def whole(self, busy: Stages) -> None:
        """File to file, as the command does it."""
        pipeline_search = Pipeline.search

        def timed(pipeline: Pipeline, window: Any) -> Any:
            with busy.of("engine"):
                return pipeline_search(pipeline, window)

        reporter = LineReporter(live=False)
        Pipeline.search = timed  # type: ignore[method-assign]
        try:
            with tempfile.TemporaryFile() as out:
                for one in self.translator.stream(Blocks(stream_lines([self.file])), search=self.search):
                    reporter.count(one)
                    out.write(self.show.lines(one, reporter.done))
        finally:
            Pipeline.search = pipeline_search  # type: ignore[method-assign]


class ScoreBench:
    """`dragoman score`, stage by stage and as a whole."""

    def __init__(self, translator: Translator, source: Path, target: Path) -> None:
        self.translator, self.source, self.target = translator, source, target
        self.engine = translator.engines.forced(exact=True)

    def stages(self, work: Stages) -> None:
        """Each stage after the other."""
        with work.of("encode"):
            pairs = Blocks(stream_pairs(self.source, self.target))
            windows = [*encoded_windows(self.translator, pairs, self.engine.batch * WINDOW_BATCHES)]
        for window in windows:
            with work.of("engine"):
                rows = self.engine.log_probabilities(window or [])
            with work.of("assemble"):
                tokens = self.translator.target.tokens_many([ids for _, ids in window or []])
                [(names, sum(row)) for names, row in zip(tokens, rows, strict=True)]

    def whole(self, busy: Stages) -> None:
        """File to file, as the command does it."""
        log_probabilities = self.engine.log_probabilities

        def timed(*arguments: Any) -> Any:
            with busy.of("engine"):
                return log_probabilities(*arguments)

        self.engine.log_probabilities = timed  # type: ignore[method-assign]
        try:
            with tempfile.TemporaryFile() as out:
                for scored in self.translator.stream_scores(Blocks(stream_pairs(self.source, self.target))):
                    out.write(f"{scored.log_probability:.4f}\n".encode())
        finally:
            del self.engine.log_probabilities


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--target", type=Path, help="score these translations")
    parser.add_argument("--lines", type=int, default=20_000, help="lines of the file to take")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stand-in", action="store_true", help="an engine that answers at once")
    options = parser.parse_args()
    translator = Translator.load(options.model, engine=options.engine, device=options.device, threads=options.threads)
    with tempfile.TemporaryDirectory() as folder:
        files = [head(path, options.lines, Path(folder)) for path in (options.file, options.target) if path]
        run(translator, files, options)


def run(translator: Translator, files: list[Path], options: argparse.Namespace) -> None:
    """Measure in turns, and print."""
    search = Search(beam=options.beam)
    bench: TranslateBench | ScoreBench
    if options.target:
        bench = ScoreBench(translator, *files)
        name = f"{bench.engine.name} {bench.engine.precision}"
    else:
        if options.stand_in:
            translator.engines.for_request = lambda _: StandIn()  # type: ignore[method-assign, assignment, return-value]
        bench = TranslateBench(translator, files[0], search)
        name = "stand-in" if options.stand_in else str(translator.engines.info(EngineRequest(search)))
    lines = sum(map(len, stream_lines(files[:1])))
    translator.engines.starts_processes = False
    benches = {"in one process": bench}
    if (
        isinstance(bench, TranslateBench)
        and not options.stand_in
        and (other := separated(translator, files[0], search))
    ):
        benches["engine in its own process"] = other
    alone = list[Stages]()
    whole: dict[str, list[Stages]] = {way: [] for way in benches}
    devices = {way: DeviceUse() for way in benches}
    for _ in range(options.rounds + 1):  # the first warms up: caches of words, graphs
        alone.append(Stages())
        with interpreter_settings:
            bench.stages(alone[-1])
        for way, one in benches.items():
            whole[way].append(Stages())
            devices[way].samples.clear()  # those of the last round count
            with devices[way].watched(translator.engines.device), whole[way][-1].of("all"):
                one.whole(whole[way][-1])
    for rounds in (alone, *whole.values()):
        del rounds[0]

    def median(rounds: list[Stages], stage: str, clock: str) -> float:
        """Microseconds per line."""
        return statistics.median(vars(one)[clock][stage] for one in rounds) / lines * 1e6

    machine = f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}"
    print(f"{datetime.date.today()}, dragoman {dragoman.__version__}, {machine}")
    print(f"{options.model.name}, {files[0].name}, {lines:,} lines, beam {options.beam}, {name}\n")
    print("| host stage | CPU, us per line |\n|---|---|")
    host = {stage: median(alone, stage, "cpu") for stage in HOST if stage in alone[0].cpu}
    for stage, microseconds in host.items():
        print(f"| {stage} | {microseconds:.1f} |")
    total = sum(host.values())
    print(f"| all, one core | {total:.1f} ({1e6 / total:,.0f} lines per second) |\n")
    engine, engine_cpu = 1e6 / median(alone, "engine", "wall"), median(alone, "engine", "cpu")
    print(f"engine alone: {engine:,.0f} lines per second, {engine_cpu:.1f} us of CPU per line")
    for way, rounds in whole.items():
        speed, cpu = 1e6 / median(rounds, "all", "wall"), median(rounds, "all", "cpu")
        searching = statistics.median(one.wall["engine"] / one.wall["all"] for one in rounds)
        print(f"\n{way}:")
        print(f"file to file: {speed:,.0f} lines per second: {speed / engine:.1%} of the engine alone")
        if way == "in one process":  # elsewhere, two windows are searched at the same time
            print(f"CPU time, us per line: {cpu:.1f}; engine alone: {engine_cpu / cpu:.1%} of it")
            print(f"engine busy: {searching:.1%}")
        else:
            print(f"CPU time of this process, us per line: {cpu:.1f}")
        if samples := devices[way].samples:
            print(f"device busy: {statistics.mean(samples):.0f} % (mean of {len(samples)} samples)")


def separated(translator: Translator, file: Path, search: Search) -> TranslateBench | None:
    """The same model with its engine in a process of its own, loaded; None if this engine has none."""
    engines = translator.engines
    other = Translator.load(
        engines.directory, engine=engines.engine, device=engines.device, precision=engines.precision
    )
    engine = other.engines.for_request(EngineRequest(search))
    other.engines.separate(engine, start=True)
    if other.engines.process is None:
        return None
    other.engines.process.wait()
    return TranslateBench(other, file, search)


def head(path: Path, lines: int, folder: Path) -> Path:
    """A file with the first lines of another, which may be compressed."""
    taken: list[str] = []
    for block in stream_lines([path]):
        taken += block[: lines - len(taken)]
        if len(taken) == lines:
            break
    found = folder / path.name.removesuffix(".xz")
    found.write_text("".join(f"{line}\n" for line in taken), encoding="utf-8")
    return found


if __name__ == "__main__":
    main()
