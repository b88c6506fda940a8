"""Attention maps against the model called directly, and word attention against a loop."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dragoman.errors import SearchError
from dragoman.inspect.alignment import align_pairs
from dragoman.inspect.attention.maps import END, START, SentenceAttention, record_attention
from dragoman.models import AttentionMaps, Transformer
from dragoman.text.special_tokens import BOS, EOS
from dragoman.translation.translator import Translator
from raising import raises


def test_the_weights_are_the_models_own(translator: Translator, attention: SentenceAttention) -> None:
    model = translator.engines.torch.model
    assert isinstance(model, Transformer)
    source, target = translator.source.encode(attention.source_text), translator.target.encode(attention.target_text)
    maps = AttentionMaps()
    with torch.inference_mode():
        model(torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target]]), maps=maps)
    S, T = len(source) + 1, len(target) + 1
    assert S != T
    shapes = {"cross": (3, 3, T, S), "encoder": (2, 3, S, S), "decoder": (3, 3, T, T)}
    for kind in shapes:
        assert attention.maps[kind].shape == shapes[kind]
        expected = torch.stack([layer[0] for layer in getattr(maps, kind)]).numpy()
        np.testing.assert_allclose(attention.maps[kind], expected, atol=1e-6)
        np.testing.assert_allclose(attention.maps[kind].sum(-1), 1, atol=1e-5)
        assert attention.maps[kind].shape[2:] == (len(attention.queries(kind).tokens), len(attention.keys(kind).tokens))


def test_rows_and_columns_are_named(translator: Translator, attention: SentenceAttention) -> None:
    tokens = translator.target.tokens(translator.target.encode(attention.target_text))
    assert attention.target_output.tokens == (*tokens, END)
    assert attention.target_input.tokens == (START, *tokens)
    assert [word.label for word in attention.source.words] == [*attention.source_text.split(), END]
    assert [word.label for word in attention.target_input.words] == [START, *attention.target_text.split()]
    for side in (attention.source, attention.target_input, attention.target_output):
        assert [i for word in side.words for i in word.tokens] == list(range(len(side.tokens)))
        assert sum(word.special for word in side.words) == 1


def test_between_words_rows_still_sum_to_one(attention: SentenceAttention) -> None:
    rows, columns = attention.queries("cross"), attention.keys("cross")
    found = attention.pool("cross")
    assert found.shape == (3, 3, len(rows.words), len(columns.words))
    for r, row in enumerate(rows.words):
        for c, column in enumerate(columns.words):
            block = [[attention.maps["cross"][2, 1, t, s] for s in column.tokens] for t in row.tokens]
            assert found[2, 1, r, c] == pytest.approx(sum(map(sum, block)) / len(row.tokens), abs=1e-6)
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-5)


def test_without_a_target_it_is_the_models_own(translator: Translator) -> None:
    found = record_attention(translator, "one two")
    translation = translator.translate("one two")
    assert found.target_text == translation.text
    assert found.target_output.tokens == (*translation.tokens, END)


def test_what_is_not_there_is_refused(translator: Translator, attention: SentenceAttention) -> None:
    with raises(SearchError, "out_of_range", "layer 3", "encoder", "1 to 2"):
        attention.check("encoder", 3)
    with raises(SearchError, "out_of_range", "head 0"):
        attention.check("cross", 1, 0)
    with raises(SearchError, "out_of_range", "layer 4", "1 to 3"):
        attention.select(layer=4)
    with raises(SearchError, "unknown_choice", "'selfish'", "cross, encoder, decoder"):
        attention.select("selfish")  # type: ignore[arg-type]
    with raises(SearchError, "out_of_range", "layer '1'"):
        attention.check("cross", "1")  # type: ignore[arg-type]
    with raises(SearchError, "empty_text"):
        record_attention(translator, "  ")
    for given in (("my-model", "one"), (translator, ["one"]), (translator, "one", 1)):
        with raises(SearchError, "wrong_type"):
            record_attention(*given)  # type: ignore[arg-type]
    for pairs in (("one", "eins"), (["one", "two"], ["eins"])):
        with raises(SearchError, "count_mismatch"):
            align_pairs(translator, *pairs)
    with raises(SearchError, "too_large", "20,001 and 3 tokens"):
        record_attention(translator, "one " * 20_000, "one two")
