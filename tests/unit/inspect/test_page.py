"""The page holds what was seen, and asks nobody for anything."""

from __future__ import annotations

import json
import re

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dragoman.inspect.looking import Looked
from dragoman.inspect.page import data, packed, page, read_page, unpacked


def test_the_data_come_back(looked: Looked) -> None:
    found = read_page(page(looked))
    assert set(found) == set(looked.maps)
    for kind, weights in found.items():
        np.testing.assert_allclose(weights, looked.maps[kind], atol=0.51 / 65535)


@given(
    arrays.arrays(
        np.float32, arrays.array_shapes(min_dims=4, max_dims=4, max_side=4), elements=st.floats(0, 1, width=32)
    )
)
@settings(max_examples=50, deadline=None)
def test_any_weights_come_back(weights: np.ndarray) -> None:
    found = unpacked(json.loads(json.dumps(packed(weights))))
    assert found.shape == weights.shape
    np.testing.assert_allclose(found, weights, atol=0.51 / 65535)


def test_there_is_no_reference_to_the_network(looked: Looked) -> None:
    text = page(looked)
    assert "default-src 'none'" in text
    addresses = set(re.findall(r"\b(?:https?|wss?|ftp):[^\s\"'`]*", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # the name of SVG elements, which is never fetched
    for way in ("fetch(", "XMLHttpRequest", "WebSocket", "sendBeacon", "import(", "@import", "url(", " src=", "<link"):
        assert way not in text


def test_a_sentence_cannot_break_out_of_its_data(looked: Looked) -> None:
    text = page(looked)
    assert "</script>" in looked.source_text
    assert text.count("</script>") == text.count("<script") == 2
    begun = text.index('id="data">') + len('id="data">')
    entry = json.loads(text[begun : text.index("</script>", begun)])
    assert entry == json.loads(json.dumps(data(looked)))
    assert entry["source"]["text"] == looked.source_text
    assert entry["target"] == looked.target_text
    assert "/*DATA*/" not in text and "/*STYLE*/" not in text and "/*SCRIPT*/" not in text


def test_it_opens_with_the_layer_asked_for(looked: Looked) -> None:
    assert data(looked)["layer"] == 2
    assert data(looked, 1)["layer"] == 0
