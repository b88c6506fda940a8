"""Training on a CPU: target tokens a second and memory, ours beside others, the same batches, in one run.

    python benchmarks/train_cpu.py --sizes small base --rounds 3
    python benchmarks/train_cpu.py --sizes base --rounds 1 --keep rounds.jsonl      # one round more each time

Each contender runs in a process of its own, in turns, so that whatever else the machine does falls on all alike; the
best of the rounds is printed, because other work only ever slows one down. The model is the same for all
(train_peers.py): post-norm, ReLU, tied embeddings, dropout 0.1, label smoothing 0.1, Adam. What is not installed, or
dies (PyTorch's bfloat16 ends in an illegal instruction on some virtual machines), is named and left out. The best peer
is the best in any precision.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import platform
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.nn.functional as F
from train_peers import PAD, PEERS, Batch, Made

WARM_UP = 1
SIZES = {  # d_model, heads, d_ff, layers, vocabulary
    "small": (256, 4, 1024, 3, 8000),
    "base": (512, 8, 2048, 6, 37000),
}
OURS = "dragoman"
Step = Callable[[Batch], None]


def batches(count: int, tokens: int, vocabulary: int) -> list[Batch]:
    """Padded batches of about `tokens` target tokens, sentences of like length together, as all the peers make them."""
    g = torch.Generator().manual_seed(0)
    source = torch.exp(torch.randn(40_000, generator=g) * 0.55 + math.log(24))
    target = (source * (1 + 0.15 * torch.randn(40_000, generator=g))).clamp(3, 120).long()
    source = source.clamp(3, 120).long()
    order = torch.argsort(target * 1000 + source)
    groups, start = [], 0
    while start < len(order):
        width, end = 0, start
        while end < len(order):
            longer = max(width, int(target[order[end]]))
            if (end + 1 - start) * longer > tokens:
                break
            width, end = longer, end + 1
        groups.append(order[start:end])
        start = end
    made = []
    for i in torch.randperm(len(groups), generator=g)[:count].tolist():
        s, t = source[groups[i]], target[groups[i]]
        ids = [torch.randint(4, vocabulary, (len(s), int(n.max()) + 1), generator=g) for n in (s, t)]
        for x, n in zip(ids, (s, t), strict=True):
            x[torch.arange(x.shape[1]) > n[:, None]] = PAD
        made.append((ids[0], ids[1][:, :-1].contiguous(), ids[1][:, 1:].contiguous()))
    return made


def adam(parameters) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, 1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)


def plain_step(made: Made, autocast) -> Step:
    """How such a loop is usually written."""
    model, forward = made
    model.train()
    optimizer = adam(model.parameters())

    def step(batch: Batch) -> None:
        with autocast():
            logits = forward(batch)
        loss = F.cross_entropy(logits.float().flatten(0, 1), batch[2].flatten(), ignore_index=PAD, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def ours(size: str, precision: str) -> Step:
    from dragoman import Transformer
    from dragoman.config import ModelRecipe, TrainRecipe
    from dragoman.data.batch import Batch as OurBatch
    from dragoman.training.loss.cross_entropy import TranslationLoss
    from dragoman.training.optim.optimizer import Optimizer
    from dragoman.training.steps.eager import keep_freed_memory
    from dragoman.training.steps.eager import precision as context

    keep_freed_memory()
    d, h, ff, layers, vocabulary = SIZES[size]
    recipe = ModelRecipe(d_model=d, n_heads=h, d_ff=ff, encoder_layers=layers, decoder_layers=layers, dropout=0.1)
    model = Transformer(recipe, vocabulary)
    task, optimizer = TranslationLoss(model, 0.1, PAD), Optimizer(model, TrainRecipe())
    autocast = context(TrainRecipe(precision=precision), torch.device("cpu"))

    def step(batch: Batch) -> None:
        source, target_in, target_out = batch
        lengths = [(x != PAD).sum(-1) for x in (source, target_out)]
        tokens = int(lengths[1].sum())
        made = OurBatch(
            "padded", source, lengths[0], target_in, target_out, lengths[1], lengths[0], len(source),
            int(lengths[0].sum()), tokens, 128, 0,
        )  # fmt: skip
        with autocast():
            loss = task(made)
        (loss.smoothed / tokens).backward()
        optimizer.step(1e-4)
        optimizer.clear_gradients()

    return step


def measure(name: str, size: str, precision: str, steps: int, tokens: int) -> None:
    """Run in a child: print target tokens a second and the most memory held."""
    torch.manual_seed(0)
    if name == OURS:
        step = ours(size, precision)
    else:
        autocast = nullcontext if precision == "float32" else lambda: torch.autocast("cpu", torch.bfloat16)
        step = plain_step(PEERS[name](SIZES[size]), autocast)
    data = batches(steps + WARM_UP, tokens, SIZES[size][4])
    for batch in data[:WARM_UP]:
        step(batch)
    begun = time.perf_counter()
    for batch in data[WARM_UP:]:
        step(batch)
    seconds = time.perf_counter() - begun
    real = sum(int((b[2] != PAD).sum()) for b in data[WARM_UP:])
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"size": size, "name": name, "precision": precision, "rate": real / seconds, "gib": held}))


def tried(command: list[str], name: str, precision: str) -> str | None:
    """The last line of a child, or None where it could not do it, which is said."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return done.stdout.splitlines()[-1]
    why = signal.Signals(-done.returncode).name if done.returncode < 0 else done.stderr.strip().splitlines()[-1][:150]
    print(f"{name}, {precision}: {why}", flush=True)
    return None


def survives() -> bool:
    """Whether PyTorch's own bfloat16 does, tried in a process that may die."""
    code = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); (x @ x).sum().item()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def table(lines: list[dict[str, object]]) -> None:
    print(f"{'model':6} {'what':22} {'precision':9} {'target tokens/s':>15} {'to the best peer':>16} {'GiB':>5} rounds")
    for size in SIZES:
        found: dict[tuple[str, str], list[dict]] = {}
        for line in lines:
            if line["size"] == size:
                found.setdefault((line["name"], line["precision"]), []).append(line)
        rate = {key: max(r["rate"] for r in rows) for key, rows in found.items()}
        best = max((r for (name, _), r in rate.items() if name != OURS), default=math.nan)
        for (name, precision), rows in found.items():
            here, held = rate[name, precision], max(r["gib"] for r in rows)
            print(f"{size:6} {name:22} {precision:9} {here:15,.0f} {here / best:15.2f}x {held:5.1f} {len(rows):6}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--precisions", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16"])
    parser.add_argument("--names", nargs="+", default=[OURS, *PEERS], choices=[OURS, *PEERS])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--keep", type=Path, help="add the rounds to those in this file, and print the table of all")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.child:
        measure(*options.child, options.steps, options.tokens)
        return
    print(f"torch {torch.__version__}, {options.threads} threads, {platform.processor() or platform.machine()}")
    lines = options.keep.read_text().splitlines() if options.keep and options.keep.exists() else []
    failed: set[tuple[str, str]] = set()
    if "bfloat16" in options.precisions and not survives():
        print("PyTorch's bfloat16 dies on this machine (illegal instruction): left out for all peers")
        failed = {(name, "bfloat16") for name in PEERS}
    for size in options.sizes:
        for _ in range(options.rounds):
            for name, precision in itertools.product(options.names, options.precisions):
                if (name, precision) in failed:
                    continue
                child = [sys.executable, "-W", "ignore", __file__, "--child", name, size, precision]
                more = {"steps": options.steps, "tokens": options.tokens, "threads": options.threads}
                line = tried([*child, *(f"--{k}={v}" for k, v in more.items())], name, precision)
                if line is None:
                    failed.add((name, precision))
                    continue
                lines.append(line)
                if options.keep:
                    with options.keep.open("a") as file:
                        file.write(line + "\n")
    table([json.loads(line) for line in lines])


if __name__ == "__main__":
    main()
