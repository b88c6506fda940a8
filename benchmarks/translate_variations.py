"""Translating on a CPU with positions inside attention: our engine in C beside PyTorch, in one run.

    python benchmarks/translate_variations.py                              # rotary, presets base and small, greedy
    python benchmarks/translate_variations.py --positions sinusoidal rotary --models small --beam 4
    python benchmarks/translate_variations.py --trained runs/variations/rotary-1   # that they agree; nothing is timed

Random weights, a vocabulary of 37,000, 20 source tokens and 20 forced output tokens, milliseconds a sentence for one
sentence and for 64 at a time. Before anything is timed, the engine in C must give PyTorch's tokens in float32. PyTorch
has the better of one thread and all; then they run in turns, and medians are taken. Trained models come from
benchmarks/variations.py; they translate the 1,000 unseen lines of that.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import tempfile
from importlib.metadata import version
from pathlib import Path

from translate_cpu import LENGTH, best_setting, seconds, sources
from translate_peers import Sources, Translate, model, ours

ROUNDS = {1: 15, 64: 5}
POSITIONS = ("rotary", "alibi", "relative", "sinusoidal", "learned", "none")


def by_torch(directory: Path) -> list[Translate]:
    """The reference engine, on one thread or on all."""
    import torch

    from dragoman.engines.torch import TorchEngine
    from dragoman.search.types import Search

    engine = TorchEngine.load(directory)

    def with_threads(threads: int) -> Translate:
        def translate(rows: Sources, beam: int, length: int) -> list[list[int]]:
            torch.set_num_threads(threads)
            found = engine.search(rows, Search(beam=beam, min_length=length, max_length=length))
            return [best[0].ids for best in found]

        return translate

    return [with_threads(threads) for threads in sorted({1, len(os.sched_getaffinity(0))})]


def compare(directory: Path, beam: int) -> dict[str, list[float]]:
    """Milliseconds a sentence of each engine, for one sentence and for 64."""
    contenders = {
        "native int8": ours(directory, True),
        "native float32": ours(directory, False),
        "PyTorch float32": by_torch(directory),
    }
    table: dict[str, list[float]] = {name: [] for name in contenders}
    for count, rounds in ROUNDS.items():
        rows = sources(count, LENGTH)
        chosen = {name: best_setting(choices, rows, beam) for name, choices in contenders.items()}
        written = {name: translate(rows, beam, LENGTH) for name, translate in chosen.items()}
        if written["native float32"] != written["PyTorch float32"]:
            raise SystemExit(f"{directory.name}: the engines do not agree in float32; nothing is timed")
        runs: dict[str, list[float]] = {name: [] for name in contenders}
        for turn in range(rounds):
            for name, translate in chosen.items():
                if turn < 3 or (turn + 1) * runs[name][0] < 3:  # three runs say enough of what takes long
                    translate(rows[:1], beam, LENGTH)  # what it needs is in the caches again after the others' turns
                    runs[name].append(seconds(translate, rows, beam, LENGTH))
        for name, times in runs.items():
            table[name].append(1000 * statistics.median(times) / count)
    return table


def agree(directory: Path) -> None:
    """On a trained model: how many of 1,000 lines each engine translates as PyTorch does, and without a mistake."""
    from dragoman import Translator
    from dragoman.demo.corpus import pairs

    lines, references = map(list, zip(*pairs(1000, split="test"), strict=True))
    for beam in (1, 4):
        expected: list[str] | None = None
        for engine, precision in (("torch", "float32"), ("native", "float32"), ("native", "int8")):
            translator = Translator.load(directory, device="cpu", engine=engine, precision=precision)
            texts = [translation.text for translation in translator.translate(lines, beam=beam)]
            expected = texts if expected is None else expected
            same, exact = (sum(a == b for a, b in zip(texts, to, strict=True)) for to in (expected, references))
            print(f"{directory.name}, beam {beam}, {engine} {precision}: {same} as PyTorch, {exact} without a mistake")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--positions", nargs="+", default=["rotary"], choices=POSITIONS)
    parser.add_argument("--models", nargs="+", default=["base", "small"], choices=["base", "small"])
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--work", type=Path, help="keep the models there for the next run")
    parser.add_argument("--trained", type=Path, nargs="+", help="model directories to compare the engines' texts on")
    options = parser.parse_args()
    if options.trained:
        for directory in options.trained:
            agree(directory)
        return
    work = options.work or Path(tempfile.mkdtemp())
    print(f"{datetime.date.today()}, torch {version('torch')}, {platform.machine()}, beam {options.beam}\n")
    print("| ms a sentence | native int8 | native float32 | PyTorch float32 |\n|---|---|---|---|")
    for preset in options.models:
        for positions in options.positions:
            table = compare(model(work, preset, positions), options.beam)
            for i, count in enumerate(ROUNDS):
                row = [table[name][i] for name in table]
                cells = [f"{row[0]:,.2f}"] + [f"{ms:,.2f} ({ms / row[0]:.1f}x)" for ms in row[1:]]
                print(f"| {preset}, {positions}, {count} at a time | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
