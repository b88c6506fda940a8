"""Table 1, measured: counts against counts by hand and the formulas' growth, paths against the formulas."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dragoman.errors import ShapeError
from dragoman.evaluation.layer_costs import (
    Chain,
    Cost,
    counted,
    curves,
    measure,
    path_length,
    powers_of_two,
    seconds,
    table,
)
from dragoman.evaluation.layer_types import (
    KINDS,
    Convolutional,
    Dilated,
    Kind,
    Recurrent,
    Restricted,
    SelfAttention,
    Sizes,
)

SIZES = Sizes(d_model=24, n_heads=3, kernel=5, neighbors=11)
N = 70  # so long that a window of 11 is computed as a band


def by_hand(kind: Kind, n: int) -> int:
    """Two operations for every product of two numbers that must be made, written from the layers' definitions."""
    d, k = kind.sizes.d_model, kind.sizes.kernel
    match kind:
        case Restricted():
            block = 16  # of queries, which look at three of keys; the last one is filled up
            return 2 * 2 * (-(-n // block) * block) * 3 * block * d
        case SelfAttention():
            return sum(2 * 2 * d for _query in range(n) for _key in range(n))  # a score and a sum, over all heads
        case Recurrent():
            return sum(2 * 4 * (d * d + d * d) for _step in range(n))  # four gates, each of the input and the state
        case _:
            return sum(2 * d * d for _output in range(n) for _place in range(k))


@pytest.mark.parametrize("make", KINDS)
def test_operations_are_those_counted_by_hand(make: type[Kind]) -> None:
    kind = make(SIZES)
    count = counted(kind, N)
    assert count.between == by_hand(kind, N)
    projections = 2 * N * 4 * 24 * 24 if isinstance(kind, SelfAttention) else 0  # queries, keys, values and output
    assert count.whole == count.between + projections


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("changed", ["n", "d"])
def test_operations_grow_as_table_1_says(make: type[Kind], changed: str) -> None:
    n, d = 96, 24  # a whole number of blocks
    one = make(Sizes(d, 3, 5, 11))
    other = make(Sizes(2 * d, 3, 5, 11)) if changed == "d" else one
    longer = 2 * n if changed == "n" else n
    growth = counted(other, longer).between / counted(one, n).between
    in_table = {"n² d": (4, 2), "r n d": (2, 2), "n d²": (2, 4), "k n d²": (2, 4)}[one.complexity]
    assert growth == in_table[changed == "d"] == other.operations(longer) / one.operations(n)


def test_a_wider_window_and_neighborhood_cost_in_proportion() -> None:
    narrow, wide = Sizes(24, 3, 2, 33), Sizes(24, 3, 6, 65)
    assert counted(Convolutional(wide), N).between == 3 * counted(Convolutional(narrow), N).between
    assert (
        counted(Restricted(wide), 256).between == 2 * counted(Restricted(narrow), 256).between
    )  # blocks of (r - 1) / 2


@pytest.mark.parametrize("n", [2, 9, 40])
def test_only_a_recurrent_layer_has_to_wait_for_each_position(n: int) -> None:
    chains = {make: counted(make(SIZES), n).chain for make in KINDS}
    heads = 4  # projection, scores, sum, projection
    assert chains == {SelfAttention: heads, Restricted: heads, Recurrent: n, Convolutional: 1, Dilated: 1}


def test_a_chain_is_the_longest_of_products_that_wait_for_each_other() -> None:
    a, b = torch.randn(3, 3), torch.randn(3, 3)
    with Chain() as chain:
        left = (a @ b).relu().view(9).view(3, 3)  # 1
        right = a @ b @ a  # 2, whatever left does
        assert chain.longest == 2
        torch.cat([left, right]) @ b  # 3
        a @ a
    assert chain.longest == 3


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("n", [2, 3, 5, 12, 26, 27])
def test_paths_are_as_long_as_table_1_says(make: type[Kind], n: int) -> None:
    kind = make(Sizes(6, 3, 3, 7))
    written_out = {
        SelfAttention: 1,
        Restricted: -(-(n - 1) // 3),  # three to each side
        Recurrent: n - 1,
        Convolutional: -(-(n - 1) // 2),
        Dilated: {2: 1, 3: 1, 5: 2, 12: 3, 26: 3, 27: 3}[n],  # 3, 9 and 27 positions
    }
    assert path_length(kind, n) == written_out[make] == kind.longest_path(n)


def test_a_path_is_the_least_number_of_layers_that_a_stack_needs() -> None:
    """Against real stacks, in which a change of the first position's input changes the last output or does not."""
    torch.manual_seed(3)
    for make in (SelfAttention, Restricted, Convolutional, Dilated):
        kind, n = make(Sizes(6, 3, 3, 7)), 12
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
    class Alone(Convolutional):
        def run(self, layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    with pytest.raises(ShapeError, match="the last of 5 positions can never depend on the first"):
        path_length(Alone(SIZES), 5)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [((10, 4), r"d_model=10 does not split into n_heads=4; use one of \[1, 2, 5, 10\]"), ((0, 1), "d_model=0"),
     ((8, 2, 1), "kernel=1 joins no two"), ((8, 2, 3, 8), "neighbors=8 has no middle"), ((8, 2, 3, 1), "odd number")],
)  # fmt: skip
def test_sizes_that_cannot_be(sizes: tuple[int, ...], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        Sizes(*sizes)


@pytest.fixture(scope="module")
def costs() -> list[Cost]:
    return measure(Sizes(12, 3, 3, 5), [16, 40])


def test_the_table_has_every_kind_and_length(costs: list[Cost]) -> None:
    head, rule, *rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table(costs).splitlines()]
    assert len(rows) == 2 * len(KINDS) and {len(row) for row in (head, rule, *rows)} == {12}
    assert rows[1][:9] == ["self-attention", "n² d", "40", "12", "76,800", "4.0", "122,880", "4", "1"]
    assert [row[9:11] for row in rows if row[2] == "40"] == [
        ["1", "1"], ["20", "n / r"], ["39", "n"], ["20", "n / k"], ["4", "log_k n"]
    ]  # fmt: skip
    assert all(float(row[11]) > 0 for row in rows)
    with pytest.raises(ShapeError, match="1 positions have no path"):
        measure(SIZES, [1])


def test_curves_go_on_in_time_alone(costs: list[Cost]) -> None:
    operations, paths, times = curves(costs, longest=130).values()
    assert [c.name for c in operations] == [make.name for make in KINDS] == [c.name for c in paths]
    for curve in operations:
        assert curve.places == [16, 40] and curve.expected is not None
        assert curve.expected[-1] == pytest.approx(curve.values[-1])
    attention = operations[0]
    assert attention.expected == pytest.approx(attention.values)
    assert all(curve.values == curve.expected for curve in paths)
    assert all(curve.places == [16, 40, 64, 128] and len(curve.values) == 4 for curve in times)
    assert powers_of_two(130) == [16, 32, 64, 128] and powers_of_two(15) == []


def test_seconds_are_of_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))
    monkeypatch.setattr("dragoman.evaluation.layer_costs.time.perf_counter", lambda: next(clock) ** 2)
    assert seconds(SelfAttention(SIZES), 4) == 5  # the median of 1 - 0, 9 - 4 and 25 - 16
