"""How fast sentence pairs become batches, how much memory it takes, and how that grows.

    python benchmarks/prepare.py DATA_DIR --pairs 100000 400000 0

DATA_DIR holds train.en.xz and train.de.xz (other languages with --languages). The first so many pairs are unpacked into
a temporary folder; 0 means all. Memory is the sum of the resident memory of all processes, read from /proc, so pages
that they share count more than once. Linux only.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path

from dragoman.config import DataRecipe, Recipe, TextRecipe
from dragoman.data.corpora.lines import read_line_blocks
from dragoman.data.corpora.reader import Corpus
from dragoman.data.prepare.pipeline import prepare_corpora
from dragoman.progress import SilentReporter


class Stages(SilentReporter):
    """The seconds of each stage of a preparation: by the clock, and of processor time in all processes together."""

    def __init__(self) -> None:
        self.seconds: dict[str, tuple[float, float]] = {}
        self.title, self.started = "", (0.0, 0.0)

    def start_stage(self, title: str, total: int | None, unit: str) -> None:
        self.end()
        self.title, self.started = title.split()[0], (time.perf_counter(), processor_time())

    def end(self) -> None:
        if self.title:
            before = self.seconds.get(self.title, (0.0, 0.0))
            spent = time.perf_counter() - self.started[0], processor_time() - self.started[1]
            self.seconds[self.title] = before[0] + spent[0], before[1] + spent[1]
            self.title = ""


class Memory:
    """The most memory that this process and its helpers had resident together, looked at twenty times a second."""

    def __enter__(self) -> Memory:
        self.peak, self.stop = 0, threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop.set()
        self.thread.join()

    def watch(self) -> None:
        while not self.stop.wait(0.05):
            self.peak = max(self.peak, sum(map(resident, family(os.getpid()))))


def family(pid: int) -> list[int]:
    """A process and all below it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue  # it ended while we looked
            children.setdefault(parent, []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        todo += children.get(found[-1], [])
    return found


def processor_time() -> float:
    """The seconds that this process and its helpers, also those that have ended, have computed."""
    spent = sum(os.times()[:4])
    for pid in family(os.getpid())[1:]:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        spent += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return spent


def resident(pid: int) -> int:
    """The bytes of a process that are in memory."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def cut(source: Path, target: Path, pairs: int) -> int:
    """The first lines of a file, unpacked; returns how many there were."""
    written = 0
    with target.open("w", encoding="utf-8", newline="\n") as file:
        for part in read_line_blocks(source):
            part = part[: pairs - written] if pairs else part
            file.writelines(line + "\n" for line in part)
            written += len(part)
            if pairs and written >= pairs:
                break
    return written


def measure(folder: Path, data: Path, languages: list[str], pairs: int, recipe: Recipe, processes: int | None) -> None:
    files = [folder / f"{pairs}.{language}" for language in languages]
    started = time.perf_counter()
    count = min(
        cut(data / f"train.{language}.xz", file, pairs) for language, file in zip(languages, files, strict=True)
    )
    unpacked = time.perf_counter() - started
    size = sum(file.stat().st_size for file in files)
    print(f"\n## {count:,} pairs ({size / 1e6:.0f} MB of text; unpacking it took {unpacked:.1f} s)", flush=True)
    stages = Stages()
    with Memory() as memory:
        started = time.perf_counter(), processor_time()
        out = prepare_corpora([Corpus(*files)], recipe, folder / f"out{pairs}", processes=processes, reporter=stages)
        stages.end()
        whole = time.perf_counter() - started[0], processor_time() - started[1]
    learning = stages.seconds["learn"]
    rows = [
        *stages.seconds.items(),
        ("without learning", (whole[0] - learning[0], whole[1] - learning[1])),
        ("all", whole),
    ]
    print("| step | seconds | pairs/s | MB/s | processor seconds |\n|---|---:|---:|---:|---:|")
    for name, (seconds, busy) in rows:
        print(f"| {name} | {seconds:.1f} | {count / seconds:,.0f} | {size / 1e6 / seconds:.1f} | {busy:.1f} |")
    print(f"\nPeak resident memory, all processes together: {memory.peak / 2**20:,.0f} MiB", flush=True)
    for file in files:
        file.unlink()
    for layout in ("padded", "packed"):
        data_recipe = replace(recipe.data, layout=layout)
        with Memory() as memory, out.loader(data_recipe, pin=False) as loader:
            started = time.perf_counter()
            plan = loader.plan(0)
            planned = time.perf_counter() - started
            batches = len(plan)
            next(loader)  # the first waits for the plan
            tokens, taken = 0, 0
            started, busy = time.perf_counter(), processor_time()
            for batch in islice(loader, min(batches, 2000)):
                tokens += batch.source_tokens + batch.target_tokens
                taken += 1
            seconds, busy = time.perf_counter() - started, processor_time() - busy
        word = "padding" if layout == "padded" else "filler"
        waste = [100 * (1 - used) for used in plan.fill_rates]
        print(
            f"{layout}: {batches:,} batches an epoch of at most {recipe.data.batch_tokens:,} tokens a side, planned in "
            f"{planned:.2f} s; {taken / seconds:,.0f} batches/s, {tokens / seconds / 1e6:.1f} M tokens/s, "
            f"{1000 * busy / taken:.2f} ms of processor a batch; {word} "
            f"{waste[0]:.2f} % of the source, {waste[1]:.2f} % of the target; "
            f"{memory.peak / 2**20:,.0f} MiB",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--pairs", type=int, nargs="+", default=[100_000])
    parser.add_argument("--languages", nargs=2, default=["en", "de"])
    parser.add_argument("--kind", default="bpe", choices=["bpe", "unigram", "wordpiece"])
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--batch-tokens", type=int, default=25_000)
    parser.add_argument("--processes", type=int)
    parser.add_argument("--sampling", type=float, default=0.0, help="draw other tokens for every sentence of a batch")
    parser.add_argument("--workers", type=int, default=1, help="threads that make batches")
    options = parser.parse_args()
    recipe = Recipe(
        text=TextRecipe(kind=options.kind, vocabulary_size=options.vocabulary),
        data=DataRecipe(batch_tokens=options.batch_tokens, sampling=options.sampling, workers=options.workers),
    )
    load = os.getloadavg()[0]
    print(
        f"{len(os.sched_getaffinity(0))} cores, load before {load:.1f}; {options.kind}, {options.vocabulary:,} tokens"
    )
    with tempfile.TemporaryDirectory() as folder:
        for pairs in options.pairs:
            measure(Path(folder), options.data, options.languages, pairs, recipe, options.processes)


if __name__ == "__main__":
    main()
