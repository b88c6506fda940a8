"""Imported tokenizers: subword-nmt against its definition, tokens separated by spaces, sentencepiece."""

from __future__ import annotations

import json
import pickle
import random
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from dragoman.errors import TextError
from dragoman.text import EOS, UNK, load_tokenizer, vocabulary_sizes
from dragoman.text.imported.segmentation import encode_model
from dragoman.text.imported.subword_nmt import SubwordCodes
from dragoman.text.imported.tokenizer import ImportedTokenizer, serialize_tokenizer
from dragoman.text.learn import learn
from raising import raises

TOKENS = ["new@@", "er", "low", "est", "▁"]
LINES = [
    f"the {word} {other} stands in a hall" for word in ("old", "new", "low") for other in ("box", "tower", "house")
]


def spaced(tokens: list[str] = TOKENS, **more: object) -> ImportedTokenizer:
    return ImportedTokenizer("imported", serialize_tokenizer("a toolkit", "spaces", "", tokens, "<unk>", **more))  # type: ignore[arg-type]


def by_definition(word: str, pairs: list[tuple[str, str]], end_alone: bool) -> list[str]:
    """Of all pairs that stand in the word, the first in the list is merged, wherever it stands; again and again."""
    symbols = [*word, "</w>"] if end_alone else [*word[:-1], word[-1] + "</w>"]
    while True:
        there = [pair for pair in pairs if any(symbols[i : i + 2] == [*pair] for i in range(len(symbols)))]
        if not there:
            break
        i = 0
        while i < len(symbols) - 1:
            if symbols[i : i + 2] == [*there[0]]:
                symbols[i : i + 2] = ["".join(there[0])]
            i += 1
    text = " ".join(symbols).removesuffix("</w>").rstrip()
    return [*(f"{token}@@" for token in text.split()[:-1]), text.split()[-1]]


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_codes_are_their_definition(seed: int, end_alone: bool) -> None:
    draw = random.Random(seed)
    known = ["a", "b", "c", *(["</w>"] if end_alone else ["a</w>", "b</w>", "c</w>"])]
    pairs: list[tuple[str, str]] = []
    for _ in range(draw.randint(1, 9)):
        pair = (draw.choice([s for s in known if not s.endswith("</w>")]), draw.choice(known))
        pairs.append(pair)
        known.append("".join(pair))
    head = draw.choice(["", "#version: 0.1\n"]) if end_alone else "#version: 0.2\n"
    codes = SubwordCodes(head + "".join(f"{a} {b}\n" for a, b in pairs))
    for _ in range(6):
        word = "".join(draw.choice("abcd") for _ in range(draw.randint(1, 9)))
        assert codes.split(word) == by_definition(word, pairs, end_alone)
        assert "".join(codes.split(word)).replace("@@", "") == word


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6))
def test_a_vocabulary_undoes_merges_until_tokens_are_known_or_whole(seed: int) -> None:
    draw = random.Random(seed)
    known, pairs = ["a", "b", "c", "a</w>", "b</w>", "c</w>"], []
    for _ in range(8):
        pair = (draw.choice([s for s in known if not s.endswith("</w>")]), draw.choice(known))
        pairs.append(pair)
        known.append("".join(pair))
    codes = "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in pairs)
    free = SubwordCodes(codes)
    made = {a + b for a, b in pairs}
    words = ["".join(draw.choice("abc") for _ in range(draw.randint(1, 8))) for _ in range(12)]
    some = {token for word in words for token in free.split(word) if draw.random() < 0.5}
    for word in words:
        tokens = SubwordCodes(codes, some).split(word)
        assert "".join(tokens).replace("@@", "") == word
        for i, token in enumerate(tokens):
            stored = token.removesuffix("@@") if i < len(tokens) - 1 else token + "</w>"
            assert token in some or stored not in made  # what is left unknown was never merged
        if all(token in some for token in free.split(word)):
            assert tokens == free.split(word)


@pytest.mark.parametrize("codes", ["#version: 0.3\na b\n", "a b c\n", "#version: 0.2\nab\n", ""])
def test_what_are_no_codes(codes: str) -> None:
    with raises(TextError, "not_a_tokenizer", "subword-nmt"):
        SubwordCodes(codes)


def test_tokens_between_spaces() -> None:
    tokenizer = spaced()
    ids = tokenizer.encode("low new@@ er  what est")
    assert ids == [6, 4, 5, UNK, 7]
    assert tokenizer.decode([1, *ids, EOS]) == "low newer <unk> est"
    assert tokenizer.tokens([*ids, EOS]) == ["▁low", "▁new", "er", "▁<unk>", "▁est", "</s>"]
    assert tokenizer.to_ids(["▁low", "▁new", "er", "▁<unk>", "▁est", "</s>"]) == [*ids, EOS]
    assert tokenizer.to_ids([]) == [] == tokenizer.tokens([])
    assert tokenizer.tokens([4, UNK, 6]) == ["▁new", "<unk>", "▁low"]
    assert tokenizer.decode([4]) == "new" and tokenizer.decode([]) == ""  # a word that was not ended
    assert tokenizer.encode_many(["er", ""], threads=2) == [[5], []]
    silent = spaced(silent=[6])
    assert silent.decode(ids) == "newer <unk> est"
    again = pickle.loads(pickle.dumps(silent))
    assert again.decode(ids) == silent.decode(ids) and again.fingerprint == silent.fingerprint != tokenizer.fingerprint


def test_sentencepiece_is_the_library_with_the_tokens_of_another_list() -> None:
    written = BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=written, vocab_size=60, hard_vocab_limit=False, minloglevel=2,
        normalization_rule_name="nmt_nfkc",
    )  # fmt: skip
    library = SentencePieceProcessor()
    library.LoadFromSerializedProto(written.getvalue())
    own = [library.id_to_piece(i) for i in range(3, len(library))]
    left_out, more = own[5], ["ж", "▁жж"]  # characters that the library does not know, and the list does
    tokens = [*more, *(token for token in reversed(own) if token != left_out)]
    tokenizer = ImportedTokenizer(
        "imported", serialize_tokenizer("t", "sentencepiece", encode_model(written.getvalue()), tokens)
    )
    for text in [*LINES, "ｔｈｅ  old\tbox ½", "the ж box", "☃☃ snow", ""]:
        expected = [tokens.index(p) + 4 if p in tokens else UNK for p in library.encode(text, out_type=str)]
        assert tokenizer.encode(text) == expected
        known = [tokens[i - 4] for i in expected if i != UNK]
        assert tokenizer.decode(expected) == library.decode_pieces(known).replace("▁", " ").strip()
    assert tokenizer.encode("the ж box").count(4) == 1
    assert tokenizer.unknown_characters("ｔｈｅ ж ☃\t") == {"☃"}  # normalized as in training
    says = ImportedTokenizer(
        "imported", serialize_tokenizer("t", "sentencepiece", encode_model(written.getvalue()), tokens, "<unk>")
    )
    box = tokens.index("▁box") + 4
    assert says.decode([box, UNK, box]) == "box<unk> box" and tokenizer.decode([box, UNK, box]) == "box box"
    assert tokenizer.encode_many(LINES, threads=3) == [tokenizer.encode(line) for line in LINES]


def test_saved_and_loaded_with_target_languages(tmp_path: Path) -> None:
    tokenizer = spaced().with_targets(["fra", "zho_Hans"])
    assert [path.name for path in tokenizer.save(tmp_path, "source")] == ["source.imported.json", "source.json"]
    again = load_tokenizer(tmp_path, "source")
    assert (again.kind, again.vocabulary_size, again.targets) == ("imported", 11, ("fra", "zho_Hans"))
    assert again.target_id("zho_Hans") == 10 and again.tokens([10, 6]) == ["<2zho_Hans>", "▁low"]
    assert again.to_ids(["<2fra>", "▁low"]) == [9, 6] and again.decode([9, 6]) == "low"
    assert again.widths[6] == 3 and again.widths[9] == 0
    with raises(TextError, "unknown_language", "'deu'"):
        again.target_id("deu")
    (tmp_path / "source.imported.json").write_bytes(tokenizer.model + b" ")
    with raises(TextError, "file_damaged", "SHA-256"):
        load_tokenizer(tmp_path, "source")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"cut": "scissors"}, ("unknown_choice", "cut='scissors'")),
        ({"cut": "sentencepiece", "model": "%"}, ("file_damaged", "64")),
        ({"cut": "sentencepiece", "model": "AAAA"}, ("not_a_tokenizer",)),
        ({"cut": "subword-nmt", "model": "a b c"}, ("not_a_tokenizer",)),
        ({"tokens": ["a", 3]}, ("not_a_tokenizer",)),
        ({"tokens": ["a", "a"]}, ("duplicate_token", "1")),
        ({"silent": ["x"]}, ("not_a_tokenizer",)),
        ({"unknown": 3}, ("not_a_tokenizer", "3")),
        (None, ("not_a_tokenizer",)),
    ],
)
def test_files_that_are_none(change: dict[str, object] | None, expected: tuple[str, ...]) -> None:
    about = json.loads(serialize_tokenizer("t", "spaces", "", TOKENS))
    with raises(TextError, *expected):
        ImportedTokenizer("imported", b"[]" if change is None else json.dumps({**about, **change}).encode())


def test_what_it_does_not_do() -> None:
    tokenizer, none = spaced(), np.array([4, 5])
    assert tokenizer.sample("low", 0.0, 3) == [6]
    assert tokenizer.resample(none, np.array([2]), 0.0, np.array([1], np.uint64))[0] is none
    for sample in (lambda: tokenizer.sample("low", 0.1, 3), lambda: tokenizer.check_alpha(0.2)):
        with raises(TextError, "unsupported_sampling", "data.sampling=0"):
            sample()
    for texts, expected in (("low", ("wrong_type",)), (["\ud800"], ("invalid_character",)), ([3], ("wrong_type",))):
        with raises(TextError, *expected):
            tokenizer.encode_many(texts)  # type: ignore[arg-type]
    with raises(TextError, "out_of_range", "threads=0"):
        tokenizer.encode_many([], threads=0)
    with raises(TextError, "unknown_id", "9", "0", "8"):
        tokenizer.decode([9])
    with raises(TextError, "unknown_token", "'nothing'"):
        tokenizer.to_ids(["▁nothing"])
    with raises(TextError, "unknown_choice", "'imported'"):
        learn("imported", LINES, 300)


def test_one_vocabulary_cut_in_two_ways() -> None:
    spaces, codes = (
        spaced(),
        ImportedTokenizer("imported", serialize_tokenizer("t", "subword-nmt", "a b\n", TOKENS, "<unk>")),
    )
    assert vocabulary_sizes(spaces, codes) == vocabulary_sizes(spaces, spaces) == 9
    assert vocabulary_sizes(spaces, spaced([*TOKENS, "more"])) == (9, 10)
    assert vocabulary_sizes(spaces, spaced(TOKENS[::-1])) == (9, 9)
