"""Self-attention that does not look at everything: seconds and memory over the length, beside full attention.

    python benchmarks/patterns.py --lengths 256 1024 4096

Forward and backward of one layer of multi-head self-attention (projections included), each pattern as the model runs
it, in turns; the best of some rounds: by the clock on a GPU, else processor seconds, which other processes disturb
less. Full attention is PyTorch's fused kernel, which holds no square of weights.
Memory is what a forward and backward pass adds at its highest: by the allocator on a GPU, else of the process, each in
a separate process.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path

import torch

from dragoman.config import ModelRecipe
from dragoman.models.parts import parts
from dragoman.nn import Padded, look

PATTERNS = {
    "full": {},
    "local, window 64": {"pattern": "local", "window": 64},
    "local, window 16": {"pattern": "local", "window": 16},
    "sparse": {"pattern": "sparse", "window": 16, "global_tokens": 2, "random_tokens": 3},
    "low_rank, rank 64": {"pattern": "low_rank", "rank": 64},
    "relative": {"positions": "relative"},
    "rotary": {"positions": "rotary"},
    "alibi": {"positions": "alibi"},
}


def pass_of(name: str, length: int, batch: int, device: torch.device) -> Callable[[], None]:
    """A forward and backward pass through one encoder's self-attention."""
    torch.manual_seed(1)
    changes = {"max_positions": max(1024, length)} if "low_rank" in name else {}
    make = parts(ModelRecipe(**PATTERNS[name], **changes))  # type: ignore[arg-type]
    attention, layout = make.encoder_attention().to(device), Padded(length)
    x = torch.randn(batch, length, 512, device=device, requires_grad=True)

    def go() -> None:
        attention(x, look(layout, layout, make.encoder_sees, device)).sum().backward()
        if device.type == "cuda":
            torch.cuda.synchronize()

    return go


def seconds(go: Callable[[], None], rounds: int) -> float:
    clock = time.perf_counter if torch.cuda.is_available() else time.process_time
    go()
    took = []
    for _ in range(rounds):
        began = clock()
        go()
        took.append(clock() - began)
    return min(took)


def highest() -> float:
    """MiB that this process has held at its highest (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**10


def memory(name: str, length: int, batch: int, kind: str, pipe: object) -> None:
    """MiB that a pass adds at its highest."""
    device = torch.device(kind)
    pass_of(name, 1024, 1, device)()  # loads what PyTorch loads lazily
    go = pass_of(name, length, batch, device)
    if kind == "cuda":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        go()
        added = (torch.cuda.max_memory_allocated() - before) / 2**20
    else:
        Path("/proc/self/clear_refs").write_text("5")  # the highest so far is what is held now
        before = highest()
        go()
        added = highest() - before
    pipe.send(added)  # type: ignore[attr-defined]


def measured_memory(name: str, length: int, batch: int, kind: str) -> float:
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    child = multiprocessing.get_context("spawn").Process(target=memory, args=(name, length, batch, kind, theirs))
    child.start()
    theirs.close()
    try:
        return float(ours.recv())
    except EOFError:
        return float("nan")  # it did not fit
    finally:
        child.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", nargs="+", type=int, default=[256, 1024, 4096])
    parser.add_argument("--only", nargs="+", default=list(PATTERNS), choices=PATTERNS)
    parser.add_argument("--tokens", type=int, default=4096, help="in a batch, where a sentence is not longer")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    print(f"| {kind}, {torch.get_num_threads()} threads | " + " | ".join(f"{n} tokens" for n in given.lengths) + " |")
    print("|---" * (len(given.lengths) + 1) + "|")
    for name in given.only:
        cells = []
        for length in given.lengths:
            batch = max(1, given.tokens // length)
            took = seconds(pass_of(name, length, batch, torch.device(kind)), given.rounds)
            held = measured_memory(name, length, batch, kind)
            cells.append(f"{1e6 * took / (batch * length):.2f} us, {held * 1024 / (batch * length):.1f} KiB")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
