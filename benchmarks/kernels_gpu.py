"""Our Triton kernels by themselves: microseconds of a call, and terabytes a second of what they must read and write.

    python benchmarks/kernels_gpu.py --sizes base big
    python benchmarks/kernels_gpu.py --only norm-backward --vary nn.kernels.residual_norm.ROWS_PER_PROGRAM=32,64,128
    python benchmarks/kernels_gpu.py --only attention attention-backward --orders random tiles

Each is called as the step calls it, on a batch of 32,768 tokens with lengths of about 28, in bfloat16. `--vary` sets a
constant of a module to each of some values. Medians of calls that are recorded and replayed, as in the step.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from train_gpu import SIZES, lengths

KIND, P = torch.bfloat16, 0.1
CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if CUDA else "cpu")  # where there is no GPU, Triton's interpreter tries the script itself
Call = tuple[Callable[[], Any], int]


def of(*shape: int, kind: torch.dtype = KIND) -> Tensor:
    return torch.randn(*shape, device=DEVICE, dtype=torch.float32).to(kind)


def attention(size: str, tokens: int, order: str, backward: bool, causal: bool, cross: bool) -> Call:
    from dragoman.data.batching import fill_tiles
    from dragoman.nn import Packed, everything, look
    from dragoman.nn import causal as no_later
    from dragoman.nn.kernels.packed_attention import packed_attention, packed_attention_backward
    from dragoman.nn.layout import joint_tiles

    d, heads, *_ = SIZES[size]
    sides = lengths(3 * tokens // 28, 3)
    count = min(int(np.searchsorted(np.cumsum(side), tokens, side="right")) for side in sides)
    sides = tuple(side[:count] for side in sides)
    chosen = fill_tiles(*sides) if order == "tiles" else np.arange(count)
    counts = [torch.from_numpy(side[chosen]) for side in sides]
    tables = joint_tiles(counts[0], counts[1], tokens, tokens)
    source, target = (
        Packed.of(n.to(DEVICE), tokens, int(n.max()), table.to(DEVICE)) for n, table in zip(counts, tables, strict=True)
    )
    tiled = look(target, source if cross else target, no_later if causal else everything, DEVICE).tiled
    assert tiled is not None
    q, kv = (of(tokens, d), of(tokens, 2 * d)) if cross else (of(tokens, 3 * d), None)
    bounds = (tiled.q_tiles, tiled.k_tiles, tiled.low, tiled.high, tiled.first, tiled.final)
    out, lse = packed_attention(q, kv, heads, causal, *bounds)
    if not backward:
        return lambda: packed_attention(q, kv, heads, causal, *bounds), 4 * tokens * d * 2
    grad = of(tokens, d)
    return lambda: packed_attention_backward(grad, out, lse, q, kv, heads, causal, *bounds), 7 * tokens * d * 2


def norm(size: str, tokens: int, backward: bool) -> Call:
    from dragoman.nn.kernels.residual_norm import residual_norm, residual_norm_backward

    d = SIZES[size][0]
    x, y, grad, other = (of(tokens, d) for _ in range(4))
    weight, bias = of(d, kind=torch.float32), of(d, kind=torch.float32)
    drawn = torch.rand(2, device=DEVICE)
    _, total, mean, slope = residual_norm(x, y, weight, bias, drawn, P, 1e-5)
    if not backward:
        return lambda: residual_norm(x, y, weight, bias, drawn, P, 1e-5), 4 * tokens * d * 2
    return lambda: residual_norm_backward(grad, other, total, mean, slope, weight, drawn, P), 5 * tokens * d * 2


def relu(size: str, tokens: int) -> Call:
    from dragoman.nn.kernels.linear_relu import relu_backward

    width = SIZES[size][2]
    grad, out = of(tokens, width), of(tokens, width).relu()
    return lambda: relu_backward(grad, out), 3 * tokens * width * 2


def loss(size: str, tokens: int) -> Call:
    """With its three products; bytes are of the logits alone, written twice and read three times."""
    from dragoman.training.loss.fused_cross_entropy import projected_loss

    d, *_, vocabulary, _ = SIZES[size]
    hidden, weight = of(tokens, d), of(vocabulary, d, kind=torch.float32) * d**-0.5
    labels = torch.randint(4, vocabulary, (tokens,), device=DEVICE)
    return lambda: projected_loss(hidden, weight, labels, 0.1, 0, True), 5 * tokens * vocabulary * 2


def cross_entropy(size: str, tokens: int) -> Call:
    """The loss's kernel alone, on a block of rows; the logits are read twice and written once."""
    from dragoman.training.loss.fused_cross_entropy import ROWS, STEP, losses

    vocabulary, rows = SIZES[size][4], min(ROWS, tokens)
    logits = of(rows, -(-vocabulary // STEP) * STEP)
    labels = torch.randint(4, vocabulary, (rows,), device=DEVICE)
    smoothed, plain = (torch.empty(rows, device=DEVICE) for _ in range(2))
    call = lambda: losses(logits, labels, smoothed, plain, vocabulary, 0.1, 0, True)  # noqa: E731
    return call, 3 * logits.numel() * 2


def product(size: str, tokens: int, which: str, by_pytorch: bool) -> Call:
    """A projection d_model to d_model, the gradient that comes back through the feed-forward, or a block of logits."""
    from dragoman.nn.kernels.gpu_matmul import matmul

    d, _, ff, _, vocabulary, _ = SIZES[size]
    padded = -(-vocabulary // 64) * 64
    m, k, n = {"project": (tokens, d, d), "widen": (tokens, d, ff), "logits": (min(8192, tokens), d, padded)}[which]
    left, right = of(m, k), of(k, n) if which == "widen" else of(n, k).T
    return lambda: torch.mm(left, right) if by_pytorch else matmul(left, right), 2 * (m * k + k * n + m * n)


def adam(size: str, _: int) -> Call:
    from dragoman import Transformer
    from dragoman.config import ModelRecipe, TrainRecipe
    from dragoman.training.optim.bf16_adam import Bf16Adam, Bf16Weights
    from dragoman.training.optim.optimizer import Optimizer

    d, heads, ff, layers, *_ = SIZES[size]
    shape = ModelRecipe(d_model=d, n_heads=heads, d_ff=ff, encoder_layers=layers, decoder_layers=layers)
    model = Transformer(shape, 100).to(DEVICE)
    bf16, numbers = Bf16Weights(model, KIND), [torch.tensor(x, device=DEVICE) for x in (1e-4, 1.0, 0.0)]
    ours = Bf16Adam(bf16, Optimizer(model, TrainRecipe()))
    gradients = [torch.randn_like(half) for half in bf16.copies]

    def call() -> None:
        for half, gradient in zip(bf16.copies, gradients, strict=True):
            half.grad = gradient
        ours.step(*numbers)

    return call, 28 * sum(half.numel() for half in bf16.copies)


KERNELS: dict[str, Callable[[str, int, str], Call]] = {
    "attention": lambda size, n, order: attention(size, n, order, False, False, False),
    "attention-causal": lambda size, n, order: attention(size, n, order, False, True, False),
    "attention-cross": lambda size, n, order: attention(size, n, order, False, False, True),
    "attention-backward": lambda size, n, order: attention(size, n, order, True, False, False),
    "attention-causal-backward": lambda size, n, order: attention(size, n, order, True, True, False),
    "attention-cross-backward": lambda size, n, order: attention(size, n, order, True, False, True),
    "norm": lambda size, n, _: norm(size, n, False),
    "norm-backward": lambda size, n, _: norm(size, n, True),
    "relu-backward": lambda size, n, _: relu(size, n),
    "loss": lambda size, n, _: loss(size, n),
    "cross-entropy": lambda size, n, _: cross_entropy(size, n),
    **{
        f"{which}{'-by-pytorch' * by}": lambda size, n, _, which=which, by=by: product(size, n, which, by)  # type: ignore[misc]
        for which in ("project", "widen", "logits")
        for by in (True, False)
    },
    "adam": lambda size, n, _: adam(size, n),
}


def seconds(call: Callable[[], Any]) -> float:
    if CUDA:
        from triton.testing import do_bench_cudagraph

        from dragoman.native.algorithm_file import AlgorithmFile
        from dragoman.nn.kernels.gpu_matmul import tuning

        with tuning(AlgorithmFile()):  # as the first step does
            call()
        torch.cuda.synchronize()  # the recording has a stream of its own, which does not wait for what makes the input
        # Recorded, as in the step: the host would be slower than many of them. What they read is larger than the cache.
        return float(do_bench_cudagraph(call, rep=40, return_mode="median")) / 1e3
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def settings(vary: list[str]) -> list[dict[str, int]]:
    """All combinations of `module.NAME=1,2,3`."""
    named = [word.partition("=") for word in vary]
    return [
        dict(zip([name for name, _, _ in named], values, strict=True))
        for values in itertools.product(*([int(v) for v in text.split(",")] for _, _, text in named))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["base"], choices=SIZES)
    parser.add_argument("--only", nargs="+", default=list(KERNELS), choices=KERNELS)
    parser.add_argument("--orders", nargs="+", default=["tiles"], choices=["tiles", "random"])
    parser.add_argument("--tokens", type=int, default=32768)
    parser.add_argument("--vary", nargs="*", default=[], metavar="MODULE.NAME=A,B", help="below dragoman")
    given = parser.parse_args()
    print(
        torch.cuda.get_device_name() if CUDA else "no GPU: the times below mean nothing", torch.__version__, flush=True
    )
    for size, name, order, setting in itertools.product(given.sizes, given.only, given.orders, settings(given.vary)):
        if order != given.orders[0] and not name.startswith("attention"):
            continue
        for path, value in setting.items():
            module, _, constant = path.rpartition(".")
            place = importlib.import_module(f"dragoman.{module}")
            if not hasattr(place, constant):
                parser.error(f"dragoman.{module} has no {constant}")
            setattr(place, constant, value)
        try:
            call, size_in_bytes = KERNELS[name](size, given.tokens, order)
            took = seconds(call)
            found = f"{took * 1e6:9.1f} us {size_in_bytes / took / 1e12:6.2f} TB/s"
        except Exception as error:  # a setting that a kernel cannot have is no reason to lose the others
            found = f"failed: {str(error).splitlines()[0][:80]}"
        print(f"{size:6s} {name:26s} {order:7s} {found} {setting or ''}", flush=True)


if __name__ == "__main__":
    main()
