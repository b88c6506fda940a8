"""What is promised of every kind: the round trip, the ids, and one answer whichever way it is asked for."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import sentencepiece
import tokenizers
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dragoman.errors import TextError
from dragoman.text import BOS, EOS, N_SPECIAL, PAD, UNK, Tokeniser, normalise, words
from dragoman.text.token_table import byte_ids
from dragoman.text.words import mark

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
def test_round_trip(tokeniser: Tokeniser, text: str) -> None:
    ids = tokeniser.encode(text)
    assert tokeniser.decode(ids) == normalise(text)
    assert all(N_SPECIAL <= number < tokeniser.vocabulary_size for number in ids)
    assert tokeniser.encode_many([text, "x", text]) == [ids, tokeniser.encode("x"), ids]
    assert tokeniser.to_ids(tokeniser.pieces(ids)) == ids
    assert not any(" " in piece or "\n" in piece for piece in tokeniser.pieces(ids))


@given(text=ANY | FAMILIAR, alpha=st.sampled_from([0.0, 0.1, 0.7, 1.0]), seed=st.integers(0, 2**64))
@PROMISE
def test_a_sample_writes_the_same_text(tokeniser: Tokeniser, text: str, alpha: float, seed: int) -> None:
    ids = tokeniser.sample(text, alpha, seed)
    assert tokeniser.decode(ids) == normalise(text)
    assert ids == tokeniser.sample(text, alpha, seed)
    assert UNK not in ids
    if alpha == 0:
        assert ids == tokeniser.encode(text)


@pytest.mark.parametrize("threads", [1, 3])
def test_encode_many_is_encode_for_any_mixture(tokeniser: Tokeniser, corpus: list[str], threads: int) -> None:
    texts = [f"{line} {number}▁" if number % 7 == 0 else line for number, line in enumerate(corpus * 25)]
    assert len(texts) > 1200  # several blocks
    for some in (texts, corpus[:7] * 90, [line for line in corpus if line[0] in "我他学今"] * 60, []):
        assert tokeniser.encode_many(some, threads=threads) == [tokeniser.encode(text) for text in some]


def test_encoding_is_the_librarys_own(tokenisers: dict[str, Tokeniser], corpus: list[str]) -> None:
    for kind in ("bpe", "unigram"):
        model = tokenisers[kind].model  # type: ignore[attr-defined]
        library = sentencepiece.SentencePieceProcessor(model_proto=model)
        assert [tokenisers[kind].encode(line) for line in corpus] == library.encode([mark(line) for line in corpus])
    model = tokenisers["wordpiece"].model  # type: ignore[attr-defined]
    library = tokenizers.Tokenizer.from_str(model.decode())
    assert [tokenisers["wordpiece"].encode(line) for line in corpus] == [
        library.encode(mark(line), add_special_tokens=False).ids for line in corpus
    ]


def test_nothing_is_invented_between_characters_that_have_no_spaces(tokeniser: Tokeniser) -> None:
    ids = tokeniser.encode("我们去学校。")
    assert "▁" not in "".join(tokeniser.pieces(ids))
    assert [
        tokeniser.decode([number]) for number in tokeniser.encode("我们 学校") if tokeniser.pieces([number]) == ["▁"]
    ] == [""]
    assert tokeniser.encode("学校 我们") == [
        *tokeniser.encode("学校"),
        *tokeniser.to_ids(["▁"]),
        *tokeniser.encode("我们"),
    ]


def test_a_word_is_the_same_piece_at_the_start_and_inside(tokeniser: Tokeniser) -> None:
    assert tokeniser.encode("the box") == tokeniser.encode("the") + tokeniser.encode("box")
    assert tokeniser.pieces(tokeniser.encode("the"))[0].startswith("▁")


def test_digits_stand_alone(tokeniser: Tokeniser) -> None:
    assert tokeniser.pieces(tokeniser.encode("1987")) == ["▁", "1", "9", "8", "7"]


def test_a_line_stays_a_line_whatever_bytes_a_model_writes(tokeniser: Tokeniser) -> None:
    controls = [N_SPECIAL + byte for byte in (*range(0x20), 0x7F)]
    text = "one two"
    ids = [number for piece in tokeniser.encode(text) for number in (*controls, piece)]
    assert tokeniser.decode([*ids, *controls]) == text
    assert tokeniser.decode(byte_ids("a\n\x00\tb~")) == "ab~"


def test_decode_skips_the_special_ids_and_shows_what_is_unknown(tokeniser: Tokeniser) -> None:
    ids = tokeniser.encode("the box")
    assert tokeniser.decode([BOS, *ids, EOS, PAD, PAD]) == "the box"
    assert tokeniser.decode([UNK]) == "\N{REPLACEMENT CHARACTER}"
    assert tokeniser.decode([N_SPECIAL + 0xE6]) == "\N{REPLACEMENT CHARACTER}"  # a lone lead byte, as a model may write
    assert tokeniser.decode([]) == ""


@pytest.mark.parametrize("wrong", [-1, 10**6])
def test_ids_outside_of_the_vocabulary_are_refused(tokeniser: Tokeniser, wrong: int) -> None:
    with pytest.raises(TextError, match=f"id {wrong} is outside .* 0 to {tokeniser.vocabulary_size - 1}"):
        tokeniser.decode([5, wrong])


def test_lone_surrogates_threads_and_alpha_are_refused(tokeniser: Tokeniser) -> None:
    for call in (
        tokeniser.encode,
        lambda text: tokeniser.encode_many([text]),
        lambda text: tokeniser.sample(text, 0.1, 1),
    ):
        with pytest.raises(TextError, match=r"U\+D800"):
            call("a \ud800")
    with pytest.raises(TextError, match="from 1 to 1,024 threads"):
        tokeniser.encode_many(["a"], threads=0)
    with pytest.raises(TextError, match=r"alpha=-0\.5"):
        tokeniser.sample("a", -0.5, 1)
    with pytest.raises(TextError, match="no piece 'nothing like it'"):
        tokeniser.to_ids(["nothing like it"])


def test_a_tokeniser_travels_to_another_process(tokeniser: Tokeniser) -> None:
    tokeniser.encode_many(["the box"])
    there = pickle.loads(pickle.dumps(tokeniser))
    assert there.fingerprint == tokeniser.fingerprint
    assert there.encode_many(["the old box, 我们"]) == tokeniser.encode_many(["the old box, 我们"])


def test_very_long_words_take_their_time_and_no_more(tokeniser: Tokeniser) -> None:
    text = "我们学校" * 5000 + "x" * 20000
    assert tokeniser.decode(tokeniser.encode(text)) == text
    assert tokeniser.decode(tokeniser.sample(text, 0.3, 1)) == text


def test_importing_the_package_imports_no_library() -> None:
    heavy = ("torch", "sentencepiece", "tokenizers", "numpy")
    code = f"import sys, dragoman.text; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_what_is_remembered_of_words_is_bounded_by_their_length_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "CACHED_CHARACTERS", 1000)
    cache = words.WordCache()
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
def test_what_is_no_text_is_refused(tokeniser: Tokeniser, text: Any) -> None:
    for ask in (tokeniser.encode, lambda one: tokeniser.encode_many([one]), lambda one: tokeniser.sample(one, 0.1, 1)):
        with pytest.raises(TextError, match=f"a text is a str; got {type(text).__name__} "):
            ask(text)


def test_one_text_is_not_taken_for_many_letters(tokeniser: Tokeniser) -> None:
    with pytest.raises(TextError, match="got one text, 'the box'; use encode for it"):
        tokeniser.encode_many("the box")


@pytest.mark.parametrize("ids", ["56", [1.5], [None], ["5"], None, 5])
def test_what_are_no_ids_is_refused(tokeniser: Tokeniser, ids: Any) -> None:
    for ask in (tokeniser.decode, tokeniser.pieces):
        with pytest.raises(TextError, match="ids are whole numbers"):
            ask(ids)


def test_ids_of_other_libraries_are_whole_numbers_too(tokeniser: Tokeniser) -> None:
    ids = tokeniser.encode("the box")
    assert tokeniser.decode(np.array(ids)) == tokeniser.decode(torch.tensor(ids)) == "the box"
