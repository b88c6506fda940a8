"""Table 1, measured: operation counts against counts by hand, and paths against the formulas."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dragoman.errors import ShapeError
from dragoman.evaluation.layer_costs import (
    DependencyChain,
    LayerCost,
    cost_curves,
    count_operations,
    format_table,
    measure_costs,
    measure_seconds,
    path_length,
    powers_of_two,
)
from dragoman.evaluation.layer_types import (
    LAYER_TYPES,
    ConvolutionalType,
    Dilated,
    LayerSizes,
    LayerType,
    RecurrentType,
    RestrictedSelfAttention,
    SelfAttention,
)
from raising import raises

SIZES = LayerSizes(d_model=24, n_heads=3, kernel=5, neighbors=11)
N = 70  # so long that a window of 11 is computed as a band


def by_hand(kind: LayerType, n: int) -> int:
    """Two operations for every product of two numbers that must be made, written from the layers' definitions."""
    d, k = kind.sizes.d_model, kind.sizes.kernel
    match kind:
        case RestrictedSelfAttention():
            block = 16  # of queries, which look at three of keys; the last one is filled up
            return 2 * 2 * (-(-n // block) * block) * 3 * block * d
        case SelfAttention():
            return sum(2 * 2 * d for _query in range(n) for _key in range(n))  # a score and a sum, over all heads
        case RecurrentType():
            return sum(2 * 4 * (d * d + d * d) for _step in range(n))  # four gates, each of the input and the state
        case _:
            return sum(2 * d * d for _output in range(n) for _place in range(k))


@pytest.mark.parametrize("make", LAYER_TYPES)
def test_operations_are_those_counted_by_hand(make: type[LayerType]) -> None:
    kind = make(SIZES)
    count = count_operations(kind, N)
    assert count.between_positions == by_hand(kind, N)
    projections = 2 * N * 4 * 24 * 24 if isinstance(kind, SelfAttention) else 0  # queries, keys, values and output
    assert count.total == count.between_positions + projections


@pytest.mark.parametrize("make", LAYER_TYPES)
@pytest.mark.parametrize("changed", ["n", "d"])
def test_operations_grow_as_table_1_says(make: type[LayerType], changed: str) -> None:
    n, d = 96, 24  # a whole number of blocks
    one = make(LayerSizes(d, 3, 5, 11))
    other = make(LayerSizes(2 * d, 3, 5, 11)) if changed == "d" else one
    longer = 2 * n if changed == "n" else n
    growth = count_operations(other, longer).between_positions / count_operations(one, n).between_positions
    in_table = {"n² d": (4, 2), "r n d": (2, 2), "n d²": (2, 4), "k n d²": (2, 4)}[one.complexity]
    assert growth == in_table[changed == "d"] == other.operations(longer) / one.operations(n)


def test_a_wider_window_and_neighborhood_cost_in_proportion() -> None:
    narrow, wide = LayerSizes(24, 3, 2, 33), LayerSizes(24, 3, 6, 65)
    assert (
        count_operations(ConvolutionalType(wide), N).between_positions
        == 3 * count_operations(ConvolutionalType(narrow), N).between_positions
    )
    assert (
        count_operations(RestrictedSelfAttention(wide), 256).between_positions
        == 2 * count_operations(RestrictedSelfAttention(narrow), 256).between_positions
    )  # blocks of (r - 1) / 2


@pytest.mark.parametrize("n", [2, 9, 40])
def test_only_a_recurrent_layer_has_to_wait_for_each_position(n: int) -> None:
    chains = {make: count_operations(make(SIZES), n).chain for make in LAYER_TYPES}
    heads = 4  # projection, scores, sum, projection
    assert chains == {
        SelfAttention: heads,
        RestrictedSelfAttention: heads,
        RecurrentType: n,
        ConvolutionalType: 1,
        Dilated: 1,
    }


def test_a_chain_is_the_longest_of_products_that_wait_for_each_other() -> None:
    a, b = torch.randn(3, 3), torch.randn(3, 3)
    with DependencyChain() as chain:
        left = (a @ b).relu().view(9).view(3, 3)  # 1
        right = a @ b @ a  # 2, whatever left does
        assert chain.longest == 2
        torch.cat([left, right]) @ b  # 3
        a @ a
    assert chain.longest == 3


@pytest.mark.parametrize("make", LAYER_TYPES)
@pytest.mark.parametrize("n", [2, 3, 5, 12, 26, 27])
def test_paths_are_as_long_as_table_1_says(make: type[LayerType], n: int) -> None:
    kind = make(LayerSizes(6, 3, 3, 7))
    written_out = {
        SelfAttention: 1,
        RestrictedSelfAttention: -(-(n - 1) // 3),  # three to each side
        RecurrentType: n - 1,
        ConvolutionalType: -(-(n - 1) // 2),
        Dilated: {2: 1, 3: 1, 5: 2, 12: 3, 26: 3, 27: 3}[n],  # 3, 9 and 27 positions
    }
    assert path_length(kind, n) == written_out[make] == kind.longest_path(n)


def test_a_path_is_the_least_number_of_layers_that_a_stack_needs() -> None:
    """Against real stacks, in which a change of the first position's input changes the last output or does not."""
    torch.manual_seed(3)
    for make in (SelfAttention, RestrictedSelfAttention, ConvolutionalType, Dilated):
        kind, n = make(LayerSizes(6, 3, 3, 7)), 12
        x = torch.randn(1, n, 6, dtype=torch.float64)
        other = x.clone()
        other[0, 0] += 1
        needed = path_length(kind, n)
        layers = [kind.layer(level).double() for level in range(needed)]
        for depth in (needed - 1, needed):
            a, b = x, other
            for layer in layers[:depth]:
                a, b = kind.run(layer, a), kind.run(layer, b)
            assert a[0, -1].equal(b[0, -1]) == (depth < needed)


def test_what_never_arrives_is_refused() -> None:
    class Alone(ConvolutionalType):
        def run(self, layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    with raises(ShapeError, "no_path", "5 positions"):
        path_length(Alone(SIZES), 5)


@pytest.mark.parametrize(
    ("sizes", "code", "mention"),
    [
        ((10, 4), "not_divisible", "[1, 2, 5, 10]"),
        ((0, 1), "not_divisible", "d_model=0"),
        ((8, 2, 1), "out_of_range", "kernel=1"),
        ((8, 2, 3, 8), "out_of_range", "neighbors=8"),
        ((8, 2, 3, 1), "out_of_range", "odd number"),
    ],
)
def test_sizes_that_cannot_be(sizes: tuple[int, ...], code: str, mention: str) -> None:
    with raises(ShapeError, code, mention):
        LayerSizes(*sizes)


@pytest.fixture(scope="module")
def costs() -> list[LayerCost]:
    return measure_costs(LayerSizes(12, 3, 3, 5), [16, 40])


def test_the_table_has_every_kind_and_length(costs: list[LayerCost]) -> None:
    head, rule, *rows = [
        [cell.strip() for cell in line.strip("| ").split(" | ")] for line in format_table(costs).splitlines()
    ]
    assert len(rows) == 2 * len(LAYER_TYPES) and {len(row) for row in (head, rule, *rows)} == {12}
    assert rows[1][:9] == ["self-attention", "n² d", "40", "12", "76,800", "4.0", "122,880", "4", "1"]
    assert [row[9:11] for row in rows if row[2] == "40"] == [
        ["1", "1"], ["20", "n / r"], ["39", "n"], ["20", "n / k"], ["4", "log_k n"]
    ]  # fmt: skip
    assert all(float(row[11]) > 0 for row in rows)
    with raises(ShapeError, "out_of_range", "1 positions"):
        measure_costs(SIZES, [1])


def test_curves_go_on_in_time_alone(costs: list[LayerCost]) -> None:
    operations, paths, times = cost_curves(costs, max_length=130).values()
    assert [c.name for c in operations] == [make.name for make in LAYER_TYPES] == [c.name for c in paths]
    for curve in operations:
        assert curve.x == [16, 40] and curve.expected is not None
        assert curve.expected[-1] == pytest.approx(curve.y[-1])
    attention = operations[0]
    assert attention.expected == pytest.approx(attention.y)
    assert all(curve.y == curve.expected for curve in paths)
    assert all(curve.x == [16, 40, 64, 128] and len(curve.y) == 4 for curve in times)
    assert powers_of_two(130) == [16, 32, 64, 128] and powers_of_two(15) == []


def test_seconds_are_of_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))
    monkeypatch.setattr("dragoman.evaluation.layer_costs.time.perf_counter", lambda: next(clock) ** 2)
    assert measure_seconds(SelfAttention(SIZES), 4) == 5  # the median of 1 - 0, 9 - 4 and 25 - 16
