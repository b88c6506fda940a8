"""Gates on heads: 1 changes nothing, 0 equals zero columns in W^O, with every attention function."""

from __future__ import annotations

import pytest
import torch

from dragoman.nn import (
    Additive,
    AttentionFunction,
    Gated,
    GrowingCache,
    LinearBias,
    MultiHeadCrossAttention,
    MultiHeadSelfAttention,
    Padded,
    RelativePositions,
    RotaryPositions,
    ScaledDotProduct,
    causal,
    everything,
    look,
)

B, T, S, D, H, K, V = 2, 5, 7, 10, 3, 4, 6
FUNCTIONS = {
    "scaled dot product": ScaledDotProduct,
    "additive": lambda: Additive(K, n_heads=H),
    "rotary": lambda: RotaryPositions(K, ScaledDotProduct()),
    "rotary additive": lambda: RotaryPositions(K, Additive(K, n_heads=H)),
    "relative": lambda: RelativePositions(K, V, 3),
    "alibi": lambda: LinearBias(H),
}


def attention(function: AttentionFunction) -> MultiHeadSelfAttention:
    torch.manual_seed(2)
    return MultiHeadSelfAttention(D, H, d_k=K, d_v=V, bias=True, function=function).eval()


def seen() -> tuple[torch.Tensor, Padded]:
    torch.manual_seed(5)
    return torch.randn(B, T, D), Padded(T, torch.tensor([5, 3]))


@pytest.mark.parametrize("name", FUNCTIONS)
@torch.no_grad()
def test_a_closed_gate_is_a_head_whose_columns_are_zeros(name: str) -> None:
    x, layout = seen()
    sees = look(layout, layout, causal, x.device)
    plain = attention(FUNCTIONS[name]())
    before, weights, again = plain(x, sees), [], []
    plain(x, sees, weights=again)
    inside = plain.function
    plain.function = Gated(inside, torch.tensor([1.0, 0.0, 1.0]))
    gated = plain(x, sees)
    assert not torch.allclose(gated, before, atol=1e-3)
    plain(x, sees, weights=weights)
    plain.function = inside
    torch.testing.assert_close(weights, again)  # what a head looks at does not change
    plain.output.weight[:, V : 2 * V] = 0.0
    torch.testing.assert_close(gated, plain(x, sees))


@pytest.mark.parametrize("name", FUNCTIONS)
@torch.no_grad()
def test_open_gates_change_nothing_also_step_by_step(name: str) -> None:
    x, layout = seen()
    sees = look(layout, layout, causal, x.device)
    plain = attention(FUNCTIONS[name]())
    whole = plain(x, sees)
    plain.function = Gated(plain.function, torch.ones(H))
    torch.testing.assert_close(plain(x, sees), whole)
    cache, steps = GrowingCache(), []
    for t in range(3):
        step = Padded(1, offset=t)
        steps.append(plain(x[:, t : t + 1], look(step, Padded(t + 1), causal, x.device), cache=cache))
    torch.testing.assert_close(torch.cat(steps, 1), whole[:, :3])


@torch.no_grad()
def test_sentences_have_gates_of_their_own_also_between_two_sequences() -> None:
    torch.manual_seed(7)
    cross = MultiHeadCrossAttention(D, H, d_memory=9, d_k=K, d_v=V).eval()
    x, memory = torch.randn(B, T, D), torch.randn(B, S, 9)
    gates = torch.tensor([[1.0, 0.5, 0.0], [2.0, 1.0, 1.0]])
    alone = []
    inside = cross.function
    for row in range(B):
        cross.function = Gated(inside, gates[row])
        sees = look(Padded(T), Padded(S), everything, x.device)
        alone.append(cross(x[row : row + 1], cross.remember(memory[row : row + 1], Padded(S)), sees))
    cross.function = Gated(inside, gates)
    together = cross(x, cross.remember(memory, Padded(S)), look(Padded(T), Padded(S), everything, x.device))
    torch.testing.assert_close(together, torch.cat(alone))
