"""Every failed memory allocation of subword sampling is an error, without leaks."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from no_memory import refusing

from dragoman.text.subword_sampling.native import NATIVE_KINDS, NativeSampler, declare_functions
from dragoman.text.token_table import BYTE_TOKENS, FIRST_LEARNED, SPECIAL_TOKENS, TokenTable

LEARNED = [f"{a}{b}{c}".replace("_", "") for a in "_▁" for b in "abcdefghijklm" for c in "_nopqrstuvwxyz"]


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return declare_functions(refusing("subword_sampling", tmp_path_factory.mktemp("code")))


@pytest.mark.parametrize("kind", NATIVE_KINDS)
def test_each_refusal_is_an_error_that_leaves_nothing_behind(code: ctypes.CDLL, kind: str) -> None:
    table = TokenTable([*SPECIAL_TOKENS, *BYTE_TOKENS, *LEARNED])
    granted, held = ctypes.c_int.in_dll(code, "granted"), ctypes.c_int.in_dll(code, "held")
    sampler, refusals = None, 0
    while sampler is None:
        granted.value = refusals
        try:
            sampler = NativeSampler(code, kind, table, [-1.0] * len(LEARNED))
        except MemoryError as error:
            refusals += 1
            assert "token table" in str(error) and held.value == 0
    assert refusals >= 5  # the tokens, their two arrays and maps, and one that grows
    kept, drawn, refusals = held.value, None, 0
    ids, lengths = np.arange(FIRST_LEARNED, FIRST_LEARNED + 90), np.array([40, 0, 50])
    while drawn is None:
        granted.value = refusals
        try:
            drawn, _ = sampler.resample(ids, lengths, 0.5, np.arange(3, dtype=np.uint64))
        except MemoryError as error:
            refusals += 1
            assert "3 sentences" in str(error) and held.value == kept
    assert refusals >= 2 and held.value == kept and table.decode(drawn) == table.decode(ids)
    del sampler
    assert held.value == 0
