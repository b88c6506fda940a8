"""The kernels for attention to listed keys, against gathered keys in PyTorch, gradients included."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from dragoman.nn.attention.key_blocks import key_lists
from dragoman.nn.attention.sees import Sparsity, scattered
from dragoman.nn.kernels import gathered_attention as gathered
from dragoman.nn.kernels.listed_attention import listed_attention, supported
from dragoman.nn.position.alibi import alibi_slopes

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
B, H, K = 2, 3, 16
CASES = [
    Sparsity(radius=5, n_first=2, random=scattered(1)),
    Sparsity(radius=5, n_first=2, random=scattered(1, seed=3), causal=True),
    Sparsity(radius=9),
    Sparsity(radius=3, causal=True),
    Sparsity(n_first=3, causal=True),
    Sparsity(random=scattered(2)),
]


@pytest.mark.parametrize("sparsity", CASES, ids=str)
@pytest.mark.parametrize("alibi", [False, True])
def test_listed_keys_equal_gathered_keys(sparsity: Sparsity, alibi: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered, "supported", lambda q, v: False)
    length = 83
    slopes = torch.tensor(alibi_slopes(H), device=DEVICE) if alibi else None
    lengths = torch.tensor([60, length], device=DEVICE) if alibi else None
    q, k, v = torch.randn(3, B, length, H, K, device=DEVICE).transpose(2, 3).unbind()
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    assert supported(q, v)
    ours = listed_attention(q, k, v, lengths, slopes, sparsity)
    theirs = gathered.gathered_attention(q, k, v, lengths, sparsity, slopes=slopes)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)
    direction = torch.randn_like(ours)
    found, expected = (torch.autograd.grad(x, (q, k, v), direction) for x in (ours, theirs))
    torch.testing.assert_close(found, expected, atol=3e-5, rtol=1e-4)


@pytest.mark.parametrize("sparsity", CASES, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_lists_have_each_visible_pair_once(sparsity: Sparsity, reverse: bool) -> None:
    size = 128
    lists = key_lists(sparsity, size, torch.device("cpu"), reverse)
    position = torch.arange(size)
    shown = sparsity.rule(position[:, None], position[None, :])
    shown = shown.T if reverse else shown
    for block in range(lists.count(size)):
        listed = lists.index[lists.ends[block] : lists.ends[block + 1]].tolist()
        assert len(set(listed)) == len(listed)
        start = lists.start + block * lists.size
        seen = shown[start : start + lists.size].any(0).nonzero()[:, 0].tolist()
        assert set(seen) <= set(listed)
