"""Language tokens: no text is encoded as them, they write nothing, and vocabularies without them are unchanged."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from dragoman.errors import TextError
from dragoman.text import Tokenizer, load_tokenizer, normalize
from dragoman.text.learn import learn
from dragoman.text.token_table import add_language_tokens, split_language_tokens
from raising import raises

LINES = ["the old box <2de> stands in the hall", "we 2 see <2fr> the box", "der alte Kasten steht im Flur <2de>"] * 5
TEXTS = [*LINES, "", "<2de>", "<2de> box", "▁<2fr>▁", "你好 <2zh-Hans>", "2de > < 2", "\U0001f600 box"]
CODES = ("de", "zh-Hans", "fr")
KINDS = ("bpe", "unigram", "wordpiece")


@pytest.fixture(scope="module", params=KINDS)
def both(request: pytest.FixtureRequest) -> tuple[Tokenizer, Tokenizer]:
    """The same tokens without target languages and with them."""
    plain = learn(request.param, LINES, 330)
    return plain, plain.with_targets(CODES)


def test_no_text_is_cut_into_them(both: tuple[Tokenizer, Tokenizer]) -> None:
    plain, several = both
    assert several.vocabulary_size == plain.vocabulary_size + len(CODES)
    assert several.encode_many(TEXTS) == plain.encode_many(TEXTS) == [several.encode(text) for text in TEXTS]
    for text in TEXTS:
        assert max(several.encode(text), default=0) < plain.vocabulary_size
        assert max(several.sample(text, 0.5, 3), default=0) < plain.vocabulary_size
        assert several.sample(text, 0.5, 3) == plain.sample(text, 0.5, 3)


def test_they_are_the_last_ids_and_write_nothing(both: tuple[Tokenizer, Tokenizer]) -> None:
    plain, several = both
    heads = [several.target_id(code) for code in CODES]
    assert heads == [plain.vocabulary_size + i for i in range(len(CODES))]
    assert several.tokens(heads) == ["<2de>", "<2zh-Hans>", "<2fr>"] and several.to_ids(["<2fr>"]) == heads[2:]
    assert [several.widths[head] for head in heads] == [0, 0, 0]
    for text in TEXTS:
        ids = several.encode(text)
        assert several.decode([heads[1], *ids]) == several.decode([*ids, heads[0]]) == normalize(text)
    assert (plain.targets, several.targets) == ((), CODES)
    with raises(TextError, "unknown_language", "'it'"):
        several.target_id("it")
    with raises(TextError, "unknown_language", "'de'"):
        plain.target_id("de")


def test_files(both: tuple[Tokenizer, Tokenizer], tmp_path: Path) -> None:
    plain, several = both
    (model, description), (model_too, about) = plain.save(tmp_path, "plain"), several.save(tmp_path, "several")
    assert model.read_bytes() == model_too.read_bytes()  # the library's file knows nothing of them
    without, known = (json.loads(path.read_text()) for path in (description, about))
    assert list(without) == ["format", "kind", "vocabulary_size", "normalizer", "model", "sha256"]
    assert (without["format"], known["format"], known["targets"]) == (1, 2, [*CODES])
    loaded = load_tokenizer(tmp_path, "several")
    for one in (loaded, pickle.loads(pickle.dumps(several))):
        assert (one.targets, one.fingerprint, one.vocabulary_size) == (
            CODES,
            several.fingerprint,
            several.vocabulary_size,
        )
        assert one.encode_many(TEXTS) == several.encode_many(TEXTS)
    assert len({plain.fingerprint, several.fingerprint, plain.with_targets(CODES[::-1]).fingerprint}) == 3
    assert plain.with_targets(()).fingerprint == plain.fingerprint
    for wrong, code, mention in (
        ({"targets": "de"}, "not_a_tokenizer", "targets='de'"),
        ({"format": 1}, "unsupported_format", "format 1"),
        ({"targets": []}, "file_damaged", f"{plain.vocabulary_size} tokens"),
    ):
        about.write_text(json.dumps({**known, **wrong}))
        with raises(TextError, code, mention):
            load_tokenizer(tmp_path, "several")


@pytest.mark.parametrize("native", [True, False])
def test_sampling_keeps_them_in_front(
    both: tuple[Tokenizer, Tokenizer], native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, several = both
    if not native:
        for one in (plain, several):
            monkeypatch.setitem(one.__dict__, "native_sampler", None)
    rows = [plain.encode(text) for text in TEXTS]
    heads = [[], *([several.target_id(CODES[i % 3])] for i in range(1, len(rows)))]
    seeds = np.arange(len(rows), dtype=np.uint64)

    def drawn(tokenizer: Tokenizer, sentences: list[list[int]]) -> list[list[int]]:
        flat = np.array([i for row in sentences for i in row], np.uint16)
        lengths = np.array([*map(len, sentences)], np.int64)
        ids, sizes = tokenizer.resample(flat, lengths, 0.4, seeds)
        return [part.tolist() for part in np.split(ids, np.cumsum(sizes)[:-1])]

    apart = drawn(plain, rows)
    together = drawn(several, [[*head, *row] for head, row in zip(heads, rows, strict=True)])
    assert together == [[*head, *row] for head, row in zip(heads, apart, strict=True)]
    assert apart != rows


def test_heads_of_sentences_that_lie_end_to_end() -> None:
    rows, heads = [[5, 6], [], [7], [], [8, 9, 4]], [12, 11, -1, -1, 10]
    ids, lengths = np.array([5, 6, 7, 8, 9, 4], np.uint16), np.array([2, 0, 1, 0, 3])
    flat, sizes = add_language_tokens(ids, lengths, np.array(heads))
    expected = [([head] if head >= 0 else []) + row for head, row in zip(heads, rows, strict=True)]
    assert flat.tolist() == [i for row in expected for i in row] and flat.dtype == np.uint16
    assert sizes.tolist() == [*map(len, expected)]
    back = split_language_tokens(flat, sizes, 10)
    assert [part.tolist() for part in back] == [ids.tolist(), lengths.tolist(), heads]


@pytest.mark.parametrize("codes", [("de", "de"), ("d e",), ("",), ("de>",), ("x" * 33,), ("-de",), (3,)])
def test_what_names_no_language(codes: tuple[str, ...]) -> None:
    plain = learn("bpe", LINES, 330)
    with raises(TextError, "duplicate_language" if len(codes) > 1 else "invalid_language_code"):
        plain.with_targets(codes)
