"""The kernels for packed sentences against the reference on a grid, gradients included.

On a GPU as they are; without one in Triton's interpreter, where Triton is installed.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton")

from dragoman.nn import MultiHeadCrossAttention, MultiHeadSelfAttention, Packed, causal, everything, look
from dragoman.nn.kernels import packed_attention as packed
from dragoman.nn.layout import joint_tiles

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
H, K, D = 3, 16, 24
SOURCE, TARGET = [3, 70, 0, 17, 30, 1, 64], [5, 9, 2, 40, 131, 1, 20]


def layouts(source: list[int], target: list[int], sizes: tuple[int, int], tiled: bool) -> tuple[Packed, Packed]:
    counts = torch.tensor(source), torch.tensor(target)
    tiles = [t.to(DEVICE) for t in joint_tiles(*counts, *sizes)] if tiled else [None, None]
    made = [Packed.of(n.to(DEVICE), size, max(n.tolist()), t) for n, size, t in zip(counts, sizes, tiles, strict=True)]
    return made[0], made[1]


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert torch.isfinite(ours).all()
    assert float((ours - theirs).detach().norm() / theirs.detach().norm().clamp(min=1e-9)) < 1e-5


@pytest.mark.parametrize("rule", [causal, everything])
def test_within_sentences(rule: object) -> None:
    heads = MultiHeadSelfAttention(D, H, d_k=K, d_v=K).to(DEVICE)
    found = []
    x = torch.randn(sum(TARGET) + 70, D, device=DEVICE)
    probe = torch.randn_like(x)
    for tiled in (False, True):
        _, here = layouts(SOURCE, TARGET, (sum(SOURCE), len(x)), tiled)
        y = x.clone().requires_grad_()
        out = heads(y, look(here, here, rule, DEVICE))  # type: ignore[arg-type]
        heads.zero_grad()
        (out * probe).sum().backward()
        assert y.grad is not None and heads.qkv.weight.grad is not None
        found.append((out.detach(), y.grad, heads.qkv.weight.grad))
    for ours, theirs in zip(found[1], found[0], strict=True):
        close(ours, theirs)
    assert not found[1][0][sum(TARGET) :].any()  # filler sees nothing


@pytest.mark.parametrize("around", [3, 16])
def test_tiles_beyond_the_usual_number(around: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "EXTRA_PROGRAMS", around)
    heads = MultiHeadSelfAttention(D, H, d_k=K, d_v=K).to(DEVICE)
    lengths = [33] * 24  # no two of which share a tile
    x = torch.randn(sum(lengths), D, device=DEVICE)
    probe, found = torch.randn_like(x), []
    for tiled in (False, True):
        _, here = layouts(lengths, lengths, (len(x), len(x)), tiled)
        if here.tiles is not None:
            used = int((here.tiles.diff() > 0).sum())
            assert used == len(lengths) > -(-(len(here.tiles) - 1) // 4)  # for which there are programs
        y = x.clone().requires_grad_()
        out = heads(y, look(here, here, causal, DEVICE))
        (out * probe).sum().backward()
        assert y.grad is not None
        found.append((out.detach(), y.grad))
    for ours, theirs in zip(found[1], found[0], strict=True):
        close(ours, theirs)


def test_from_sentences_to_others_of_other_lengths() -> None:
    heads = MultiHeadCrossAttention(D, H, d_k=K, d_v=K).to(DEVICE)
    x, memory = torch.randn(sum(TARGET) + 5, D, device=DEVICE), torch.randn(sum(SOURCE) + 81, D, device=DEVICE)
    probe = torch.randn_like(x)
    found = []
    for tiled in (False, True):
        keys, queries = layouts(SOURCE, TARGET, (len(memory), len(x)), tiled)
        y, m = x.clone().requires_grad_(), memory.clone().requires_grad_()
        past = heads.remember_packed(m, keys) if tiled else heads.remember(m, keys)
        out = heads(y, past, look(queries, keys, everything, DEVICE))
        (out * probe).sum().backward()
        assert y.grad is not None and m.grad is not None
        found.append((out.detach(), y.grad, m.grad))
    for ours, theirs in zip(found[1], found[0], strict=True):
        close(ours, theirs)


def test_weights_are_given_by_the_kernel_that_has_them() -> None:
    heads = MultiHeadCrossAttention(D, H, d_k=K, d_v=K).to(DEVICE)
    here, _ = layouts([4, 2], [1, 1], (6, 2), tiled=True)
    x, maps = torch.randn(6, D, device=DEVICE), []
    out = heads(x, heads.remember_packed(x, here), look(here, here, everything, DEVICE), weights=maps)
    close(out, heads(x, heads.remember_packed(x, here), look(here, here, everything, DEVICE)))
    assert maps[0].shape == (2, H, 4, 4)


@given(st.lists(st.tuples(st.integers(0, 150), st.integers(0, 150)), min_size=1, max_size=30), st.integers(1, 200))
@settings(max_examples=60, deadline=None)
def test_tiles_cover_every_row_and_cut_no_short_sentence(pairs: list[tuple[int, int]], filler: int) -> None:
    sides = [[pair[i] for pair in pairs] for i in range(2)]
    sizes = [sum(side) + filler for side in sides]
    tables = [t.tolist() for t in joint_tiles(torch.tensor(sides[0]), torch.tensor(sides[1]), sizes[0], sizes[1])]
    assert len(tables[0]) == len(tables[1])
    edges = []
    for table, size, side in zip(tables, sizes, sides, strict=True):
        assert table[0] == 0 and table[-1] == size
        assert all(0 <= b - a <= packed.TILE for a, b in pairwise(table))
        edges.append([sum(side[:i]) for i in range(len(side) + 1)])
    for i, (s, t) in enumerate(pairs):
        if max(s, t) <= packed.TILE:  # one tile has all of it, on both sides
            spans = [(e[i], e[i + 1]) for e in edges]
            homes = [
                {k for k in range(len(table) - 1) if table[k] <= a and b <= table[k + 1] and b > a}
                for table, (a, b) in zip(tables, spans, strict=True)
            ]
            assert all(homes[j] or not (s, t)[j] for j in range(2))
            assert not (s and t) or homes[0] & homes[1]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_tables_have_room_for_sentences_that_are_long_on_one_side(pairs: list[tuple[int, int]], tile: int) -> None:
    for some in ([(tile + 1, 1)], [(1, 1), (tile + 1, 0)], pairs):
        sides = [torch.tensor([pair[i] for pair in some * 50]) for i in range(2)]
        tables = joint_tiles(*sides, *(int(side.sum()) for side in sides), tile)
        assert all(table[-1] == side.sum() for table, side in zip(tables, sides, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("size", [32, 64, 128])
def test_bfloat16_is_as_near_as_its_digits_and_repeats_to_the_bit(size: int) -> None:
    heads = MultiHeadSelfAttention(4 * size, 4).to(DEVICE)
    lengths = torch.randint(1, 90, (200,), generator=torch.Generator().manual_seed(size))
    total = int(lengths.sum())
    table = joint_tiles(lengths, lengths, total, total)[0].to(DEVICE)
    x, probe = (torch.randn(total, 4 * size, device=DEVICE) for _ in range(2))
    results = []
    for tiles, kind in ((None, torch.float32), (table, torch.bfloat16), (table, torch.bfloat16)):
        here = Packed.of(lengths.to(DEVICE), total, 128, tiles)
        heads, y = heads.to(kind), x.to(kind).requires_grad_()
        out = heads(y, look(here, here, causal, DEVICE))
        (grad,) = torch.autograd.grad(out, y, probe.to(kind))
        results.append((out.detach(), grad))
    for reference, near, again in zip(*results, strict=True):
        assert float((near.float() - reference).norm() / reference.norm()) < 2e-2
        assert torch.equal(near, again)


def test_heads_that_are_too_wide_in_float32_go_the_other_way() -> None:
    assert packed.supports(64, torch.float32) and packed.supports(128, torch.bfloat16)
    assert not packed.supports(128, torch.float32) and not packed.supports(48, torch.bfloat16)
    assert not packed.supports(16, torch.float64)
    heads = MultiHeadSelfAttention(D, 1, d_k=128, d_v=128).to(DEVICE)
    x, outs = torch.randn(sum(TARGET), D, device=DEVICE), []
    for tiled in (False, True):
        _, here = layouts(SOURCE, TARGET, (sum(SOURCE), len(x)), tiled)
        outs.append(heads(x, look(here, here, causal, DEVICE)))
    close(outs[1], outs[0])


@pytest.mark.parametrize(
    ("size", "kind", "by_kernel"),
    [(16, torch.float32, True), (128, torch.float32, False), (16, torch.float64, False), (48, torch.float32, False)],
)
def test_which_heads_the_kernels_are_asked_for(
    size: int, kind: torch.dtype, by_kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, attend = [], packed.attend
    monkeypatch.setattr(packed, "attend", lambda *args: asked.append(args[0].dtype) or attend(*args))
    within, across = (
        make(D, 2, d_k=size, d_v=size).to(DEVICE, kind) for make in (MultiHeadSelfAttention, MultiHeadCrossAttention)
    )
    here, _ = layouts([4, 2], [1, 1], (6, 2), tiled=True)
    x, sees = torch.randn(6, D, device=DEVICE, dtype=kind), look(here, here, everything, DEVICE)
    within(x, sees)
    across(x, across.remember_packed(x, here), sees)
    assert asked == [kind, kind] * by_kernel
