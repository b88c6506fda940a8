"""Sampling in C beside the same in Python: every id of every sentence."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dragoman.errors import TextError
from dragoman.text import N_SPECIAL, Tokeniser
from dragoman.text.native_subword_sampling import NativeSampler
from dragoman.text.subword_sampling import Draws, bpe_dropout
from dragoman.text.token_table import BYTE_PIECES, FIRST_LEARNT, SPECIAL_PIECES, PieceTable, byte_ids
from dragoman.text.tokenizer import PieceTokeniser

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
WORDS = st.lists(st.sampled_from([*"abenrtÿ▁我们の😀", " the", " letters", "keeper", " ", "学校"]), max_size=40)
SAME = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ALPHAS = [1e-300, 0.03, 0.1, 0.5, 0.97, 1.0]


def resampled(tokeniser: Tokeniser, texts: Sequence[str], alpha: float, seeds: Sequence[int]) -> list[list[int]]:
    """By `resample`, as the loader has it."""
    rows = tokeniser.encode_many(texts)
    ids, lengths = np.array([i for row in rows for i in row], np.uint16), np.array([len(row) for row in rows], np.int64)
    drawn, drawn_lengths = tokeniser.resample(ids, lengths, alpha, np.array(seeds, np.uint64))
    assert len(drawn) == drawn_lengths.sum()
    return [part.tolist() for part in np.split(drawn, np.cumsum(drawn_lengths))[: len(texts)]]


@given(texts=st.lists(ANY | WORDS.map("".join), max_size=4), alpha=st.sampled_from(ALPHAS), seed=st.integers(0, 2**63))
@SAME
@example(texts=["", " ", "\u3000", "a"], alpha=0.5, seed=1)
@example(texts=["▁", "▁ a▁▁b ▁", "<s> </s> <0x41>"], alpha=0.5, seed=2)
@example(texts=["the keeper " * 3 + "letters" * 300, "我们在学校门口等了一个小时" * 40], alpha=0.1, seed=3)
@example(texts=["\U0010ffff\u07ff\uffff\x7e", "é" * 500], alpha=0.9, seed=4)
def test_c_draws_what_python_draws(tokeniser: Tokeniser, texts: list[str], alpha: float, seed: int) -> None:
    seeds = [seed + i for i in range(len(texts))]
    expected = [tokeniser.sample(text, alpha, one) for text, one in zip(texts, seeds, strict=True)]
    assert tokeniser.resamples_in_threads
    assert resampled(tokeniser, texts, alpha, seeds) == expected


@pytest.mark.parametrize("alpha", [1.7, 1e5])
def test_powers_over_one(tokenisers: dict[str, Tokeniser], corpus: list[str], alpha: float) -> None:
    tokeniser, seeds = tokenisers["unigram"], range(len(corpus))
    expected = [tokeniser.sample(text, alpha, seed) for seed, text in enumerate(corpus)]
    assert resampled(tokeniser, corpus, alpha, seeds) == expected


def test_none_left_out_is_encoding_and_all_left_out_leaves_characters(
    tokenisers: dict[str, Tokeniser], corpus: list[str]
) -> None:
    for kind in ("bpe", "wordpiece"):
        tokeniser, seeds = tokenisers[kind], [5] * len(corpus)
        assert resampled(tokeniser, corpus, 1e-300, seeds) == tokeniser.encode_many(corpus)
        assert resampled(tokeniser, corpus, 0.0, seeds) == tokeniser.encode_many(corpus)
        (row,) = resampled(tokeniser, ["the old ÿ box"], 1.0, [4])
        assert tokeniser.pieces(row) == [*"▁the▁old▁", "<0xC3>", "<0xBF>", *"▁box"]


def test_without_a_compiler_it_is_the_same(
    tokeniser: Tokeniser, corpus: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = range(len(corpus))
    in_c = resampled(tokeniser, corpus, 0.3, seeds)
    monkeypatch.setattr(PieceTokeniser, "native_sampler", None)
    tokeniser.__dict__.pop("native_sampler")
    assert not tokeniser.resamples_in_threads
    assert resampled(tokeniser, corpus, 0.3, seeds) == in_c
    assert in_c != tokeniser.encode_many(corpus)
    assert resampled(tokeniser, [], 0.3, []) == []


def test_characters_that_are_parts_of_pieces_but_have_none() -> None:
    learnt = ["ab", "aé", "béa", "abéa", "b", "a"]  # no é
    table = PieceTable([*SPECIAL_PIECES, *BYTE_PIECES, *learnt])
    sampler = NativeSampler.build("bpe", table, ())
    ids = {piece: FIRST_LEARNT + i for i, piece in enumerate(learnt)}
    assert sampler is not None

    def spelt(draws: Draws | None) -> list[int]:
        pieces = bpe_dropout("aébéaab", ids, draws)
        return [i for piece in pieces for i in ([ids[piece]] if piece in ids else byte_ids(piece))]

    plain = np.array(spelt(None))
    for seed in range(50):
        drawn, _ = sampler.resample(plain, np.array([len(plain)]), 0.4, np.array([seed], np.uint64))
        assert drawn.tolist() == spelt(Draws(seed, 0.4))


def test_threads_do_not_disturb_each_other(tokeniser: Tokeniser, corpus: list[str]) -> None:
    seeds = range(len(corpus))
    alone = resampled(tokeniser, corpus, 0.2, seeds)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: resampled(tokeniser, corpus, 0.2, seeds) == alone, range(40)))


def test_ids_that_are_none_are_refused(tokeniser: Tokeniser) -> None:
    for wrong in (-1, tokeniser.vocabulary_size):
        with pytest.raises(TextError, match=f"id {wrong} is outside of this vocabulary"):
            tokeniser.resample(np.array([5, wrong]), np.array([2]), 0.1, np.array([1], np.uint64))
    with pytest.raises(TextError, match="alpha=-1 cannot be sampled with"):
        tokeniser.resample(np.array([5]), np.array([1]), -1, np.array([1], np.uint64))


def test_text_that_ids_cut_short_keeps_its_bytes(tokeniser: Tokeniser) -> None:
    ids = np.array(tokeniser.encode("ÿ")[:-1])
    drawn, _ = tokeniser.resample(ids, np.array([len(ids)]), 1.0, np.array([1], np.uint64))
    assert drawn[-1] == ids[-1] == byte_ids("ÿ")[0]


CONTROLS = {N_SPECIAL + byte for byte in (*range(0x20), 0x7F)}  # no text has them, and they write nothing
IDS = (st.integers(0, 480) | st.integers(0, 70)).filter(lambda number: number not in CONTROLS)


@given(ids=st.lists(IDS, max_size=50), alpha=st.sampled_from(ALPHAS))
@SAME
@example(ids=[0, 0, 0, 3, 1, 36, 0, 0, 2], alpha=1e-300)
def test_ids_that_no_text_has_still_write_the_same(tokeniser: PieceTokeniser, ids: list[int], alpha: float) -> None:
    lengths = np.array([len(ids) // 3, len(ids) - len(ids) // 3])
    drawn, _ = tokeniser.resample(np.array(ids, np.int64), lengths, alpha, np.array([1, 2], np.uint64))
    written = tokeniser.table.written
    assert b"".join(written[i] for i in drawn) == b"".join(written[i] for i in ids)
