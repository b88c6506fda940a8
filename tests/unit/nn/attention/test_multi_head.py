import torch

from dragoman.errors import ShapeError
from dragoman.nn import (
    Additive,
    GrowingCache,
    MultiHeadCrossAttention,
    MultiHeadSelfAttention,
    Padded,
    causal,
    everything,
    look,
    scaled_dot_product,
)
from raising import raises

B, S, T, D, H, K, V = 2, 5, 7, 12, 3, 11, 6
CPU = torch.device("cpu")


def test_heads_of_free_sizes_are_the_equation() -> None:
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)."""
    attention = MultiHeadSelfAttention(D, H, d_k=K, d_v=V)
    x = torch.randn(B, T, D)
    layout = Padded(T)
    sees = look(layout, layout, everything, CPU)
    w_q, w_k, w_v = attention.qkv.weight.split([H * K, H * K, H * V])
    heads = []
    for i in range(H):
        q, k = x @ w_q[i * K : (i + 1) * K].T, x @ w_k[i * K : (i + 1) * K].T
        v = x @ w_v[i * V : (i + 1) * V].T
        heads.append(scaled_dot_product(q[:, None], k[:, None], v[:, None], sees).output[:, 0])
    expected = torch.cat(heads, -1) @ attention.output.weight.T
    torch.testing.assert_close(attention(x, sees), expected, atol=1e-5, rtol=1e-5)


def test_beams_share_their_sentences_memory() -> None:
    """W rows a sentence give what W copies of the memory would."""
    beams = 3
    attention = MultiHeadCrossAttention(D, H, d_memory=9, d_k=K, d_v=V)
    memory, x = torch.randn(B, S, 9), torch.randn(B * beams, 2, D)
    lengths = torch.tensor([3, S])
    weights: list[torch.Tensor] = []
    shared = attention(
        x,
        attention.remember(memory, Padded(S, lengths)),
        look(Padded(2), Padded(S, lengths), everything, CPU),
        weights=weights,
    )
    copied = Padded(S, lengths.repeat_interleave(beams))
    copied_weights: list[torch.Tensor] = []
    expected = attention(
        x,
        attention.remember(memory.repeat_interleave(beams, 0), copied),
        look(Padded(2), copied, everything, CPU),
        weights=copied_weights,
    )
    torch.testing.assert_close(shared, expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(weights, copied_weights, atol=1e-6, rtol=1e-5)
    assert weights[0].shape == (B * beams, H, 2, S)


def test_a_cache_gives_what_the_whole_sequence_gives() -> None:
    attention = MultiHeadSelfAttention(D, H, d_k=K, d_v=V)
    x = torch.randn(B, T, D)
    layout = Padded(T)
    whole = attention(x, look(layout, layout, causal, CPU))
    cache, parts = GrowingCache(), []
    for start, size in ((0, 3), (3, 1), (4, 2), (6, 1)):  # prefill, a step, two at once, a step
        sees = look(Padded(size, offset=start), Padded(start + size), causal, CPU)
        parts.append(attention(x[:, start : start + size], sees, cache=cache))
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-5, rtol=1e-5)


def test_a_forked_cache_leaves_the_old_one() -> None:
    attention = MultiHeadSelfAttention(D, H)
    sees = look(Padded(1), Padded(1), causal, CPU)
    first = GrowingCache()
    attention(torch.randn(B, 1, D), sees, cache=first)
    assert first.past is not None
    before = first.past.keys.clone()
    for _ in range(2):
        second = first.fork()
        attention(torch.randn(B, 1, D), look(Padded(1, offset=1), Padded(2), causal, CPU), cache=second)
        assert second.past is not None
        assert second.past.keys.shape[2] == 2
        assert torch.equal(first.past.keys, before)


def test_a_cache_can_be_reordered() -> None:
    attention = MultiHeadSelfAttention(D, H)
    cache = GrowingCache()
    attention(torch.randn(B, 1, D), look(Padded(1), Padded(1), causal, CPU), cache=cache)
    assert cache.past is not None
    chosen = cache.select(torch.tensor([1, 1, 0]))
    assert chosen.past is not None
    assert torch.equal(chosen.past.keys, cache.past.keys[[1, 1, 0]])
    assert torch.equal(chosen.past.values, cache.past.values[[1, 1, 0]])
    assert GrowingCache().select(torch.tensor([0])).past is None


def test_additive_attention_stands_in_the_same_seam() -> None:
    attention = MultiHeadSelfAttention(D, H, d_k=K, d_v=V, function=Additive(K, n_heads=H))
    layout = Padded(T, torch.tensor([4, T]))
    weights: list[torch.Tensor] = []
    y = attention(torch.randn(B, T, D), look(layout, layout, everything, CPU), weights=weights)
    assert y.shape == (B, T, D)
    assert weights[0].shape == (B, H, T, T)
    assert not weights[0][0, :, :, 4:].any()


def test_each_projection_starts_as_if_it_stood_alone() -> None:
    attention = MultiHeadSelfAttention(64, 4, d_k=8, d_v=24)
    for matrix in attention.qkv.weight.split([32, 32, 96]):
        bound = (6 / (matrix.shape[0] + 64)) ** 0.5
        assert matrix.abs().max() <= bound
        assert matrix.abs().max() > 0.95 * bound


def test_heads_that_do_not_divide_are_refused() -> None:
    with raises(ShapeError, "not_divisible", "d_model=10", "n_heads=3"):
        MultiHeadSelfAttention(10, 3)
