"""Table 1 of section 4, "Why self-attention", measured on real layers instead of derived.

For each kind of layer: the operations that PyTorch itself counts in one pass, beside the paper's formula; the longest
chain of products of which each waits for the one before; how many times what stands at the first position must be
handed on until the last position's output can depend on it, found with gradients; and the seconds that a pass takes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from dragoman.errors import ShapeError
from dragoman.evaluation.layer_types import KINDS, Kind, Sizes

RUNS: Final = 3  # that a time is the median of, and more where they are short
AT_LEAST: Final = 0.1  # seconds of them
NARROW: Final = {"d_model": 16, "n_heads": 2}  # for paths, whose length is the same whatever the width


@dataclass(frozen=True)
class Count:
    """What one pass takes. Operations are additions and multiplications, each counted."""

    between: int  # of what takes from one position to others, which Table 1 means
    whole: int  # of the whole layer, with attention's projections
    chain: int  # products of which each waits for the one before


@dataclass(frozen=True)
class Cost:
    """One kind of layer over n positions."""

    kind: Kind
    n: int
    count: Count
    path: int
    seconds: float

    @property
    def over_formula(self) -> float:
        """Operations over Table 1's complexity: the constant that the O leaves out."""
        return self.count.between / self.kind.operations(self.n)


def measure(sizes: Sizes, lengths: Sequence[int]) -> list[Cost]:
    """Every kind of layer at every length."""
    for n in lengths:
        if n < 2:
            raise ShapeError(f"{n} positions have no path between them; use 2 or more")
    return [
        Cost(kind, n, counted(kind, n), path_length(type(kind)(replace(sizes, **NARROW)), n), seconds(kind, n))
        for kind in (make(sizes) for make in KINDS)
        for n in lengths
    ]


def powers_of_two(most: int) -> list[int]:
    """From 16 to at most so many."""
    return [1 << power for power in range(4, most.bit_length())]


@dataclass(frozen=True)
class Curve:
    """What was measured over n, and what Table 1 says, if anything."""

    name: str
    places: list[int]
    values: list[float]
    expected: list[float] | None = None


def curves(costs: Sequence[Cost], longest: int) -> dict[str, list[Curve]]:
    """What a picture shows, by title, a curve for each kind.

    An O leaves a constant open: its curve goes through what was counted for the longest. Times are also taken for
    longer ones, up to `longest`.
    """
    operations, paths, times = [], [], []
    for name in dict.fromkeys(c.kind.name for c in costs):
        own = [c for c in costs if c.kind.name == name]
        kind, lengths = own[0].kind, [c.n for c in own]
        formula = [own[-1].over_formula * kind.operations(n) for n in lengths]
        operations.append(Curve(name, lengths, [c.count.between for c in own], formula))
        paths.append(Curve(name, lengths, [c.path for c in own], [kind.longest_path(n) for n in lengths]))
        more = [n for n in powers_of_two(longest) if n > lengths[-1]]
        taken = [*(c.seconds for c in own), *(seconds(kind, n) for n in more)]
        times.append(Curve(name, [*lengths, *more], taken))
    return {"operations per layer": operations, "path from the first position to the last": paths,
            "seconds per layer": times}  # fmt: skip


def table(costs: Sequence[Cost]) -> str:
    """Table 1 in Markdown: the paper's words, and what was measured."""
    names = ("layer", "O()", "n", "d", "operations", "over O()", "whole layer", "chain", "O()", "path", "O()", "ms")
    rows = [
        (
            *(c.kind.name, c.kind.complexity, f"{c.n:,}", f"{c.kind.sizes.d_model:,}", f"{c.count.between:,}"),
            *(f"{c.over_formula:.1f}", f"{c.count.whole:,}", f"{c.count.chain:,}", c.kind.sequential),
            *(f"{c.path:,}", c.kind.path, f"{c.seconds * 1000:.2f}"),
        )
        for c in costs
    ]
    left = {0, 1, 8, 10}  # words; the others are numbers
    widths = [max(len(row[i]) for row in (names, *rows)) for i in range(len(names))]
    rule = ["-" * w if i in left else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    cells = [
        [cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
        for row in (names, rule, *rows)
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def counted(kind: Kind, n: int) -> Count:
    """Operations by PyTorch's own counter; on no device, so that nothing is computed and no length is too long."""
    with torch.device("meta"), sdpa_kernel(SDPBackend.MATH):  # the counter does not know the CPU's fused kernel
        layer, x = kind.layer(), torch.empty(1, n, kind.sizes.d_model)
        with torch.no_grad(), FlopCounterMode(display=False) as counter, Chain() as chain:
            kind.run(layer, x)
    by_operation = counter.get_flop_counts()["Global"]
    heads = by_operation.get(torch.ops.aten.bmm, 0)
    whole = counter.get_total_flops()
    return Count(heads or whole, whole, chain.longest)


class Chain(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows every tensor, and knows how many products had to be done one after the other to have it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.longest = 0
        self.behind: dict[int, int] = {}
        self.kept: list[Tensor] = []  # so that no tensor gets the number of one that is gone

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Do as was asked, and note what it had to wait for."""
        made = func(*args, **(kwargs or {}))
        waited = max((self.behind.get(id(t), 0) for t in tensors((args, kwargs))), default=0)
        waited += func.overloadpacket in flop_registry
        for tensor in tensors(made):
            self.behind[id(tensor)] = waited
            self.kept.append(tensor)
        self.longest = max(self.longest, waited)
        return made


def tensors(tree: Any) -> Iterator[Tensor]:
    """The tensors among nested arguments."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, list | tuple | dict):
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from tensors(part)


def path_length(kind: Kind, n: int) -> int:
    """How often something is handed on from position to position, on its way from the first to the last.

    From the last output we go back a layer at a time, or for a recurrent layer a step at a time, to all that it can
    have come from. Each time gradients begin anew, so that none vanishes on the way.
    """
    reached, layer, moves = torch.arange(n) == n - 1, kind.layer(), 0
    with sdpa_kernel(SDPBackend.MATH):
        while not reached[0]:
            layer = layer if kind.alike else kind.layer(moves)
            found = reached | kind.depends(layer, reached)
            if found.equal(reached):
                raise ShapeError(f"with {kind.name} layers the last of {n} positions can never depend on the first")
            reached, moves = found, moves + 1
    return moves


def seconds(kind: Kind, n: int) -> float:
    """The median time of a pass over one sentence, on this machine's CPU in float32, without gradients."""
    layer, x = kind.layer().eval(), torch.randn(1, n, kind.sizes.d_model)
    times: list[float] = []
    with torch.inference_mode():
        kind.run(layer, x)
        while len(times) < RUNS or sum(times) < AT_LEAST:
            begun = time.perf_counter()
            kind.run(layer, x)
            times.append(time.perf_counter() - begun)
    return median(times)
