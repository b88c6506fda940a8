"""The attention page contains the weights, and loads nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attention_pages import assert_offline, read_attention_page, unpack_weights
from dragoman.errors import SearchError
from dragoman.inspect.attention.maps import SentenceAttention
from dragoman.inspect.attention.page import attention_page, pack_weights, page_data
from raising import raises


def test_the_data_come_back(attention: SentenceAttention) -> None:
    found = read_attention_page(attention_page(attention))
    assert set(found) == set(attention.maps)
    for kind, weights in found.items():
        np.testing.assert_allclose(weights, attention.maps[kind], atol=0.51 / 65535)


@given(
    arrays.arrays(
        np.float32, arrays.array_shapes(min_dims=4, max_dims=4, max_side=4), elements=st.floats(0, 1, width=32)
    )
)
@settings(max_examples=50, deadline=None)
def test_any_weights_come_back(weights: np.ndarray) -> None:
    found = unpack_weights(json.loads(json.dumps(pack_weights(weights))))
    assert found.shape == weights.shape
    np.testing.assert_allclose(found, weights, atol=0.51 / 65535)


def test_there_is_no_reference_to_the_network(attention: SentenceAttention) -> None:
    assert_offline(attention_page(attention))


def test_a_sentence_cannot_break_out_of_its_data(attention: SentenceAttention) -> None:
    text = attention_page(attention)
    assert "</script>" in attention.source_text
    assert text.count("</script>") == text.count("<script") == 2
    begun = text.index('id="data">') + len('id="data">')
    entry = json.loads(text[begun : text.index("</script>", begun)])
    assert entry == json.loads(json.dumps(page_data(attention)))
    assert entry["source"]["text"] == attention.source_text
    assert entry["target"] == attention.target_text
    assert "/*DATA*/" not in text and "/*STYLE*/" not in text and "/*SCRIPT*/" not in text


def test_a_part_has_the_weights_asked_for_under_their_numbers(attention: SentenceAttention) -> None:
    part = attention.select(layer=3, head=2)
    assert set(part.maps) == {"cross", "decoder"}  # the encoder has two layers
    np.testing.assert_array_equal(part.maps["decoder"], attention.maps["decoder"][2:, 1:2])
    assert page_data(part)["first"] == {"layer": 3, "head": 2}
    assert set(read_attention_page(attention_page(attention.select("encoder")))) == {"encoder"}


def test_words_alone(attention: SentenceAttention) -> None:
    found = read_attention_page(attention_page(attention, words=True))
    for kind in attention.maps:
        expected = attention.pool(kind)
        np.testing.assert_allclose(found[kind], expected, atol=0.51 / 65535)
    merged = page_data(attention.pool_words(), words=True)
    assert merged["words_only"] and merged["target_output"]["tokens"] == [
        word.label for word in attention.target_output.words
    ]


def test_what_no_browser_would_draw_is_refused(attention: SentenceAttention) -> None:
    heads = {"cross": np.broadcast_to(np.float32(0), (9, 7, 700, 601))}
    with raises(SearchError, "too_large", "24,000,000", "26,504,100", "--layer"):
        attention_page(replace(attention, maps=heads))
    with raises(SearchError, "too_large", "900", "901"):
        attention_page(replace(attention, maps={"cross": np.zeros((1, 1, 2, 901), np.float32)}))
