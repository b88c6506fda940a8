"""Sparse attention on gathered keys, against masked full attention written out here."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from dragoman import AttentionMaps, Transformer
from dragoman.config import ModelRecipe
from dragoman.nn import (
    AttentionFunction,
    LinearBias,
    MultiHeadSelfAttention,
    Packed,
    Padded,
    RelativePositions,
    Rule,
    ScaledDotProduct,
    both,
    causal,
    either,
    everything,
    first,
    look,
    scattered,
    window,
)
from dragoman.nn.attention import random_pairs
from dragoman.nn.attention.key_blocks import key_blocks
from dragoman.nn.attention.random_pairs import random_before
from dragoman.nn.attention.sees import Sparsity, sparsity
from dragoman.nn.kernels.gathered_attention import gathered_attention

B, H, K, V = 2, 3, 10, 13
CPU = torch.device("cpu")
BIGBIRD = either(window(5), first(2), scattered(2))
RULES = [
    BIGBIRD,
    both(causal, BIGBIRD),
    window(3),
    both(causal, window(7)),
    both(causal, scattered(1)),
    first(3),
    both(causal, either(window(2), first(1), scattered(0))),
    either(window(0), first(40), scattered(1, seed=9)),
]


@pytest.fixture
def _gathers_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gather also where sentences are short and a mask would be faster; a few queries and keys at a time."""
    monkeypatch.setattr("dragoman.nn.kernels.gathered_attention.CPU_SCORES", 500)
    monkeypatch.setattr("dragoman.nn.kernels.gathered_attention.KEYS_AT_ONCE", 64)
    monkeypatch.setattr("dragoman.nn.attention.sees.SHORT", 0)
    monkeypatch.setattr("dragoman.nn.attention.sees.WORTH", 0)


def table(rule: Rule, size: int) -> Tensor:
    return rule(torch.arange(size)[:, None], torch.arange(size)[None, :])


def masked(function: AttentionFunction, q: Tensor, k: Tensor, v: Tensor, shown: Tensor) -> Tensor:
    """Full attention with a mask `[B, 1, L, L]`, every pair written out."""
    size = q.shape[2]
    distance = torch.arange(size, device=q.device)[None, :] - torch.arange(size, device=q.device)[:, None]
    scores = torch.einsum("bhik,bhjk->bhij", q, k)
    values = v[:, :, None].expand(-1, -1, size, -1, -1)
    if isinstance(function, RelativePositions):
        row = distance.clamp(-function.max_distance, function.max_distance) + function.max_distance
        scores = scores + torch.einsum("bhik,ijk->bhij", q, function.key_table[row])
        values = values + function.value_table[row]
    scores = scores / K**0.5
    if isinstance(function, LinearBias):
        scores = scores - function.slopes[:, None, None] * distance.abs()
    weights = scores.masked_fill(~shown, -1e30).softmax(-1) * shown
    return torch.einsum("bhij,bhijv->bhiv", weights, values)


@pytest.mark.usefixtures("_gathers_always")
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("length", [17, 41, 150])
def test_gathered_attention_equals_masked_attention_with_gradients(
    rule: Rule, length: int, device: torch.device
) -> None:
    functions = ScaledDotProduct(), LinearBias(H), RelativePositions(K, V, 4)
    for function, ends in zip(functions, (None, [length - 12, length], [0, length]), strict=True):
        layout = Padded(length, None if ends is None else torch.tensor(ends, device=device))
        function.to(device)
        sees = replace(look(layout, layout, rule, device), band=None)
        assert sees.sparse is not None and sees.mask is None
        q, k, v = (torch.randn(B, length, H, d, device=device).transpose(1, 2).requires_grad_() for d in (K, K, V))
        shown = table(rule, length).to(device).expand(B, 1, -1, -1)
        if layout.lengths is not None:
            shown = shown & (torch.arange(length, device=device) < layout.lengths[:, None])[:, None, None]
        fast, slow = function(q, k, v, sees).output, masked(function, q, k, v, shown)
        torch.testing.assert_close(fast, slow, atol=1e-5, rtol=1e-5)
        inputs, direction = (q, k, v, *function.parameters()), torch.randn_like(slow)
        ours, theirs = (torch.autograd.grad(x, inputs, direction) for x in (fast, slow))
        torch.testing.assert_close(ours, theirs, atol=5e-5, rtol=1e-4)


@pytest.mark.parametrize("rule", RULES)
def test_blocks_list_each_visible_pair_once(rule: Rule) -> None:
    length, known = 163, sparsity(rule)
    assert known is not None
    seen = torch.zeros(length, length, dtype=torch.int)
    for blocks in key_blocks(known, length, CPU):
        for block, keys in enumerate(blocks.index.tolist()):
            for row, hidden in enumerate(blocks.hidden[block].tolist()):
                query = blocks.start + block * blocks.hidden.shape[1] + row
                for key, hides in zip(keys, hidden, strict=True):
                    if not hides and max(query, key) < length:
                        seen[query, key] += 1
    start = 0 if known.causal else known.n_first
    assert torch.equal(seen[start:], table(rule, length)[start:].int())


def test_rules_with_a_known_form_keep_their_meaning() -> None:
    for rule in [*RULES, both(causal, window(7), window(4)), both(everything, BIGBIRD), either(window(2), window(6))]:
        known = sparsity(rule)
        assert known is not None
        assert torch.equal(table(known.rule, 60), table(rule, 60))
    for other in (causal, everything, both(causal, causal), either(causal, window(2)), both(window(3), first(2))):
        assert sparsity(other) is None
    assert sparsity(either(scattered(2), scattered(2, seed=1))) is None


@pytest.mark.parametrize("rule", [scattered(1), scattered(2, seed=123_456_789)], ids=str)
def test_pairs_from_inverted_hashes_are_those_that_the_rule_shows(rule: scattered) -> None:
    found, expected = (make(rule, 2048, 4096) for make in (random_pairs._inverted, random_pairs._compared))
    assert len(expected[0]) > 1000
    assert torch.equal(torch.stack(found), torch.stack(expected))


def test_pairs_beyond_the_lattice_vectors_are_found() -> None:
    """At 70,000 positions, several pairs can have the same hash."""
    rule = scattered(1)
    for position in (0, 1, 127, 128, 5000, 69_999):
        expected = rule(torch.tensor([position]), torch.arange(position + 1)).nonzero()[:, 0]
        assert torch.equal(random_before(rule, position), expected)


@pytest.mark.usefixtures("_gathers_always")
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "alibi", "relative"])
def test_stepping_equals_teacher_forcing_with_few_keys(positions: str) -> None:
    recipe = ModelRecipe(d_model=12, n_heads=3, d_ff=17, encoder_layers=1, decoder_layers=2, dropout=0.0)
    recipe = replace(recipe, pattern="sparse", window=2, global_tokens=2, random_tokens=1, positions=positions)
    model, source, target = Transformer(recipe, 19).eval(), torch.randint(1, 19, (2, 7)), torch.randint(1, 19, (2, 41))
    with torch.no_grad():
        whole, state = model(source, target), model.start(model.encode(source))
        logits, state = model.step(target[:, :3], state)
        torch.testing.assert_close(logits, whole[:, :3], atol=1e-5, rtol=1e-5)
        for t in range(3, 41):
            maps = AttentionMaps()
            watched, _ = model.step(target[:, t], state, maps)
            logits, state = model.step(target[:, t], state)
            torch.testing.assert_close(logits, whole[:, t], atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(logits, watched, atol=1e-5, rtol=1e-5)
            shown = table(model.decoder_sees, t + 1)[t]
            assert torch.equal((maps.decoder[0][0, 0, 0] > 0), shown)


@pytest.mark.usefixtures("_gathers_always")
@pytest.mark.parametrize("rule", [rule for rule in RULES if isinstance(rule, both)])
def test_a_step_picks_the_keys_that_it_sees(rule: Rule) -> None:
    for position in (23, 40, 201):
        sees = look(Padded(1, offset=position), Padded(position + 1), rule, CPU)
        assert sees.step is not None and sees.step.picked is not None
        assert torch.equal(sees.step.picked, table(rule, position + 1)[position].nonzero()[:, 0])


@pytest.mark.usefixtures("_gathers_always")
def test_packed_sentences_with_gathered_keys() -> None:
    attention, lengths = MultiHeadSelfAttention(12, 3), torch.tensor([30, 50, 0, 7])
    packed, flat = Packed.of(lengths, size=90, longest=50), torch.randn(90, 12)
    sees = look(packed, packed, BIGBIRD, CPU)
    assert sees.sparse is not None and sees.mask is None
    together, start = attention(flat, sees), 0
    for n in lengths.tolist():
        layout = Padded(n)
        alone = attention(flat[None, start : start + n], look(layout, layout, BIGBIRD, CPU)) if n else flat[None, :0]
        torch.testing.assert_close(together[start : start + n], alone[0], atol=1e-5, rtol=1e-5)
        start += n


def test_dropout_is_repeated_in_the_backward_pass_and_by_the_same_seed() -> None:
    known, n = Sparsity(radius=5, n_first=2, random=scattered(2)), 150
    q, v = torch.randn(B, H, n, K), torch.randn(B, H, n, V, requires_grad=True)

    def run() -> Tensor:
        torch.manual_seed(3)
        return gathered_attention(q, q, v, None, known, dropout=0.4)

    output, direction = run(), torch.randn(B, H, n, V)
    assert torch.equal(output, run())
    (slope,) = torch.autograd.grad(output, v, direction)
    torch.testing.assert_close((output * direction).sum(), (v * slope).sum())  # it is linear in the values
    ones = gathered_attention(torch.zeros_like(q), q, torch.ones_like(v), None, known, dropout=0.4)
    assert abs(float(ones.mean()) - 1) < 0.05 and float(ones.std()) > 0.1


def test_half_precision_is_close_to_float32() -> None:
    known, n = Sparsity(radius=5, n_first=2, random=scattered(2), causal=True), 90
    q, k, v = (torch.randn(B, H, n, K).bfloat16().requires_grad_() for _ in range(3))
    tables = torch.randn(9, K).bfloat16().requires_grad_(), torch.randn(9, K).bfloat16().requires_grad_()
    exact = [x.detach().double().requires_grad_() for x in (q, k, v, *tables)]
    rough = gathered_attention(q, k, v, None, known, tables=tables)
    fine = gathered_attention(exact[0], exact[1], exact[2], None, known, tables=(exact[3], exact[4]))
    assert rough.dtype == torch.bfloat16 and fine.dtype == torch.float64
    torch.testing.assert_close(rough.double(), fine, atol=0.05, rtol=0.05)
    slopes = torch.autograd.grad(rough.sum(), (q, k, v, *tables))
    for ours, theirs in zip(slopes, torch.autograd.grad(fine.sum(), exact), strict=True):
        assert ours.dtype == torch.bfloat16
        assert (ours.double() - theirs).norm() < 0.03 * theirs.norm()


def test_few_keys_hold_no_square() -> None:
    """At 20,000 tokens a mask alone would be 400 million entries."""
    layout, rule = Padded(20_000), both(causal, either(window(8), first(2), scattered(2)))
    x = torch.randn(1, 1, 20_000, 4)
    output = ScaledDotProduct()(x, x, x, look(layout, layout, rule, CPU)).output
    for position in (1, 700, 15_000, 19_999):
        seen = x[0, 0, rule(torch.tensor(position), torch.arange(20_000))]
        expected = (x[0, 0, position] @ seen.T / 2).softmax(-1) @ seen
        torch.testing.assert_close(output[0, 0, position], expected, atol=1e-5, rtol=1e-5)


def test_gathering_is_for_long_texts_alone() -> None:
    for size, gathers in ((200, False), (500, True)):
        layout = Padded(size)
        assert (look(layout, layout, BIGBIRD, CPU).sparse is not None) == gathers
        step = look(Padded(1, offset=size - 1), layout, both(causal, BIGBIRD), CPU)
        assert (step.step is not None) == gathers
