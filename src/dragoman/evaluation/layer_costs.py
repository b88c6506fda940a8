"""Table 1 of section 4, "Why self-attention", measured on real layers.

For each layer type: the operations of one pass, counted by PyTorch, next to the paper's formula; the longest chain of
sequential products; the path length from the first position to the last, found with gradients; and the time of a pass.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import median
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from dragoman.errors import ShapeError
from dragoman.evaluation.layer_types import LAYER_TYPES, LayerSizes, LayerType

MIN_RUNS: Final = 3  # runs per measured time, which is their median
MIN_SECONDS: Final = 0.1  # for all runs
PATH_SIZES: Final = {"d_model": 16, "n_heads": 2}  # small: the path length does not depend on the width


@dataclass(frozen=True)
class OperationCount:
    """The number of additions and multiplications of one pass."""

    between_positions: int  # only what connects positions, as in Table 1
    total: int  # the whole layer, including attention's projections
    chain: int  # sequential products


@dataclass(frozen=True)
class LayerCost:
    """The cost of one layer type over n positions."""

    layer_type: LayerType
    n: int
    count: OperationCount
    path: int
    seconds: float

    @property
    def over_formula(self) -> float:
        """Operations divided by Table 1's complexity: the constant that the O hides."""
        return self.count.between_positions / self.layer_type.operations(self.n)


def measure_costs(sizes: LayerSizes, lengths: Sequence[int]) -> list[LayerCost]:
    """Measure every layer type at every length."""
    for n in lengths:
        if n < 2:
            raise ShapeError(f"there is no path between {n} positions; use 2 or more", code="out_of_range")
    found, small = [], replace(sizes, **PATH_SIZES)
    for make, n in product(LAYER_TYPES, lengths):
        layer_type, path = make(sizes), path_length(make(small), n)
        found.append(LayerCost(layer_type, n, count_operations(layer_type, n), path, measure_seconds(layer_type, n)))
    return found


def powers_of_two(maximum: int) -> list[int]:
    """The powers of two from 16 to `maximum`."""
    return [1 << power for power in range(4, maximum.bit_length())]


class CostCurve(NamedTuple):
    """Measured values for each n, and those of Table 1 where available."""

    name: str
    x: list[int]
    y: list[float]
    expected: list[float] | None = None


def cost_curves(costs: Sequence[LayerCost], max_length: int) -> dict[str, list[CostCurve]]:
    """The curves of a picture by title, one for each layer type.

    The O notation leaves a constant open: its curve is drawn through the count for the longest sequence. Times are also
    measured for longer sequences, up to `max_length`.
    """
    operations, paths, times = [], [], []
    for name in dict.fromkeys(c.layer_type.name for c in costs):
        own = [c for c in costs if c.layer_type.name == name]
        layer_type, lengths = own[0].layer_type, [c.n for c in own]
        formula = [own[-1].over_formula * layer_type.operations(n) for n in lengths]
        operations.append(CostCurve(name, lengths, [c.count.between_positions for c in own], formula))
        paths.append(CostCurve(name, lengths, [c.path for c in own], [layer_type.longest_path(n) for n in lengths]))
        more = [n for n in powers_of_two(max_length) if n > lengths[-1]]
        taken = [*(c.seconds for c in own), *(measure_seconds(layer_type, n) for n in more)]
        times.append(CostCurve(name, [*lengths, *more], taken))
    return {"operations per layer": operations, "path from the first position to the last": paths,
            "seconds per layer": times}  # fmt: skip


def format_table(costs: Sequence[LayerCost]) -> str:
    """Table 1 in Markdown: the paper's formulas and the measurements."""
    names = ("layer", "O()", "n", "d", "operations", "over O()", "whole layer", "chain", "O()", "path", "O()", "ms")
    rows = []
    for c in costs:
        of, count = c.layer_type, c.count
        sizes = f"{c.n:,}", f"{of.sizes.d_model:,}", f"{count.between_positions:,}", f"{c.over_formula:.1f}"
        chain, path = (f"{count.chain:,}", of.sequential), (f"{c.path:,}", of.path)
        rows.append((of.name, of.complexity, *sizes, f"{count.total:,}", *chain, *path, f"{c.seconds * 1000:.2f}"))
    left = {0, 1, 8, 10}  # columns of text
    widths = [max(len(row[i]) for row in (names, *rows)) for i in range(len(names))]
    rule = ["-" * w if i in left else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    cells = [
        [cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
        for row in (names, rule, *rows)
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def count_operations(layer_type: LayerType, n: int) -> OperationCount:
    """Count operations with PyTorch's counter, on the meta device: nothing is computed."""
    with torch.device("meta"), sdpa_kernel(SDPBackend.MATH):  # the counter does not support the CPU's fused kernel
        layer, x = layer_type.layer(), torch.empty(1, n, layer_type.sizes.d_model)
        with torch.no_grad(), FlopCounterMode(display=False) as counter, DependencyChain() as chain:
            layer_type.run(layer, x)
    heads, total = counter.get_flop_counts()["Global"].get(torch.ops.aten.bmm, 0), counter.get_total_flops()
    return OperationCount(heads or total, total, chain.longest)


class DependencyChain(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Track the number of sequential products behind every tensor."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.longest = 0
        self.depths: dict[int, int] = {}
        self.kept: list[Tensor] = []  # keeps tensors alive, so ids stay unique

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and record the depth of its results."""
        result = func(*args, **(kwargs or {}))
        inputs, outputs = (filter(torch.is_tensor, tree_leaves(tree)) for tree in ((args, kwargs), result))
        depth = max((self.depths.get(id(t), 0) for t in inputs), default=0) + (func.overloadpacket in flop_registry)
        for tensor in outputs:
            self.depths[id(tensor)] = depth
            self.kept.append(tensor)
        self.longest = max(self.longest, depth)
        return result


def path_length(layer_type: LayerType, n: int) -> int:
    """The number of steps from the first position to the last output.

    Goes back from the last output, one layer at a time (one step for a recurrent layer), to all inputs on which it can
    depend. Gradients are restarted at each layer, so none vanishes.
    """
    reached, layer, steps = torch.arange(n) == n - 1, layer_type.layer(), 0
    with sdpa_kernel(SDPBackend.MATH):
        while not reached[0]:
            layer = layer if layer_type.same_reach else layer_type.layer(steps)
            found = reached | layer_type.dependencies(layer, reached)
            if found.equal(reached):
                message = f"with {layer_type.name} layers the last of {n} positions never depends on the first"
                raise ShapeError(message, code="no_path")
            reached, steps = found, steps + 1
    return steps


def measure_seconds(layer_type: LayerType, n: int) -> float:
    """The median time of a pass over one sentence, on the CPU in float32, without gradients."""
    layer, x = layer_type.layer().eval(), torch.randn(1, n, layer_type.sizes.d_model)
    times: list[float] = []
    with torch.inference_mode():
        layer_type.run(layer, x)
        while len(times) < MIN_RUNS or sum(times) < MIN_SECONDS:
            start = time.perf_counter()
            layer_type.run(layer, x)
            times.append(time.perf_counter() - start)
    return median(times)
