"""The three matrix products of a linear layer on a CPU: PyTorch's in float32 beside ours in bfloat16, in turns.

    python benchmarks/products_cpu.py --threads 1 2

GFLOP/s, the best of so many repeats; packing and rounding are part of ours.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor

from dragoman.nn.kernels.cpu_bf16 import cpu_bf16_matmul, has_bfloat16_matmul

SHAPES = [  # tokens, inputs, outputs
    (2000, 256, 256), (2000, 256, 1024), (2000, 1024, 256), (2000, 512, 512), (2000, 512, 1536), (2000, 512, 2048),
    (2000, 2048, 512), (512, 512, 37000),
]  # fmt: skip


def plain(left: Tensor, right: Tensor, out: Tensor) -> None:
    torch.mm(left, right, out=out)


def seconds(multiply: Callable[[Tensor, Tensor, Tensor], None], *tensors: Tensor) -> float:
    begun = time.perf_counter()
    multiply(*tensors)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    if not has_bfloat16_matmul():
        raise SystemExit("this machine has no matrix unit for bfloat16, or no C compiler")
    print(
        "threads  tokens x in x out       x W^T             dy W              dy^T x       (float32 / bfloat16 = gain)"
    )
    for threads in options.threads:
        torch.set_num_threads(threads)
        for n, ins, outs in SHAPES:
            x, weight, dy = torch.randn(n, ins), torch.randn(outs, ins), torch.randn(n, outs)
            cells = []
            for left, right in ((x, weight.T), (dy, weight), (dy.T, x)):
                out = torch.empty(left.shape[0], right.shape[1])
                best = [float("inf"), float("inf")]
                for _ in range(options.repeats):
                    best[0] = min(best[0], seconds(plain, left, right, out))
                    best[1] = min(best[1], seconds(cpu_bf16_matmul, left, right, out))
                theirs, ours = (2e-9 * n * ins * outs / b for b in best)
                cells.append(f"{theirs:4.0f} /{ours:5.0f} ={ours / theirs:4.1f}x")
            print(f"{threads:7}  {n:5} x {ins:4} x {outs:5}  " + "   ".join(cells), flush=True)


if __name__ == "__main__":
    main()
