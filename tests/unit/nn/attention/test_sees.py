import torch

from dragoman.nn import Packed, Padded, both, causal, either, everything, look, window
from dragoman.nn.layout import joint_tiles

CPU = torch.device("cpu")


def table(rule, queries, keys):
    return look(queries, keys, rule, CPU).dense(CPU)


def test_rules_are_what_they_say() -> None:
    q, k = torch.arange(6)[:, None], torch.arange(6)[None, :]
    for i in range(6):
        for j in range(6):
            assert causal(q, k)[i, j] == (j <= i)
            assert window(2)(q, k)[i, j] == (abs(i - j) <= 2)
            assert both(causal, window(2))(q, k)[i, j] == (i - 2 <= j <= i)
            assert either(causal, window(2))(q, k)[i, j] == (j <= i + 2)
            assert everything(q, k)[i, j]


def test_padding_is_never_seen() -> None:
    keys = Padded(5, torch.tensor([3, 5, 0]))
    shown = table(everything, Padded(4), keys)
    assert shown.shape == (3, 1, 1, 5)
    assert shown[:, 0, 0].tolist() == [[True] * 3 + [False] * 2, [True] * 5, [False] * 5]


def test_nothing_hidden_needs_no_mask() -> None:
    assert table(everything, Padded(4), Padded(5)) is None


def test_causal_with_padding_as_a_loop_says() -> None:
    layout = Padded(4, torch.tensor([2, 4]))
    shown = table(causal, layout, layout)
    for b, length in enumerate((2, 4)):
        for i in range(4):
            for j in range(4):
                assert shown[b, 0, i, j] == (j <= i and j < length)


def test_the_triangle_alone_hides_padding_from_real_queries() -> None:
    layout = Padded(4, torch.tensor([2, 4]))
    sees = look(layout, layout, causal, CPU)
    assert sees.triangle
    assert sees.mask is None


def test_an_offset_continues_the_triangle() -> None:
    sees = look(Padded(2, offset=3), Padded(5), causal, CPU)
    assert not sees.triangle
    assert sees.mask is not None
    assert sees.mask[0, 0].tolist() == [[True] * 4 + [False], [True] * 5]


def test_the_newest_position_sees_all_without_a_mask() -> None:
    sees = look(Padded(1, offset=3), Padded(4), causal, CPU)
    assert sees.mask is None
    assert not sees.triangle


def test_the_newest_position_does_not_see_padded_keys() -> None:
    sees = look(Padded(1, offset=3), Padded(4, torch.tensor([2, 4])), causal, CPU)
    assert sees.mask is not None
    assert sees.mask[:, 0, 0].tolist() == [[True, True, False, False], [True] * 4]


def test_a_window_at_an_offset() -> None:
    sees = look(Padded(1, offset=4), Padded(5), both(causal, window(1)), CPU)
    assert sees.mask is not None
    assert sees.mask[0, 0, 0].tolist() == [False, False, False, True, True]


def test_packed_sentences_are_rows_of_the_grid() -> None:
    packed = Packed.of(torch.tensor([2, 3]), size=7, longest=4)
    shown = table(everything, packed, packed)
    assert shown[:, 0, 0].tolist() == [[True, True, False, False], [True, True, True, False]]


def test_kernels_for_packed_sentences_are_left_to_the_patterns_they_know() -> None:
    lengths = torch.tensor([2, 3])
    tiles, _ = joint_tiles(lengths, lengths, 7, 7)
    packed = Packed.of(lengths, size=7, longest=4, tiles=tiles)
    for rule, known in ((everything, True), (causal, True), (window(1), False), (both(causal, window(1)), False)):
        assert (look(packed, packed, rule, CPU).tiled is not None) == known
    other = Packed.of(lengths, size=7, longest=4, tiles=tiles)
    assert look(packed, other, everything, CPU).tiled is not None
    assert look(packed, other, causal, CPU).tiled is None
