"""How fast a model of the repository translates real text on this machine, and in how much memory.

    python benchmarks/shipped_speed.py MODEL FILE [--lines 1000] [--threads 2] [--rounds 3]

FILE has sentences of the source language. Each engine and each beam runs in a process of its own, in turns: all lines
in one call, then the first 100 one by one, after one call of each kind. Words are those of the sources. Medians of the
rounds; memory is the largest resident size of a process, with Python. "From the shell" is `dragoman translate` with one
line, from the start of the process to its end.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

SETTINGS = [("native", 1), ("native", 4), ("ctranslate2", 1), ("ctranslate2", 4)]
SINGLE_LINES = 100


def measure(model: Path, file: Path, lines: int, threads: int, engine: str, beam: int) -> dict[str, float]:
    """Seconds for all lines in one call and for some of them one by one, in this process."""
    from dragoman import Translator

    translator = Translator.load(model, device="cpu", engine=engine, threads=threads)
    texts = file.read_text(encoding="utf-8").splitlines()[:lines]
    single = texts[:SINGLE_LINES]
    found: dict[str, float] = {}
    for _ in range(2):  # the first warms up
        started = time.perf_counter()
        translator.translate(texts, beam=beam)
        found["all"] = sum(len(text.split()) for text in texts) / (time.perf_counter() - started)
        started = time.perf_counter()
        for text in single:
            translator.translate(text, beam=beam)
        found["one"] = (time.perf_counter() - started) / len(single)
    found["single words"] = sum(len(text.split()) for text in single) / len(single) / found["one"]
    found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def main() -> None:
    """Run the settings in turns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        engine, beam = options.child
        place = (options.model, options.file, options.lines, options.threads)
        print(json.dumps(measure(*place, engine, int(beam))))
        return
    rounds: dict[tuple[str, int], list[dict[str, float]]] = {setting: [] for setting in SETTINGS}
    shell: list[float] = []
    for _ in range(options.rounds):
        for engine, beam in SETTINGS:
            command = [sys.executable, *sys.argv, "--child", engine, str(beam)]
            done = subprocess.run(command, capture_output=True, check=True, text=True)
            rounds[engine, beam].append(json.loads(done.stdout.splitlines()[-1]))
        started = time.perf_counter()
        command = [sys.executable, "-m", "dragoman", "translate", str(options.model)]
        subprocess.run(command, input=b"Where is the station?\n", check=True, capture_output=True)
        shell.append(time.perf_counter() - started)
    print(f"{datetime.date.today()}, {platform.machine()}, {options.threads} threads, load {os.getloadavg()[0]:.1f}")
    print(f"{options.model.name}, {options.file.name}, {options.lines:,} lines\n")
    print("| engine | beam | one line, ms | words/s, one by one | words/s, all lines | peak MB |")
    print("|---|---|---|---|---|---|")
    for (engine, beam), found in rounds.items():
        one, single, whole, memory = (
            statistics.median(each[name] for each in found) for name in ("one", "single words", "all", "memory")
        )
        print(f"| {engine}, int8 | {beam} | {1000 * one:.1f} | {single:,.0f} | {whole:,.0f} | {memory:.0f} |")
    print(f"\nfrom the shell: {statistics.median(shell):.2f} s")


if __name__ == "__main__":
    main()
