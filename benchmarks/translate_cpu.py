"""Translating on a CPU: milliseconds for one sentence and for 64, greedy and beam 4, ours beside others, in one run.

    python benchmarks/translate_cpu.py                         # presets base and small, random weights
    python benchmarks/translate_cpu.py --instructions avx2     # as on an older laptop: nothing newer than AVX2
    python benchmarks/translate_cpu.py --instructions avx_vnni # as on a newer one
    taskset -c 0 python benchmarks/translate_cpu.py --cpu-time --contenders "ours int8" "CTranslate2 int8"
    python benchmarks/translate_cpu.py --lengths               # time and memory for sources of 10 to 2,000 tokens
    python benchmarks/translate_cpu.py --check-only --model DIR --text FILE     # that all agree, on a trained model

All engines run the same architecture with a vocabulary of 37,000, on 20 source tokens and 20 forced output tokens; ours
also writes EOS, one step more. Ours and CTranslate2 have the same weights, Hugging Face's model the same sizes.
Before anything is timed, PyTorch, our engine and CTranslate2 must give the same tokens in float32. Each contender's
best settings (workers, threads, size of batch) are found first; then they run in turns, and medians are taken. With
--cpu-time, the least CPU time of the turns counts, on one core, so that other work on the machine changes little.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from translate_peers import OURS, PEERS, VOCABULARY, Translate, model, settings_of

CELLS = [(1, 1), (1, 4), (64, 1), (64, 4)]  # sentences, beam
LENGTH = 20
LENGTHS = [10, 20, 50, 100, 200, 500, 1000, 2000]
PACE = {1: 15, 64: 7}  # rounds, for a call of one sentence and for a call of 64


def sources(count: int, length: int) -> list[list[int]]:
    rng = random.Random(length)
    return [[rng.randrange(4, VOCABULARY) for _ in range(length)] for _ in range(count)]


def seconds(translate: Translate, rows: list[list[int]], beam: int, length: int, cpu_time: bool = False) -> float:
    clock = time.process_time if cpu_time else time.perf_counter
    begun = clock()
    translate(rows, beam, length)
    return clock() - begun


def check(directory: Path, rows: list[list[int]], forced: int | None) -> None:
    """PyTorch, ours and CTranslate2 in float32, the same greedy tokens; ours with beams as well."""
    import torch

    from dragoman.engines.ctranslate2 import CTranslate2Engine
    from dragoman.engines.native import NativeEngine
    from dragoman.engines.torch import TorchEngine
    from dragoman.search.types import Search

    torch.set_num_threads(1)
    limits = {} if forced is None else {"min_length": forced, "max_length": forced}
    reference = TorchEngine.load(directory)
    others = [NativeEngine.load(directory, None, False), CTranslate2Engine.load(directory, None, False)]
    for beam in (1, 4):
        search = Search(beam=beam, **limits)
        expected = [best[0].ids for best in reference.search(rows, search)]
        for engine in others:
            assert engine is not None
            found = [best[0].ids for best in engine.search(rows, search)]
            share = sum(a == b for a, b in zip(expected, found, strict=True)) / len(rows)
            print(f"{directory.name}, beam {beam}: {engine.name} in float32 has PyTorch's tokens on {share:.1%}")
            if share < 0.99 and (beam == 1 or engine.name == "native"):
                raise SystemExit("they do not agree: nothing is timed")


def best_setting(choices: list[Translate], rows: list[list[int]], beam: int, cpu_time: bool) -> Translate:
    """The quickest of a contender's settings."""
    took = {}
    for choice in choices:
        took[choice] = seconds(choice, rows, beam, LENGTH, cpu_time)
        if took[choice] < 1:  # else a warm-up is a small part of it
            took[choice] = min(seconds(choice, rows, beam, LENGTH, cpu_time) for _ in range(2))
    return min(choices, key=lambda choice: took[choice])


def compare(
    names: list[str], work: Path, preset: str, cells: list[tuple[int, int]], cpu_time: bool
) -> dict[str, list[float]]:
    """Milliseconds of each contender in each cell: medians of runs in turns, or the least CPU time."""
    contenders = {name: settings_of(name, work, preset) for name in names}
    table: dict[str, list[float]] = {name: [] for name in contenders}
    for count, beam in cells:
        rows = sources(count, LENGTH)
        chosen = {name: best_setting(choices, rows, beam, cpu_time) for name, choices in contenders.items()}
        runs: dict[str, list[float]] = {name: [] for name in contenders}
        for turn in range(PACE[count]):
            for name, translate in chosen.items():
                time.sleep(0.1)  # threads of whoever ran before may still spin, and would hold up the next
                if turn < 3 or cpu_time or (turn + 1) * runs[name][0] < 3:  # three runs say enough of what takes long
                    if count == 1:
                        translate(rows, beam, LENGTH)  # what it needs is in the caches again after the others' turns
                    runs[name].append(seconds(translate, rows, beam, LENGTH, cpu_time))
        for name, times in runs.items():
            table[name].append(1000 * (min(times) if cpu_time else statistics.median(times)))
        print(preset, count, beam, {name: round(row[-1], 1) for name, row in table.items()}, flush=True)
    return table


def report(preset: str, table: dict[str, list[float]], cells: list[tuple[int, int]]) -> str:
    """The table of a preset, with how many times as long as ours in int8 each takes."""
    heads = [f"{n} sentence{'s' * (n > 1)}, {'greedy' if beam == 1 else f'beam {beam}'}" for n, beam in cells]
    lines = [f"| {preset}, ms | {' | '.join(heads)} |", "|---" * (len(cells) + 1) + "|"]
    for name, row in table.items():
        cells = [
            f"{ms:,.1f}" if name == OURS[0] else f"{ms:,.1f} ({ms / best:.1f}x)"
            for ms, best in zip(row, table[OURS[0]], strict=True)
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def measure_lengths(name: str, work: Path, longest: int) -> None:
    """In a process of its own: seconds, and the most memory so far, for longer and longer sources."""
    choices = settings_of(name, work, "small")
    translate = choices[0] if name in (*OURS, *PEERS[:2]) else choices[-1]
    translate(sources(1, 5), 1, 5)
    for length in LENGTHS:
        if length > longest:
            break
        rows = sources(1, length)
        took = min(seconds(translate, rows, 1, length) for _ in range(3 if length < 500 else 1))
        status = Path("/proc/self/status").read_text()  # getrusage would count what the parent held
        held = int(status.partition("VmHWM:")[2].split()[0]) / 1024
        print(json.dumps({"name": name, "length": length, "seconds": took, "mib": held}), flush=True)


def lengths(work: Path, picture: Path, instructions: str | None) -> str:
    """Cost against length, a table and a picture."""
    found = []
    for name in (*OURS, *PEERS):
        child = [sys.executable, "-W", "ignore", __file__, "--child", name, "--work", str(work)]
        child += ["--instructions", instructions] if instructions else []
        out = subprocess.run(child, capture_output=True, text=True, check=True).stdout
        found += [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        print(name, [round(f["seconds"], 3) for f in found if f["name"] == name], flush=True)
    draw(found, picture)
    at = {(f["name"], f["length"]): f for f in found}
    lines = [
        f"| small, 1 sentence, greedy: s (MiB) | {' | '.join(f'{length:,}' for length in LENGTHS)} |",
        "|---" * (len(LENGTHS) + 1) + "|",
    ]
    for name in (*OURS, *PEERS):
        cells = [f"{at[name, n]['seconds']:.3f} ({at[name, n]['mib']:,.0f})" for n in LENGTHS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(found: list[dict], picture: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for name in (*OURS, *PEERS):
        rows = [f for f in found if f["name"] == name]
        style = "-" if name in OURS else "--"
        for axis, key in zip(axes, ("seconds", "mib"), strict=True):
            axis.plot([r["length"] for r in rows], [r[key] for r in rows], style, marker="o", ms=3, label=name)
    for axis, title in zip(axes, ("seconds for one sentence", "most memory of the process, MiB"), strict=True):
        axis.set(xscale="log", yscale="log", xlabel="source tokens, and as many output tokens", title=title)
        axis.grid(alpha=0.3)
    axes[0].legend(frameon=False)
    figure.savefig(picture, dpi=120)


def limit_instructions(name: str) -> None:
    """Limit all engines to these instructions: the others by environment variables, ours by its build."""
    from dragoman.engines import native_model
    from dragoman.engines.native_layout import STRUCTURES
    from dragoman.native import library
    from dragoman.native.variants import variants

    os.environ.update(dict.fromkeys(("CT2_FORCE_CPU_ISA", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS"), "AVX2"))
    if name == "avx_vnni":
        os.environ.update({"ONEDNN_MAX_CPU_ISA": "AVX2_VNNI", "MKL_ENABLE_INSTRUCTIONS": "AVX2_E1"})
    os.environ["ATEN_CPU_CAPABILITY"] = "avx2"
    flags = next(variant.flags for variant in variants("translate", "x86_64", "linux") if variant.name == name)
    native_model.load_code = lambda: library("translate", *flags, structures=STRUCTURES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["base", "small"], choices=["base", "small"])
    parser.add_argument("--sentences", nargs="+", type=int, default=[1, 64], choices=[1, 64])
    parser.add_argument("--work", type=Path, help="keep the models there for the next run")
    parser.add_argument(
        "--instructions", choices=["avx2", "avx_vnni"], help="the newest instructions that all engines may use"
    )
    parser.add_argument("--cpu-time", action="store_true", help="the least CPU time; run it on one core, with taskset")
    parser.add_argument("--contenders", nargs="+", default=[*OURS, *PEERS], choices=[*OURS, *PEERS])
    parser.add_argument("--lengths", action="store_true")
    parser.add_argument("--check-only", action="store_true")
    parser.add_argument("--model", type=Path, help="a trained model to check on")
    parser.add_argument("--text", type=Path, help="lines for the trained model to translate")
    parser.add_argument("--picture", type=Path, default=Path(__file__).parent / "results" / "translate_lengths.png")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.instructions:
        limit_instructions(options.instructions)
    work = options.work or Path(tempfile.mkdtemp())
    if options.child:
        measure_lengths(options.child, work, LENGTHS[-1])
        return
    packages = ", ".join(f"{name} {version(name)}" for name in ("dragoman", "ctranslate2", "transformers", "torch"))
    print(f"{datetime.date.today()}, {packages}, {platform.machine()}\n")
    if options.model and options.text:
        from dragoman.modeldir.layout import load_tokenizers

        lines = [line for line in options.text.read_text(encoding="utf-8").split("\n") if line.strip()]
        check(options.model, load_tokenizers(options.model)[0].encode_many(lines[:500]), None)
    for preset in options.models:
        check(model(work, preset), sources(8, LENGTH), LENGTH)
    if options.check_only:
        return
    if options.lengths:
        print("\n" + lengths(work, options.picture, options.instructions))
        return
    cells = [cell for cell in CELLS if cell[0] in options.sentences]
    tables = {preset: compare(options.contenders, work, preset, cells, options.cpu_time) for preset in options.models}
    print("\n" + "\n\n".join(report(preset, table, cells) for preset, table in tables.items()))


if __name__ == "__main__":
    main()
