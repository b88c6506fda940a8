"""What every head looked at, against the model called directly, and between words, against a loop."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dragoman.errors import SearchError
from dragoman.inspect.alignment import align_pairs
from dragoman.inspect.attention_maps import END, KINDS, START, Looked, by_words, look
from dragoman.models import AttentionMaps, Transformer
from dragoman.text.special_tokens import BOS, EOS
from dragoman.translation.translator import Translator


def test_the_weights_are_the_models_own(translator: Translator, looked: Looked) -> None:
    model = translator.engines.torch.model
    assert isinstance(model, Transformer)
    source, target = translator.source.encode(looked.source_text), translator.target.encode(looked.target_text)
    maps = AttentionMaps()
    with torch.inference_mode():
        model(torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target]]), maps=maps)
    S, T = len(source) + 1, len(target) + 1
    assert S != T
    shapes = {"cross": (3, 3, T, S), "encoder": (2, 3, S, S), "decoder": (3, 3, T, T)}
    for kind in KINDS:
        assert looked.maps[kind].shape == shapes[kind]
        expected = torch.stack([layer[0] for layer in getattr(maps, kind)]).numpy()
        np.testing.assert_allclose(looked.maps[kind], expected, atol=1e-6)
        np.testing.assert_allclose(looked.maps[kind].sum(-1), 1, atol=1e-5)
        assert looked.maps[kind].shape[2:] == (len(looked.rows(kind).tokens), len(looked.columns(kind).tokens))


def test_rows_and_columns_are_named(translator: Translator, looked: Looked) -> None:
    tokens = translator.target.tokens(translator.target.encode(looked.target_text))
    assert looked.written.tokens == (*tokens, END)
    assert looked.read.tokens == (START, *tokens)
    assert [word.label for word in looked.source.words] == [*looked.source_text.split(), END]
    assert [word.label for word in looked.read.words] == [START, *looked.target_text.split()]
    for side in (looked.source, looked.read, looked.written):
        assert [i for word in side.words for i in word.tokens] == list(range(len(side.tokens)))
        assert sum(word.special for word in side.words) == 1


def test_between_words_rows_still_sum_to_one(looked: Looked) -> None:
    rows, columns = looked.rows("cross"), looked.columns("cross")
    found = by_words(looked.maps["cross"], rows, columns)
    assert found.shape == (3, 3, len(rows.words), len(columns.words))
    for r, row in enumerate(rows.words):
        for c, column in enumerate(columns.words):
            block = [[looked.maps["cross"][2, 1, t, s] for s in column.tokens] for t in row.tokens]
            assert found[2, 1, r, c] == pytest.approx(sum(map(sum, block)) / len(row.tokens), abs=1e-6)
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-5)


def test_without_a_target_it_is_the_models_own(translator: Translator) -> None:
    found = look(translator, "one two")
    translation = translator.translate("one two")
    assert found.target_text == translation.text
    assert found.written.tokens == (*translation.tokens, END)


def test_what_is_not_there_is_refused(translator: Translator, looked: Looked) -> None:
    with pytest.raises(SearchError, match="no layer 3 in the encoder attention; they are 1 to 2"):
        looked.check("encoder", 3)
    with pytest.raises(SearchError, match="no head 0"):
        looked.check("cross", 1, 0)
    with pytest.raises(SearchError, match="no layer 4 in the cross attention; they are 1 to 3"):
        looked.only(layer=4)
    with pytest.raises(SearchError, match="no 'selfish' attention; there is: cross, encoder, decoder"):
        looked.only("selfish")  # type: ignore[arg-type]
    with pytest.raises(SearchError, match="no layer '1'"):
        looked.check("cross", "1")  # type: ignore[arg-type]
    with pytest.raises(SearchError, match="empty"):
        look(translator, "  ")
    for given in (("my-model", "one"), (translator, ["one"]), (translator, "one", 1)):
        with pytest.raises(SearchError, match=r"look takes a Translator|is a text; got"):
            look(*given)  # type: ignore[arg-type]
    for pairs in (("one", "eins"), (["one", "two"], ["eins"])):
        with pytest.raises(SearchError, match="two lists of as many sentences each"):
            align_pairs(translator, *pairs)
    with pytest.raises(SearchError, match=r"20,001 and 3 tokens.* 2,400,\d\d\d,\d\d\d weights.*give shorter texts"):
        look(translator, "one " * 20_000, "one two")
