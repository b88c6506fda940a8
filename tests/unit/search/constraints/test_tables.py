"""Constraint tables over real vocabularies, against the text of their tokens."""

from __future__ import annotations

import random

import pytest
import torch

from dragoman.errors import SearchError
from dragoman.search.constraints.beam import AvoidedMask, BeamAllocator
from dragoman.search.constraints.phrases import Constraints, count_occurrences
from dragoman.search.constraints.tables import AvoidedTables, ConstraintCompiler, ConstraintTables
from dragoman.search.constraints.token_bytes import BETWEEN, EDGE, NOTHING, OTHER, UNCLEAR, WORD, Spelling
from dragoman.text import Tokenizer
from dragoman.text.learn import learn
from dragoman.text.special_tokens import EOS
from dragoman.text.token_table import FIRST_LEARNED
from raising import raises
from tiny_model import LINES

PHRASES = ["the old", "box", "hall", "und", "alte Kasten", "学校", "我们去", "old, and", "n", "Good morning!", "seven"]


@pytest.fixture(scope="module", params=["bpe", "unigram", "wordpiece"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return learn(request.param, LINES * 4, 345)


@pytest.fixture(scope="module")
def compiler(tokenizer: Tokenizer) -> ConstraintCompiler:
    return ConstraintCompiler(Spelling(tokenizer))


def scribbled(tokenizer: Tokenizer, draw: random.Random) -> list[int]:
    """Phrases in all sorts of spellings, between tokens by chance."""
    ids: list[int] = []
    for _ in range(draw.randrange(1, 9)):
        if draw.random() < 0.6:
            alpha = 0.3 if tokenizer.kind != "unigram" else 0.1
            ids += tokenizer.sample(draw.choice(PHRASES), alpha, draw.randrange(1000))
        else:
            ids.append(draw.randrange(FIRST_LEARNED, tokenizer.vocabulary_size))
    return ids


def allocator(tables: ConstraintTables) -> BeamAllocator:
    found = BeamAllocator.from_tables([tables], torch.device("cpu"))
    assert found is not None
    return found


def test_whatever_the_spelling_what_was_met_is_what_the_text_has(
    tokenizer: Tokenizer, compiler: ConstraintCompiler
) -> None:
    draw, met_some = random.Random(4), 0
    for _ in range(150):
        constraints = Constraints.of(draw.sample(PHRASES, 3))
        required = constraints.required_phrases()
        ids = scribbled(tokenizer, draw)
        follow = allocator(compiler.compile(constraints))
        for token in [*ids, EOS]:
            follow.advance(torch.tensor([0]), torch.tensor([token]))
        expected = [count_occurrences(tokenizer.decode(ids), need.phrases) for need in required]
        assert follow.now.met[0].tolist() == expected, (required, tokenizer.tokens(ids))
        met_some += sum(expected)
    assert met_some > 50


def test_a_token_is_forbidden_where_the_text_would_have_the_phrase(
    tokenizer: Tokenizer, compiler: ConstraintCompiler
) -> None:
    draw, forbidden_some = random.Random(5), 0
    for _ in range(40):
        avoid = draw.sample(PHRASES, 3)
        ids: list[int] = []
        follow = AvoidedMask([compiler.compile(Constraints.of((), avoid))], torch.device("cpu"))
        for token in scribbled(tokenizer, draw):
            logits = torch.zeros(1, tokenizer.vocabulary_size)
            follow.forbid(logits)
            found = (logits[0] == -torch.inf).nonzero().squeeze(1).tolist()
            whole = [
                number
                for number in range(FIRST_LEARNED, tokenizer.vocabulary_size)
                if count_occurrences(tokenizer.decode([*ids, number]), avoid)
            ]
            assert [number for number in found if number >= FIRST_LEARNED] == whole, (avoid, tokenizer.tokens(ids))
            forbidden_some += len(whole)
            if token in found:
                continue
            ids.append(token)
            follow.advance(torch.tensor([token]))
    assert forbidden_some > 100


def test_by_its_own_tokens_a_phrase_gets_nearer_each_step(tokenizer: Tokenizer, compiler: ConstraintCompiler) -> None:
    """After a word and at the beginning; the tokens that are offered are those that the tokenizer would write."""
    for phrase in PHRASES:
        for before in ([], tokenizer.encode("im"), tokenizer.encode("来")):
            follow = allocator(compiler.compile(Constraints.of([phrase])))
            for token in before:
                follow.advance(torch.tensor([0]), torch.tensor([token]))
            here, far, shown = torch.tensor([0]), len(tokenizer.encode(phrase)), ""
            for token in tokenizer.encode(phrase):
                found = int(follow._far(follow.now, here))
                assert found <= far, phrase
                assert found == far or far == len(tokenizer.encode(phrase)) or shown == "▁", (phrase, shown)
                (shown,) = tokenizer.tokens([token])
                assert token in follow._forced(here)[0].tolist(), phrase
                follow.advance(here, torch.tensor([token]))
                far -= 1
            assert int(follow._far(follow.now, here)) == 0
            follow.advance(here, torch.tensor([EOS]))
            assert int(follow._missing(follow.now, here).sum()) == 0


def test_a_word_begins_without_a_space_after_what_opens(tokenizer: Tokenizer, compiler: ConstraintCompiler) -> None:
    spaced, bare = tokenizer.encode("box")[0], tokenizer.encode_marked("box")[0]
    for text, joined in (("the", False), ("!", False), ("(", True), ("学", True), ("校", None)):
        follow, here = allocator(compiler.compile(Constraints.of(["box"]))), torch.tensor([0])
        for token in tokenizer.encode(text):
            follow.advance(here, torch.tensor([token]))
        assert spaced in follow._forced(here)[0].tolist()
        if joined is not None:  # else it may be spelled in bytes, and nobody knows what they are
            assert (bare in follow._forced(here)[0].tolist()) == joined, text


def test_a_longer_word_is_not_the_avoided_one(tokenizer: Tokenizer) -> None:
    avoided = AvoidedTables(["box"], Spelling(tokenizer))
    names = tokenizer.tokens(range(tokenizer.vocabulary_size))
    forbidden = {names[i] for i in avoided.forbidden(0, OTHER)}
    assert "▁box" in forbidden or "▁box" not in names
    assert "▁boxes" not in forbidden
    assert not any(name.startswith("▁") and "box" not in name for name in forbidden)
    assert avoided.blocks(tokenizer.encode("the box"))
    assert not avoided.blocks(tokenizer.encode("the hall"))


def test_a_phrase_that_is_spelt_by_way_of_an_avoided_one_is_refused() -> None:
    tokenizer = learn("bpe", ["Haus Haus Haus Haus frau tür"] * 9, 300)
    assert tokenizer.tokens(tokenizer.encode("Hausfrau"))[0] == "▁Haus"
    compiler = ConstraintCompiler(Spelling(tokenizer))
    with raises(SearchError, "conflicting_constraints", "'Hausfrau'", "▁Haus", "('Haus')"):
        compiler.compile(Constraints.of(["Hausfrau"], ["Haus"]))
    assert compiler.compile(Constraints.of([["Hausfrau", "Tür"]], ["Haus"])).required is not None


def test_characters_that_no_token_has_are_spelt_in_bytes(compiler: ConstraintCompiler, tokenizer: Tokenizer) -> None:
    for phrase in ("Ωμέγα", "🙂", "髙島屋", "@", "x²"):
        follow, here = allocator(compiler.compile(Constraints.of([phrase]))), torch.tensor([0])
        for token in [*tokenizer.encode("the " + phrase + "!"), EOS]:
            follow.advance(here, torch.tensor([token]))
        assert int(follow.now.met[0, 0]) == 1, phrase


def test_edges_are_between_characters_that_make_no_word() -> None:
    assert BETWEEN[WORD, WORD] == NOTHING
    assert BETWEEN[WORD, OTHER] == BETWEEN[OTHER, WORD] == BETWEEN[OTHER, OTHER] == EDGE
    assert BETWEEN[WORD, 2] == BETWEEN[2, WORD] == BETWEEN[2, 2] == UNCLEAR


def test_tables_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = ConstraintCompiler(Spelling(learn("bpe", LINES * 4, 345)))
    first = Constraints.of(["box"], ["hall"])
    made = compiler.compile(first)
    assert compiler.compile(first) is made
    assert compiler.compile_avoided(("hall",)) is made.avoided
    monkeypatch.setattr("dragoman.search.constraints.tables.MAX_STATES", 2 * made.states)
    long = compiler.compile(Constraints.of(["box " * 40]))
    assert long.states > 2 * made.states
    assert compiler.compile(Constraints.of(["box " * 40])) is long  # alone it stays, however large
    assert compiler.compile(first) is not made
    assert len(compiler._compiled.entries) == 1
    monkeypatch.setattr("dragoman.search.constraints.tables.MAX_CACHED_TABLES", 3)
    for number in range(5):
        compiler.compile_avoided((str(number),))
    assert list(compiler._avoided.entries) == [("2",), ("3",), ("4",)]


def test_an_alternative_that_what_is_avoided_blocks_is_no_short_way(compiler: ConstraintCompiler) -> None:
    long = "old hall seven morning, and nine more boxes"
    both = Constraints.of([["boxqj", long]])
    wanted, alone = (compiler.compile(one).required for one in (both, Constraints.of([long])))
    assert wanted is not None and alone is not None and wanted.min_tokens < alone.min_tokens
    tokens, _ = compiler.spelling.spellings("boxqj")[0]
    begun = compiler.spelling.tokenizer.decode(tokens[:-1])  # on the way to the word, one would have to write this one
    assert begun
    blocked = compiler.compile(Constraints.of(both.require, [begun])).required
    assert blocked is not None and blocked.min_tokens == alone.min_tokens
