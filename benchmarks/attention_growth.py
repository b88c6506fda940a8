"""How the time and memory of self-attention grow with the length: full, local and sparse (BigBird), with exponents.

    python benchmarks/attention_growth.py --out growth.json --picture growth.png
    python benchmarks/attention_growth.py --out growth.json --picture growth.png --draw    # from what is in --out

Attention alone (8 heads of 64), without projections, forward and with its gradients. On a GPU, a batch has as many
sentences as fit into --tokens, and figures are per sentence; on a CPU, one sentence. Time is the best of some rounds:
by the clock on a GPU, else processor seconds of the one thread, which other processes disturb less. Memory is what a
pass adds at its highest to what it is given: by the allocator on a GPU, else of a process of its own. Exponents are
least squares of the logarithms. What has been measured is kept in --out, and not measured again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.nn import (
    LinearBias,
    Padded,
    RelativePositions,
    ScaledDotProduct,
    attend_made,
    both,
    causal,
    either,
    everything,
    first,
    look,
    scattered,
    window,
)

HEADS, SIZE = 8, 64
WINDOW = window(64)
BIGBIRD = either(WINDOW, first(2), scattered(3))
CASES: dict[str, tuple[Callable[[], torch.nn.Module], Any]] = {
    "full": (ScaledDotProduct, everything),
    "window 64": (ScaledDotProduct, WINDOW),
    "window 64, ALiBi": (lambda: LinearBias(HEADS), WINDOW),
    "window 64, relative": (lambda: RelativePositions(SIZE, SIZE, 16), WINDOW),
    "BigBird: window 64, 2 global, 3 random": (ScaledDotProduct, BIGBIRD),
    "the same as a mask": (ScaledDotProduct, BIGBIRD),
}
MASK = "the same as a mask"
LONGEST_MASK = 4096
LONG_SECONDS = 10.0  # a pass that takes longer is run once for time and memory


def passes(
    name: str, length: int, batch: int, dtype: torch.dtype, device: torch.device
) -> dict[str, Callable[[], Any]]:
    """A forward pass, and one with gradients of queries, keys, values and learned tables."""
    torch.manual_seed(1)
    make, rule = CASES[name]
    function, layout = make().to(device), Padded(length)
    qkv = torch.randn(batch, length, 3, HEADS, SIZE, device=device, dtype=dtype)
    q, k, v = (x.transpose(1, 2) for x in qkv.unbind(2))

    def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        sees = look(layout, layout, rule, device)
        if name == MASK:
            sees = replace(sees, mask=sees.dense(device), sparse=None)  # as a rule without such a form would be
        return function(q, k, v, sees).output

    def alone() -> None:
        with torch.no_grad():
            forward(q, k, v)

    def gradients() -> None:
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        out = forward(*leaves)
        torch.autograd.grad(out, [*leaves, *function.parameters()], out)

    return {"forward": alone, "with gradients": gradients}


def seconds(go: Callable[[], Any], rounds: int, device: torch.device) -> float:
    def once() -> float:
        clock = time.process_time if device.type == "cpu" else time.perf_counter
        began = clock()
        go()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return clock() - began

    once()
    return min(once() for _ in range(rounds))


def gpu_mib(go: Callable[[], Any]) -> float:
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    go()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def in_a_process(name: str, lengths: list[int]) -> dict[str, dict[str, dict[str, float]]]:
    """Milliseconds and MiB of one pass of each kind and length in a new process.

    Freed memory goes back to the system at once, so that it does not hide what follows.
    """
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    command = [sys.executable, __file__, "--memory-of", name, *map(str, lengths)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, dict[str, dict[str, float]]] = json.loads(done.stdout)
    return found


def single_passes(name: str, length: int) -> dict[str, dict[str, float]]:
    def highest() -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**10

    torch.set_num_threads(1)
    device = torch.device("cpu")
    for go in passes(name, 1024, 1, torch.float32, device).values():
        go()  # loads what PyTorch loads lazily
    found = {}
    for what, go in passes(name, length, 1, torch.float32, device).items():
        Path("/proc/self/clear_refs").write_text("5")  # the highest so far is what is held now
        before, began = highest(), time.process_time()
        go()
        found[what] = {"ms": 1000 * (time.process_time() - began), "mib": highest() - before}
    return found


def decoding_step(name: str, length: int, device: torch.device) -> Callable[[], Any]:
    """A step of the decoder at the last of these positions: what it sees, and attention to cached keys."""
    q, k, v = (torch.randn(1, HEADS, n, SIZE, device=device) for n in (1, length, length))
    make, rule = CASES[name]
    function, rule = make().to(device), causal if rule is everything else both(causal, rule)

    def go() -> None:
        sees = look(Padded(1, offset=length - 1), Padded(length), rule, device)
        if name == MASK:
            sees = replace(sees, mask=sees.dense(device), sparse=None, step=None)
        with torch.no_grad():
            attend_made(function, q, k, v, sees)

    return go


def exponent(points: dict[int, float]) -> float:
    """The slope of log y over log n."""
    logs = [(math.log(n), math.log(max(y, 1e-9))) for n, y in points.items() if not math.isnan(y)]
    if len(logs) < 2:
        return math.nan
    x, y = (sum(axis) / len(logs) for axis in zip(*logs, strict=True))
    return sum((a - x) * (b - y) for a, b in logs) / sum((a - x) ** 2 for a, _ in logs)


def points(found: dict[str, Any], name: str, what: str, of: str) -> dict[int, float]:
    return {int(n): value[what][of] for n, value in sorted(found.get(name, {}).items(), key=lambda x: int(x[0]))}


def table(found: dict[str, Any], lengths: list[int]) -> str:
    lines = []
    for what in ("forward", "with gradients"):
        lines += [
            f"| {what} | " + " | ".join(f"{n:,}" for n in lengths) + " | exponents |",
            "|---" * (len(lengths) + 2) + "|",
        ]
        for name in CASES:
            time_of, held = (points(found, name, what, of) for of in ("ms", "mib"))
            cells = [f"{time_of[n]:,.1f} ms, {held[n]:,.0f} MiB" if n in time_of else "" for n in lengths]
            lines.append(f"| {name} | " + " | ".join(cells) + f" | {exponent(time_of):.2f}, {exponent(held):.2f} |")
        lines.append("")
    return "\n".join(lines)


def title_of(report: dict[str, Any]) -> str:
    return f"{report['machine']}, {report['dtype']}, torch {report['torch']}"


def draw(report: dict[str, Any], path: str) -> None:
    from dragoman.inspect.pictures import COLORS, load_pyplot, save_figure

    found = report["found"]
    figure, axes = load_pyplot().subplots(2, 2, figsize=(11, 8), layout="constrained")
    for column, what in enumerate(("forward", "with gradients")):
        for row, (of, unit) in enumerate((("ms", "milliseconds"), ("mib", "MiB at the peak"))):
            axis = axes[row][column]
            for name, color in zip(CASES, COLORS, strict=True):
                known = points(found, name, what, of)
                label = f"{name.partition(':')[0]}: n^{exponent(known):.2f}"
                axis.plot(list(known), list(known.values()), marker="o", color=color, label=label)
            axis.set(xscale="log", yscale="log", xlabel="positions n", ylabel=unit, title=what)
            ticks = sorted({n for name in CASES for n in points(found, name, what, of)})
            axis.set_xticks(ticks, [f"{n:,}" for n in ticks])
            axis.minorticks_off()
            axis.grid(alpha=0.3)
            axis.legend(fontsize=8)
    figure.suptitle(f"Self-attention, 8 heads of 64: {title_of(report)}")
    save_figure(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", nargs="+", type=int, default=[1 << p for p in range(10, 16)])
    parser.add_argument("--only", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--tokens", type=int, default=32768, help="of a batch, on a GPU")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", default="attention_growth.json")
    parser.add_argument("--picture")
    parser.add_argument("--draw", action="store_true", help="only draw the picture of what --out has")
    parser.add_argument("--memory-of", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.memory_of is not None:
        name, *lengths = given.memory_of
        print(json.dumps({length: single_passes(name, int(length)) for length in lengths}))
        return
    if given.draw:
        if given.picture is None:
            parser.error("--draw needs --picture")
        report = json.loads(Path(given.out).read_text())
        draw(report, given.picture)
        return
    torch.set_num_threads(1)
    device, dtype = torch.device(given.device), getattr(torch, given.dtype)
    on_gpu = device.type == "cuda"
    machine = torch.cuda.get_device_name() if on_gpu else "one thread of a CPU"
    out = Path(given.out)
    report = json.loads(out.read_text()) if out.exists() else {"found": {}}
    report |= {"machine": machine, "torch": torch.__version__, "dtype": given.dtype}
    found = report["found"]
    for name in given.only:
        known, longest = found.setdefault(name, {}), LONGEST_MASK if name == MASK else max(given.lengths)
        missing = [n for n in given.lengths if str(n) not in known and n <= longest]
        single = {} if on_gpu or not missing else in_a_process(name, missing)
        for length in missing:
            batch = max(1, given.tokens // length) if on_gpu else 1
            cell = single.get(str(length), {})
            for what, go in passes(name, length, batch, dtype, device).items():
                if on_gpu:
                    took = seconds(go, given.rounds, device)
                    cell[what] = {"ms": 1000 * took / batch, "mib": gpu_mib(go) / batch}
                elif cell[what]["ms"] < 1000 * LONG_SECONDS:
                    cell[what]["ms"] = 1000 * seconds(go, given.rounds, device)
            known[str(length)] = cell
            out.write_text(json.dumps(report, indent=1) + "\n")
            print(f"{name}, {length:,}: {cell}", file=sys.stderr, flush=True)
    print(f"{title_of(report)}\n\n{table(found, given.lengths)}")
    print("| decoding step, ms | " + " | ".join(f"{n:,}" for n in given.lengths) + " |")
    print("|---" * (len(given.lengths) + 1) + "|")
    for name in given.only:
        cells = [1000 * seconds(decoding_step(name, n, device), 20, device) for n in given.lengths]
        print(f"| {name} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |", flush=True)
    if given.picture:
        draw(report, given.picture)


if __name__ == "__main__":
    main()
