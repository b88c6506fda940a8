"""The host's CPU time in the stages of `dragoman distill`, with stand-ins for the models, which answer at once.

    python benchmarks/distill_host.py MODEL FILE.en FILE.de --lines 40000 [--out FOLDER]

"plain" is the translation alone, without storing anything; "resume" finds all chunks on disk. The attention of the
stand-ins is diagonal; their time is left out of "align". FOLDER keeps the files, to compare two versions of the code.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from translate_bulk import StandIn, head

from dragoman import Translator
from dragoman.data.corpora.lines import read_line_blocks
from dragoman.distillation import alignment
from dragoman.distillation.bidirectional_alignment import BidirectionalAligner
from dragoman.distillation.selection import SelectionReport, SelectionRules, select_lines
from dragoman.distillation.student import write_student_data
from dragoman.distillation.teacher import TeacherSettings, read_sources, translate_sources
from dragoman.distillation.translations import StoredTranslations, read_chunks
from dragoman.modeldir.info import read_info
from dragoman.progress import SilentReporter

SETTINGS = TeacherSettings([], [], [], beam=4, n_best=1, alignment=False)
LINE = {"source": "", "target": "", "per_token": -0.5, "flags": [], "bleu": None, "alignment": ""}


class Models:
    """Two models whose attention is diagonal; they are loaded, and their heads chosen, only once."""

    def __init__(self, model: Path) -> None:
        self.seconds = 0.0  # of CPU time, in the models
        self.translator, choose = alignment.load_reference(model, "cpu"), BidirectionalAligner.choose
        self.translator.engines.torch.model.hidden = self.hidden
        self.aligner: BidirectionalAligner | None = None

        def chosen(*arguments: Any) -> BidirectionalAligner:
            self.aligner = self.aligner or choose(*arguments)
            return self.aligner

        alignment.load_reference = lambda *_: self.translator
        BidirectionalAligner.choose = chosen  # type: ignore[method-assign, assignment]

    def hidden(self, source: Any, target: Any, source_layout: Any, target_layout: Any, maps: Any) -> None:
        start = time.thread_time()
        rows, columns = torch.arange(target.shape[1]), torch.arange(source.shape[1])
        nearest = rows * source_layout.lengths[:, None] // target_layout.lengths[:, None]  # [B, T]
        weights = (nearest[:, :, None] == columns).float()[:, None].expand(-1, 8, -1, -1)
        maps.cross.extend([weights] * 6)
        self.seconds += time.thread_time() - start


class Bench:
    """The stages, each from the files of the one before it."""

    def __init__(self, model: Path, source: Path, target: Path, folder: Path) -> None:
        self.model, self.source, self.target, self.folder = model, source, target, folder
        self.translator = Translator.load(model, device="cpu")
        self.translator.engines.for_request = lambda _: StandIn()  # type: ignore[method-assign, assignment, return-value]
        self.models = Models(model)
        self.real = self.write_real_pairs()

    def write_real_pairs(self) -> StoredTranslations:
        """Chunks with the lines of the target file as translations."""
        folder, count = self.folder / "real", 0
        folder.mkdir(exist_ok=True)
        targets = chain.from_iterable(read_line_blocks(self.target))
        for chunk in read_chunks(folder, read_sources([self.source], [])):
            pairs = [(s, t) for (s, _), t in zip(chunk.pairs, targets, strict=False) if s.strip()]
            rows = [{"chunk": chunk.digest}, *(LINE | {"source": s, "target": t} for s, t in pairs)]
            chunk.path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
            count += 1
        return StoredTranslations(folder, count)

    def plain(self) -> None:
        lines = chain.from_iterable(read_line_blocks(self.source))
        deque(self.translator.stream(lines, **SETTINGS.search), maxlen=0)

    def translate(self) -> None:
        for chunk in (self.folder / "stand-in").glob("*"):
            chunk.unlink()
        self.resume()

    def resume(self) -> None:
        folder = self.folder / "stand-in"
        folder.mkdir(exist_ok=True)
        translate_sources(folder, self.translator, SETTINGS, read_sources([self.source], []), 0, SilentReporter())

    def align(self) -> None:
        for chunk in self.real.folder.glob("*.align"):
            chunk.unlink()
        alignment.align_translations(self.real, self.model, self.model, "cpu", SilentReporter())

    def select(self) -> None:
        report = SelectionReport()
        lines = select_lines(self.real, SelectionRules(), report)
        write_student_data(self.folder, lines, read_info(self.model), True)
        (self.folder / "report.json").write_text(json.dumps(report.to_json()), encoding="utf-8")

    def cpu_seconds(self, stage: Callable[[], None]) -> float:
        self.models.seconds = 0.0
        start = time.process_time()
        stage()
        return time.process_time() - start - self.models.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--lines", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.out or Path(temporary)
        folder.mkdir(exist_ok=True)
        files = [head(path, options.lines, Path(temporary)) for path in (options.source, options.target)]
        bench = Bench(options.model, *files, folder)
        print("| stage | CPU, us per line |\n|---|---|")
        for stage in (bench.plain, bench.translate, bench.resume, bench.align, bench.select):
            seconds = [bench.cpu_seconds(stage) for _ in range(options.rounds + 1)][1:]  # the first fills caches
            print(f"| {stage.__name__} | {statistics.median(seconds) / options.lines * 1e6:.1f} |", flush=True)


if __name__ == "__main__":
    main()
