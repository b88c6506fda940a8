"""Subword sampling in C against Python: every id of every sentence."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dragoman.errors import TextError
from dragoman.text import N_SPECIAL, Tokenizer
from dragoman.text.subword_sampling.native import NativeSampler
from dragoman.text.subword_sampling.segmentation import DropStream, bpe_dropout
from dragoman.text.token_table import BYTE_TOKENS, FIRST_LEARNED, SPECIAL_TOKENS, TokenTable, byte_ids
from dragoman.text.tokenizer import SubwordTokenizer
from raising import raises

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
WORDS = st.lists(st.sampled_from([*"abenrtÿ▁我们の😀", " the", " letters", "keeper", " ", "学校"]), max_size=40)
SAME = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ALPHAS = [1e-300, 0.03, 0.1, 0.5, 0.97, 1.0]


def resampled(tokenizer: Tokenizer, texts: Sequence[str], alpha: float, seeds: Sequence[int]) -> list[list[int]]:
    """By `resample`, as the loader has it."""
    rows = tokenizer.encode_many(texts)
    ids, lengths = np.array([i for row in rows for i in row], np.uint16), np.array([len(row) for row in rows], np.int64)
    drawn, drawn_lengths = tokenizer.resample(ids, lengths, alpha, np.array(seeds, np.uint64))
    assert len(drawn) == drawn_lengths.sum()
    return [part.tolist() for part in np.split(drawn, np.cumsum(drawn_lengths))[: len(texts)]]


@given(texts=st.lists(ANY | WORDS.map("".join), max_size=4), alpha=st.sampled_from(ALPHAS), seed=st.integers(0, 2**63))
@SAME
@example(texts=["", " ", "\u3000", "a"], alpha=0.5, seed=1)
@example(texts=["▁", "▁ a▁▁b ▁", "<s> </s> <0x41>"], alpha=0.5, seed=2)
@example(texts=["the keeper " * 3 + "letters" * 300, "我们在学校门口等了一个小时" * 40], alpha=0.1, seed=3)
@example(texts=["\U0010ffff\u07ff\uffff\x7e", "é" * 500], alpha=0.9, seed=4)
def test_c_draws_what_python_draws(tokenizer: Tokenizer, texts: list[str], alpha: float, seed: int) -> None:
    seeds = [seed + i for i in range(len(texts))]
    expected = [tokenizer.sample(text, alpha, one) for text, one in zip(texts, seeds, strict=True)]
    assert tokenizer.resamples_in_threads
    assert resampled(tokenizer, texts, alpha, seeds) == expected


@pytest.mark.parametrize("alpha", [1.7, 1e5])
def test_powers_over_one(tokenizers: dict[str, Tokenizer], corpus: list[str], alpha: float) -> None:
    tokenizer, seeds = tokenizers["unigram"], range(len(corpus))
    expected = [tokenizer.sample(text, alpha, seed) for seed, text in enumerate(corpus)]
    assert resampled(tokenizer, corpus, alpha, seeds) == expected


def test_none_left_out_is_encoding_and_all_left_out_leaves_characters(
    tokenizers: dict[str, Tokenizer], corpus: list[str]
) -> None:
    for kind in ("bpe", "wordpiece"):
        tokenizer, seeds = tokenizers[kind], [5] * len(corpus)
        assert resampled(tokenizer, corpus, 1e-300, seeds) == tokenizer.encode_many(corpus)
        assert resampled(tokenizer, corpus, 0.0, seeds) == tokenizer.encode_many(corpus)
        (row,) = resampled(tokenizer, ["the old ÿ box"], 1.0, [4])
        assert tokenizer.tokens(row) == [*"▁the▁old▁", "<0xC3>", "<0xBF>", *"▁box"]


def test_without_a_compiler_it_is_the_same(
    tokenizer: Tokenizer, corpus: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = range(len(corpus))
    in_c = resampled(tokenizer, corpus, 0.3, seeds)
    monkeypatch.setattr(SubwordTokenizer, "native_sampler", None)
    tokenizer.__dict__.pop("native_sampler")
    assert not tokenizer.resamples_in_threads
    assert resampled(tokenizer, corpus, 0.3, seeds) == in_c
    assert in_c != tokenizer.encode_many(corpus)
    assert resampled(tokenizer, [], 0.3, []) == []


def test_characters_that_are_parts_of_tokens_but_have_none() -> None:
    learned = ["ab", "aé", "béa", "abéa", "b", "a"]  # no é
    table = TokenTable([*SPECIAL_TOKENS, *BYTE_TOKENS, *learned])
    sampler = NativeSampler.build("bpe", table, ())
    ids = {token: FIRST_LEARNED + i for i, token in enumerate(learned)}
    assert sampler is not None

    def spelled(draws: DropStream | None) -> list[int]:
        tokens = bpe_dropout("aébéaab", ids, draws)
        return [i for token in tokens for i in ([ids[token]] if token in ids else byte_ids(token))]

    plain = np.array(spelled(None))
    for seed in range(50):
        drawn, _ = sampler.resample(plain, np.array([len(plain)]), 0.4, np.array([seed], np.uint64))
        assert drawn.tolist() == spelled(DropStream(seed, 0.4))


def test_threads_do_not_disturb_each_other(tokenizer: Tokenizer, corpus: list[str]) -> None:
    seeds = range(len(corpus))
    alone = resampled(tokenizer, corpus, 0.2, seeds)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: resampled(tokenizer, corpus, 0.2, seeds) == alone, range(40)))


def test_ids_that_are_none_are_refused(tokenizer: Tokenizer) -> None:
    for wrong in (-1, tokenizer.vocabulary_size):
        with raises(TextError, "unknown_id", f"id {wrong} "):
            tokenizer.resample(np.array([5, wrong]), np.array([2]), 0.1, np.array([1], np.uint64))
    with raises(TextError, "out_of_range", "alpha=-1"):
        tokenizer.resample(np.array([5]), np.array([1]), -1, np.array([1], np.uint64))


def test_text_that_ids_cut_short_keeps_its_bytes(tokenizer: Tokenizer) -> None:
    ids = np.array(tokenizer.encode("ÿ")[:-1])
    drawn, _ = tokenizer.resample(ids, np.array([len(ids)]), 1.0, np.array([1], np.uint64))
    assert drawn[-1] == ids[-1] == byte_ids("ÿ")[0]


CONTROLS = {N_SPECIAL + byte for byte in (*range(0x20), 0x7F)}  # no text has them, and they write nothing
IDS = (st.integers(0, 480) | st.integers(0, 70)).filter(lambda number: number not in CONTROLS)


@given(ids=st.lists(IDS, max_size=50), alpha=st.sampled_from(ALPHAS))
@SAME
@example(ids=[0, 0, 0, 3, 1, 36, 0, 0, 2], alpha=1e-300)
def test_ids_that_no_text_has_still_write_the_same(tokenizer: SubwordTokenizer, ids: list[int], alpha: float) -> None:
    lengths = np.array([len(ids) // 3, len(ids) - len(ids) // 3])
    drawn, _ = tokenizer.resample(np.array(ids, np.int64), lengths, alpha, np.array([1, 2], np.uint64))
    written = tokenizer.table.token_bytes
    assert b"".join(written[i] for i in drawn) == b"".join(written[i] for i in ids)
