"""Properties of every tokenizer: the round trip, the ids, and consistent results of all methods."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import sentencepiece
import tokenizers as huggingface_tokenizers
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dragoman.arrays import concatenate
from dragoman.errors import TextError
from dragoman.text import BOS, EOS, N_SPECIAL, PAD, UNK, Tokenizer, normalization, normalize
from dragoman.text.normalization import mark
from dragoman.text.token_table import byte_ids
from raising import raises

ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
PARTS = [*" ▁▅<>/sx0x41|#'-é我们校的は\x00\t\n\u2028\u200d😀ש", " the", " wor", "<s>", "<0x41>", "<unk>", "我们"]
FAMILIAR = st.lists(st.sampled_from(PARTS), max_size=20).map("".join)
PROMISE = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(text=ANY | FAMILIAR)
@PROMISE
@example(text="▁")
@example(text="▁ a▁▁b ▁")
@example(text="<s> </s> <unk> <pad> <0x41><0xE2><0x96>")
@example(text="我们 the 我们the")
@example(text="。the")
@example(text="👩\u200d👩\u200d👧 שלום \u202bعربى\u202c \x00\x1b")
def test_round_trip(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == normalize(text)
    assert all(N_SPECIAL <= number < tokenizer.vocabulary_size for number in ids)
    assert tokenizer.encode_many([text, "x", text]) == [ids, tokenizer.encode("x"), ids]
    assert tokenizer.to_ids(tokenizer.tokens(ids)) == ids
    assert not any(" " in token or "\n" in token for token in tokenizer.tokens(ids))


@given(text=ANY | FAMILIAR, alpha=st.sampled_from([0.0, 0.1, 0.7, 1.0]), seed=st.integers(0, 2**64))
@PROMISE
def test_a_sample_writes_the_same_text(tokenizer: Tokenizer, text: str, alpha: float, seed: int) -> None:
    ids = tokenizer.sample(text, alpha, seed)
    assert tokenizer.decode(ids) == normalize(text)
    assert ids == tokenizer.sample(text, alpha, seed)
    assert UNK not in ids
    if alpha == 0:
        assert ids == tokenizer.encode(text)


@pytest.mark.parametrize("threads", [1, 3])
def test_encode_many_is_encode_for_any_mixture(tokenizer: Tokenizer, corpus: list[str], threads: int) -> None:
    texts = [f"{line} {number}▁" if number % 7 == 0 else line for number, line in enumerate(corpus * 25)]
    assert len(texts) > 1200  # several blocks
    for some in (texts, corpus[:7] * 90, [line for line in corpus if line[0] in "我他学今"] * 60, []):
        assert tokenizer.encode_many(some, threads=threads) == [tokenizer.encode(text) for text in some]


def test_encoding_is_the_librarys_own(tokenizers: dict[str, Tokenizer], corpus: list[str]) -> None:
    for kind in ("bpe", "unigram"):
        model = tokenizers[kind].model  # type: ignore[attr-defined]
        library = sentencepiece.SentencePieceProcessor(model_proto=model)
        assert [tokenizers[kind].encode(line) for line in corpus] == library.encode([mark(line) for line in corpus])
    model = tokenizers["wordpiece"].model  # type: ignore[attr-defined]
    library = huggingface_tokenizers.Tokenizer.from_str(model.decode())
    assert [tokenizers["wordpiece"].encode(line) for line in corpus] == [
        library.encode(mark(line), add_special_tokens=False).ids for line in corpus
    ]


def test_nothing_is_invented_between_characters_that_have_no_spaces(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("我们去学校。")
    assert "▁" not in "".join(tokenizer.tokens(ids))
    assert [
        tokenizer.decode([number]) for number in tokenizer.encode("我们 学校") if tokenizer.tokens([number]) == ["▁"]
    ] == [""]
    assert tokenizer.encode("学校 我们") == [
        *tokenizer.encode("学校"),
        *tokenizer.to_ids(["▁"]),
        *tokenizer.encode("我们"),
    ]


def test_a_word_is_the_same_token_at_the_start_and_inside(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("the box") == tokenizer.encode("the") + tokenizer.encode("box")
    assert tokenizer.tokens(tokenizer.encode("the"))[0].startswith("▁")


def test_unknown_characters_are_those_that_bytes_encode(tokenizer: Tokenizer) -> None:
    text = "the 我们 ½☃▁<0x41>\t\n\u00a0\u00ad\ufeff" + "".join(map(chr, range(0x20, 0x250)))
    expected = {one for one in text if any(N_SPECIAL <= i < N_SPECIAL + 256 for i in tokenizer.encode(one))}
    assert {"☃", "▁"} <= expected and expected.isdisjoint("the \t\n\u00a0\u00ad\ufeff")
    assert tokenizer.unknown_characters(text) == {one for one in expected if not (one.isascii() and one.isalnum())}
    assert tokenizer.unknown_characters("the \ud800") == set()  # rejected when it is encoded


def test_digits_stand_alone(tokenizer: Tokenizer) -> None:
    assert tokenizer.tokens(tokenizer.encode("1987")) == ["▁", "1", "9", "8", "7"]


def test_a_line_stays_a_line_whatever_bytes_a_model_writes(tokenizer: Tokenizer) -> None:
    controls = [N_SPECIAL + byte for byte in (*range(0x20), 0x7F)]
    text = "one two"
    ids = [number for token in tokenizer.encode(text) for number in (*controls, token)]
    assert tokenizer.decode([*ids, *controls]) == text
    assert tokenizer.decode(byte_ids("a\n\x00\tb~")) == "ab~"


def test_many_rows_are_decoded_as_each_is(tokenizer: Tokenizer) -> None:
    rows = [tokenizer.encode(text) for text in ("the old box", "", "中 é▁x", "a")] + [[4 + 0xE4], [*range(300)]]
    assert tokenizer.decode_many(rows) == [tokenizer.decode(row) for row in rows]
    assert tokenizer.tokens_many(rows) == [tuple(tokenizer.tokens(row)) for row in rows]
    for wrong in (-1, tokenizer.vocabulary_size):
        with raises(TextError, "unknown_id", f"id {wrong} "):
            tokenizer.decode_many([[5, 6], [5, wrong]])
        with raises(TextError, "unknown_id", f"id {wrong} "):
            tokenizer.decode_rows(*concatenate([[5, 6], [5, wrong]]))


@given(
    rows=st.lists(st.lists(st.integers(0, 270) | st.sampled_from([4 + 0xF0, 4 + 0x9F, 4 + 0xE4, 4 + 0xED]), max_size=6))
)
@PROMISE
def test_rows_in_one_array_are_decoded_as_each_is(tokenizer: Tokenizer, rows: list[list[int]]) -> None:
    """Bytes that are not UTF-8 at the end of a row must not reach into the next."""
    assert tokenizer.decode_rows(*concatenate(rows)) == [tokenizer.decode(row) for row in rows]


def test_decode_skips_the_special_ids_and_shows_what_is_unknown(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("the box")
    assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD]) == "the box"
    assert tokenizer.decode([UNK]) == "\N{REPLACEMENT CHARACTER}"
    assert tokenizer.decode([N_SPECIAL + 0xE6]) == "\N{REPLACEMENT CHARACTER}"  # a lone lead byte, as a model may write
    assert tokenizer.decode([]) == ""


@pytest.mark.parametrize("wrong", [-1, 10**6])
def test_ids_outside_of_the_vocabulary_are_refused(tokenizer: Tokenizer, wrong: int) -> None:
    with raises(TextError, "unknown_id", f"id {wrong} ", f"0 to {tokenizer.vocabulary_size - 1}"):
        tokenizer.decode([5, wrong])


def test_lone_surrogates_threads_and_alpha_are_refused(tokenizer: Tokenizer) -> None:
    for call in (
        tokenizer.encode,
        lambda text: tokenizer.encode_many([text]),
        lambda text: tokenizer.sample(text, 0.1, 1),
    ):
        with raises(TextError, "invalid_character", "U+D800"):
            call("a \ud800")
    with raises(TextError, "out_of_range", "1,024"):
        tokenizer.encode_many(["a"], threads=0)
    with raises(TextError, "out_of_range", "alpha=-0.5"):
        tokenizer.sample("a", -0.5, 1)
    with raises(TextError, "unknown_token"):
        tokenizer.to_ids(["nothing like it"])


def test_a_tokenizer_travels_to_another_process(tokenizer: Tokenizer) -> None:
    tokenizer.encode_many(["the box"])
    there = pickle.loads(pickle.dumps(tokenizer))
    assert there.fingerprint == tokenizer.fingerprint
    assert there.encode_many(["the old box, 我们"]) == tokenizer.encode_many(["the old box, 我们"])


def test_very_long_words_take_their_time_and_no_more(tokenizer: Tokenizer) -> None:
    text = "我们学校" * 5000 + "x" * 20000
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode(tokenizer.sample(text, 0.3, 1)) == text


def test_importing_the_package_imports_no_library() -> None:
    heavy = ("torch", "sentencepiece", "tokenizers", "numpy")
    code = f"import sys, dragoman.text; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_what_is_remembered_of_words_is_bounded_by_their_length_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normalization, "CACHED_CHARACTERS", 1000)
    cache = normalization.WordCache()
    asked: list[list[str]] = []

    def encode(new: list[str]) -> list[list[int]]:
        asked.append(new)
        return [[len(word)] for word in new]

    for i in range(50):
        long = "x" * (300 + i)
        assert cache.encode([f"{long} y"], encode) == [[300 + i, 1]]
        assert sum(map(len, cache.known)) <= 1000 + 301 + i
    assert cache.encode(["y y"], encode) == [[1, 1]]
    assert sum("y" in new for new in asked) > 5  # forgotten now and then, and found again


@pytest.mark.parametrize("text", [None, b"the box", 7, ["the box"]])
def test_what_is_no_text_is_refused(tokenizer: Tokenizer, text: Any) -> None:
    for ask in (tokenizer.encode, lambda one: tokenizer.encode_many([one]), lambda one: tokenizer.sample(one, 0.1, 1)):
        with raises(TextError, "wrong_type", type(text).__name__):
            ask(text)


def test_one_text_is_not_taken_for_many_letters(tokenizer: Tokenizer) -> None:
    with raises(TextError, "wrong_type"):
        tokenizer.encode_many("the box")


@pytest.mark.parametrize("ids", ["56", [1.5], [None], ["5"], None, 5])
def test_what_are_no_ids_is_refused(tokenizer: Tokenizer, ids: Any) -> None:
    for ask in (tokenizer.decode, tokenizer.tokens):
        with raises(TextError, "wrong_type"):
            ask(ids)


def test_ids_of_other_libraries_are_whole_numbers_too(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("the box")
    assert tokenizer.decode(np.array(ids)) == tokenizer.decode(torch.tensor(ids)) == "the box"
