"""Training on one GPU: target tokens a second, ours beside others, the same lengths, in one run.

    python benchmarks/train_gpu.py --sizes base big small --out results.json

Contenders: our packed and compiled step as the trainer runs it, `torch.nn.Transformer` and Hugging Face's Marian, each
as it is and under torch.compile (dynamic shapes; the model alone, or with the loss), all in bfloat16 autocast with
Adam, dropout 0.1 and label smoothing 0.1. Ours takes sentences in random order, packed; the others get padded batches
of sentences of like length on both sides, so that a tenth is padding.
Each runs in a process of its own: those of one size compile at once, and then each is measured alone, in turns.
Only real target tokens count. Useful operations are those of the matrix products of real tokens, attention's left out.
Beside the contenders: ours with all logits held at once, which says what the loss in blocks saves, and ours started
once more, which says how long the first step takes when its code was kept. `--only ours ours-compilers-norm
ours-torchs-products ours-torchs-adam ours-autocast` says what single parts bring.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from train_peers import PAD, Batch, Made, Sizes, marian, torch_transformer

SIZES = {  # d_model, heads, d_ff, layers, vocabulary, tokens a step on each side
    "small": (256, 4, 1024, 3, 16000, 32768),
    "base": (512, 8, 2048, 6, 37000, 32768),
    "big": (1024, 16, 4096, 6, 37000, 32768),
}
GROUPS = {  # of kernels, by their names, the first that fits
    "attention, forward": r"^(attention|other_tiles)_kernel",
    "attention, backward": r"^(attention|other_tiles)_backward",
    "loss over the vocabulary": r"cross_entropy",
    "matrices rounded, gradients widened": r"CopyFunctor",
    "matrix products": r"gemm|nvjet|cutlass|cublas|xmma|splitK",
    "optimizer, norm of gradients": r"[Aa]dam|multi_tensor|lpnorm|foreach",
    "embeddings": r"embedding|index_put",
    "norm, dropout, residual": r"layer_norm|residual_norm|dropout|fused_rand|bernoulli|rsqrt",
    "activation, biases, casts, sums": r"triton_|relu_backward|reduce_kernel",
    "copies, zeroing": r"[Mm]emcpy|[Mm]emset|FillFunctor|copy",
}


def lengths(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of source and target sentences with BOS and EOS: log-normal, a mean of about 28."""
    g = torch.Generator().manual_seed(seed)
    source = torch.exp(torch.randn(count, generator=g) * 0.55 + math.log(24))
    target = source * (1 + 0.15 * torch.randn(count, generator=g))
    return source.clamp(3, 120).long().numpy(), target.clamp(3, 120).long().numpy()


def useful(size: str, source: float, target: float) -> float:
    """Floating-point operations of a step's matrix products, forward and backward."""
    d, _, ff, layers, vocabulary, _ = SIZES[size]
    encoder, memory = layers * (4 * d * d + 2 * d * ff), layers * 2 * d * d
    decoder = layers * (6 * d * d + 2 * d * ff)
    return 6 * (source * (encoder + memory) + target * (decoder + vocabulary * d))


def ceilings() -> dict[str, float]:
    """TFLOP/s of bfloat16 products on random data: a large one, and shapes of the base model."""
    found = {}
    for m, k, n in ((8192, 8192, 8192), (32768, 512, 2048), (32768, 512, 1536), (32768, 512, 512), (8192, 512, 37056)):
        a, b = (torch.randn(*s, device="cuda", dtype=torch.bfloat16) for s in ((m, k), (k, n)))
        for _ in range(3):
            a @ b
        torch.cuda.synchronize()
        began, repeats = time.perf_counter(), 20
        for _ in range(repeats):
            a @ b
        torch.cuda.synchronize()
        found[f"({m},{k})x({k},{n})"] = 2 * m * k * n * repeats / (time.perf_counter() - began) / 1e12
    return found


# --- ours


def packed_batches(size: str, count: int) -> list[Any]:
    """Batches as the loader makes them, of random ids."""
    from dragoman.data.batch import FlatSentences, make_batch
    from dragoman.data.batching import PackedShape, fill_tiles

    *_, vocabulary, tokens = SIZES[size]
    source, target = lengths(3 * count * tokens // 28, 3)
    rng, made, start = np.random.default_rng(0), [], 0
    for _ in range(count):
        ends = [np.searchsorted(np.cumsum(x[start:]), tokens, side="right") for x in (source, target)]
        here = slice(start, start + min(ends))
        start = here.stop
        order = fill_tiles(source[here], target[here])
        flats = [
            FlatSentences(rng.integers(4, vocabulary, int((n - 1).sum())), n[order] - 1)
            for n in (source[here], target[here])
        ]
        shape = PackedShape(tokens, tokens, tokens // 16, 128)
        made.append(make_batch(np.arange(len(order)), *flats, shape, 0).pin())
    return made


def do_without(part: str) -> None:
    """Leave a part of our step to PyTorch: what does it bring?"""
    import dragoman.nn.kernels.gpu_matmul
    import dragoman.nn.residual
    import dragoman.training.loss.cross_entropy
    import dragoman.training.steps.cuda_graph

    match part:
        case "loss":  # all logits are held, as where there is no kernel for it
            dragoman.training.loss.cross_entropy.triton_available = lambda kind: False  # type: ignore[assignment]
        case "norm":
            dragoman.nn.residual.fuses_residual_norm = lambda x, y: False
        case "products":
            dragoman.nn.kernels.gpu_matmul.cublas_lt = lambda: None  # type: ignore[assignment]
        case "adam":
            dragoman.training.steps.cuda_graph.supports_bf16_adam = lambda *_: False  # type: ignore[assignment]
        case "halves":
            bf16_weights = dragoman.training.steps.cuda_graph.Bf16Weights
            dragoman.training.steps.cuda_graph.Bf16Weights = lambda task, kind: bf16_weights(task, None)  # type: ignore[misc, assignment]


def ours(name: str, size: str, steps: int, profile: bool = False, without: str = "") -> dict[str, Any]:
    """Our step as the trainer runs it, or without one of its parts."""
    from dragoman import Transformer
    from dragoman.config import ModelRecipe, TrainRecipe
    from dragoman.training.distributed.ranks import Ranks
    from dragoman.training.loss.cross_entropy import TranslationLoss
    from dragoman.training.optim.optimizer import Optimizer
    from dragoman.training.steps.cuda_graph import CudaGraphSteps
    from dragoman.training.steps.eager import precision

    d, h, ff, layers, vocabulary, _ = SIZES[size]
    shape = ModelRecipe(d_model=d, n_heads=h, d_ff=ff, encoder_layers=layers, decoder_layers=layers, dropout=0.1)
    device, recipe = torch.device("cuda"), TrainRecipe(compile=True)
    do_without(without)
    torch.manual_seed(0)
    model = Transformer(shape, vocabulary).to(device).train()
    batches = packed_batches(size, 12)
    task, optimizer = TranslationLoss(model, 0.1, PAD), Optimizer(model, recipe)
    queue = CudaGraphSteps(task, optimizer, recipe, precision(recipe, device), Ranks(device=device))
    losses, done = [], 0

    def step() -> None:
        nonlocal done
        batch = batches[done % len(batches)]
        done += 1
        queue.submit([batch], done, batch.target_tokens, batch.source_tokens, 1e-4)
        losses.extend(o.smoothed / o.target for o in queue.completed(wait=False))

    for _ in range(3):
        step()
    torch.cuda.synchronize()
    wait_for_turn()
    seconds = measure(step, steps, 6)
    target, source = (statistics.fmean(getattr(b, f"{side}_tokens") for b in batches) for side in ("target", "source"))
    found = report(name, size, seconds, source, target)
    found |= {
        "first_step_seconds": queue.first_seconds,
        "fill": target / SIZES[size][5],
        "losses": losses[:2] + losses[-2:],
    }
    if profile:
        found["breakdown_ms"], found["kernels"] = breakdown(step)
    return found


def breakdown(step: Callable[[], None], steps: int = 4) -> tuple[dict[str, float], list[tuple[str, int, float]]]:
    """Milliseconds of a step by kind of kernel, and the kernels that take most."""
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    groups = dict.fromkeys([*GROUPS, "other"], 0.0)
    kernels = []
    for event in seen.key_averages():
        spent = event.self_device_time_total / steps / 1e3
        name = next((group for group, pattern in GROUPS.items() if re.search(pattern, event.key)), "other")
        groups[name] += spent
        kernels.append((event.key[:110], round(event.count / steps), round(spent, 3)))
    return {k: round(v, 3) for k, v in groups.items()}, sorted(kernels, key=lambda k: -k[2])[:40]


# --- the others


def padded_batches(size: str, count: int) -> list[Batch]:
    """Sentences of like lengths, rows times columns within the tokens of a step: source, target, labels."""
    *_, vocabulary, tokens = SIZES[size]
    source, target = lengths(40_000, 0)
    longer = np.maximum(source, target)
    order = np.lexsort((source + target, longer))  # of those that were tried, this pads least: a tenth
    groups, start = [], 0
    while start < len(order):
        end = start
        while end < len(order) and (end + 1 - start) * longer[order[end]] <= tokens:
            end += 1
        groups.append(order[start:end])
        start = end
    made, g = [], torch.Generator().manual_seed(1)
    for i in torch.randperm(len(groups), generator=g)[:count].tolist():
        sides = []
        for side in (source, target):
            n = torch.from_numpy(side[groups[i]])
            ids = torch.randint(4, vocabulary, (len(n), int(n.max())), generator=g)
            sides.append(ids.masked_fill(torch.arange(ids.shape[1])[None] >= n[:, None], PAD).cuda())
        made.append((sides[0], sides[1], sides[1]))  # which labels these are costs the same
    return made


def peer(name: str, size: str, maker: Callable[[Sizes], Made], compiled: str, steps: int) -> dict[str, Any]:
    """Another's model as it is (""), with the model compiled ("model"), or the model and the loss ("all")."""
    torch.manual_seed(0)
    batches = padded_batches(size, 12)
    model, forward = maker(SIZES[size][:5])
    model.cuda().train()
    if compiled == "model":
        forward = torch.compile(forward, dynamic=True)

    def loss_of(batch: Batch) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            logits = forward(batch)
        return F.cross_entropy(logits.float().flatten(0, 1), batch[2].flatten(), ignore_index=PAD, label_smoothing=0.1)

    call = torch.compile(loss_of, dynamic=True) if compiled == "all" else loss_of
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    done = 0

    def step() -> None:
        nonlocal done
        batch = batches[done % len(batches)]
        done += 1
        call(batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    if compiled:  # with whole batches, because the sizes that are seen first shape the code
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    wait_for_turn()
    seconds = measure(step, steps, len(batches))
    source, target = (statistics.fmean(int((b[i] != PAD).sum()) for b in batches) for i in (0, 1))
    cells = statistics.fmean(b[1].numel() for b in batches)
    return report(name, size, seconds, source, target) | {"fill": target / cells}


# --- measuring


def measure(step: Callable[[], None], steps: int, warm: int) -> float:
    """Seconds a step, over `steps` of them in a row."""
    torch.cuda.reset_peak_memory_stats()
    for _ in range(warm):
        step()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / steps


def report(name: str, size: str, seconds: float, source: float, target: float) -> dict[str, Any]:
    found = {
        "size": size,
        "what": name,
        "ms": seconds * 1e3,
        "tokens_per_second": target / seconds,
        "useful_tflops": useful(size, source, target) / seconds / 1e12,
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30,
        "reserved_gib": torch.cuda.max_memory_reserved() / 2**30,
    }
    print(
        f"{size:6s} {name:44s} {found['ms']:8.2f} ms {found['tokens_per_second'] / 1e3:8.1f}k tok/s "
        f"{found['useful_tflops']:6.1f} TFLOP/s {found['peak_gib']:6.1f} GiB ({found['reserved_gib']:.1f} held)",
        flush=True,
    )
    return found


PLAIN, MARIAN = "torch.nn.Transformer", "Hugging Face Marian"
CONTENDERS: dict[str, Any] = {
    "ours": lambda size, steps: ours("dragoman", size, steps, profile=True),
    "ours-whole-logits": lambda size, steps: ours("dragoman, all logits held", size, steps, without="loss"),
    "plain": lambda size, steps: peer(PLAIN, size, torch_transformer, "", steps),
    "plain-model": lambda size, steps: peer(f"{PLAIN}, compiled", size, torch_transformer, "model", steps),
    "plain-all": lambda size, steps: peer(f"{PLAIN}, compiled with the loss", size, torch_transformer, "all", steps),
    "marian": lambda size, steps: peer(MARIAN, size, marian, "", steps),
    "marian-model": lambda size, steps: peer(f"{MARIAN}, compiled", size, marian, "model", steps),
    "marian-all": lambda size, steps: peer(f"{MARIAN}, compiled with the loss", size, marian, "all", steps),
    "ours-again": lambda size, steps: ours("dragoman, started again", size, steps),
}
PARTS: dict[str, Any] = {  # not measured unless asked for
    "ours-compilers-norm": lambda size, steps: ours("dragoman, norms by the compiler", size, steps, True, "norm"),
    "ours-torchs-products": lambda size, steps: ours("dragoman, products by PyTorch", size, steps, True, "products"),
    "ours-torchs-adam": lambda size, steps: ours("dragoman, Adam by PyTorch", size, steps, True, "adam"),
    "ours-autocast": lambda size, steps: ours("dragoman, weights by autocast", size, steps, True, "halves"),
}


def wait_for_turn() -> None:
    """Say that all is compiled, and go on when nobody else is being measured."""
    place = os.environ.get("TURN")
    if place:
        torch.cuda.empty_cache()
        Path(place + ".ready").touch()
        while not Path(place + ".go").exists():
            if os.getppid() != int(os.environ["PARENT"]):  # nobody is left to give the sign
                sys.exit("the run that this belongs to is over")
            time.sleep(0.02)


def child(name: str, size: str, steps: int) -> None:
    torch.set_float32_matmul_precision("high")
    found = (CONTENDERS | PARTS)[name](size, steps)
    Path(os.environ["TURN"] + ".json").write_text(json.dumps(found), encoding="utf-8")


def start(size: str, name: str, steps: int, folder: Path) -> tuple[Path, subprocess.Popen[bytes]]:
    """A contender in a process of its own, with what is compiled kept among those of this run alone."""
    place = folder / f"{size}-{name}"
    words = [sys.executable, __file__, "--child", name, size, str(steps)]
    environment = {**os.environ, "TURN": str(place), "PARENT": str(os.getpid())}
    environment |= {"TORCHINDUCTOR_COMPILE_THREADS": "3", "OMP_NUM_THREADS": "2"}
    if name.startswith("ours"):
        environment["DRAGOMAN_CACHE"] = str(folder / "cache")
    with place.with_suffix(".log").open("w") as log:
        return place, subprocess.Popen(words, env=environment, stdout=log, stderr=log)


def finish(place: Path, process: subprocess.Popen[bytes]) -> dict[str, Any] | None:
    """Let it be measured, and say what came of it."""
    Path(f"{place}.go").touch()
    failed = process.wait() != 0
    lines = place.with_suffix(".log").read_text(encoding="utf-8").splitlines()
    print(f"{place.name} failed: {lines[-3:]}" if failed else next(x for x in lines if "tok/s" in x), flush=True)
    return None if failed else json.loads(Path(f"{place}.json").read_text(encoding="utf-8"))


def in_turns(size: str, names: list[str], steps: int, folder: Path, after: Path | None) -> Iterator[dict[str, Any]]:
    """Start all of a size, let them compile, then measure one after the other; the last one starts when all are over.

    Not all sizes at once: what they hold together would not fit.
    """
    last = [name for name in names if name == "ours-again"]
    running = dict(start(size, name, steps, folder) for name in names if name not in last)

    def settled(place: Path) -> bool:
        return running[place].poll() is not None or Path(f"{place}.ready").exists()

    while not all(map(settled, running)) or (after is not None and not after.exists()):
        time.sleep(0.1)
    for place, process in running.items():
        if found := finish(place, process):
            yield found
    for name in last:
        if found := finish(*start(size, name, steps, folder)):
            yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["base"], choices=SIZES)
    parser.add_argument("--only", nargs="+", default=list(CONTENDERS), choices=CONTENDERS | PARTS)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--out", type=Path, help="a JSON file for all numbers")
    parser.add_argument("--after", type=Path, help="measure only when this file is there")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child[0], given.child[1], int(given.child[2]))
        return
    about = f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Python {platform.python_version()}"
    print(about, time.strftime("%Y-%m-%d"), flush=True)
    peaks = ceilings()
    print({k: round(v) for k, v in peaks.items()}, flush=True)
    torch.cuda.empty_cache()
    rows: list[dict[str, Any]] = []
    for size in given.sizes:
        with tempfile.TemporaryDirectory() as folder:
            for row in in_turns(size, given.only, given.steps, Path(folder), given.after):
                rows.append(row | {"of_peak": row["useful_tflops"] / max(peaks.values())})
                if given.out:  # what there is of it, should the rest be cut off
                    found = {"about": about, "ceilings": peaks, "rows": rows}
                    given.out.write_text(json.dumps(found, indent=1), encoding="utf-8")
    for row in rows:
        if "first_step_seconds" in row:
            print(f"{row['size']:6s} {row['what']:28s} first step {row['first_step_seconds']:5.1f} s", flush=True)
        if "breakdown_ms" in row:
            print("       ms by kind:", row["breakdown_ms"], flush=True)
    print(table(rows), flush=True)


def table(rows: list[dict[str, Any]]) -> str:
    """As it goes into the results."""
    lines = [
        "| model | what | ms a step | target tokens/s | to the best peer | useful TFLOP/s | of peak | memory, GiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        of_peers = [r["tokens_per_second"] for r in rows if r["size"] == row["size"] and "dragoman" not in r["what"]]
        ratio = f"{row['tokens_per_second'] / max(of_peers):.2f}x" if of_peers else "not measured"
        memory = row["reserved_gib" if "dragoman" in row["what"] else "peak_gib"]  # a CUDA graph owns what it holds
        lines.append(
            f"| {row['size']} | {row['what']} | {row['ms']:.1f} | {row['tokens_per_second']:,.0f} | {ratio} "
            f"| {row['useful_tflops']:.0f} | {row['of_peak']:.0%} | {memory:.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
