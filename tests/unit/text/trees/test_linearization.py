"""Trees as lines and back: each kind of repair, and invariants for any line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.text.trees.constituency import Phrase, read_brackets
from dragoman.text.trees.linearization import REPAIRS, bracket_line, parse_bracket_line, split_words
from nested_trees import TREES, Nested, line, written

JOHN = "( (S (NP-SBJ (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .)) )"
SOUP = st.lists(st.sampled_from(["(S", "(NP", "(VP", ")S", ")NP", ")VP", "XX", "XX", "XX", "("]), max_size=25)


def test_the_example_of_vinyals() -> None:
    (tree,) = read_brackets([JOHN], "x")
    assert bracket_line(tree) == "(S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S"
    laid = parse_bracket_line(bracket_line(tree), tree.words, tree.tags)
    assert (laid.tree, laid.repairs) == (tree, {})
    assert bracket_line(tree, tags=True) == "(S (NP NNP )NP (VP VBZ (NP DT NN )NP )VP . )S"
    laid = parse_bracket_line(bracket_line(tree, tags=True), tree.words)
    assert (laid.tree, laid.repairs) == (tree, {})


def test_tags_that_were_written_are_kept_as_far_as_there_are_words() -> None:
    assert parse_bracket_line("(S PRP VBZ RB )S", ["it", "is"]).tree.tags == ("PRP", "VBZ")
    assert parse_bracket_line("(S PRP )S", ["it", "is"]).tree.tags == ("PRP", "XX")
    assert parse_bracket_line("(S PRP )S", ["it", "is"], ["A", "B"]).tree.tags == ("A", "B")


@given(TREES)
@settings(max_examples=150, deadline=None)
def test_a_line_is_that_of_recursion_and_leads_back(nested: Nested) -> None:
    (tree,) = read_brackets([written(nested)], "x")
    assert bracket_line(tree) == line(nested)
    laid = parse_bracket_line(line(nested), tree.words, tree.tags)
    assert (laid.tree, laid.repairs) == (tree, {})
    assert parse_bracket_line(bracket_line(tree, tags=True), tree.words) == laid


@pytest.mark.parametrize(
    ("text", "phrases", "mended"),
    [
        ("(S XX (VP XX )VP )S", [("S", 0, 2), ("VP", 1, 2)], {}),
        ("(S XX(VP XX)VP)S", [("S", 0, 2), ("VP", 1, 2)], {}),
        ("(S XX (VP XX ) )", [("S", 0, 2), ("VP", 1, 2)], {}),
        ("(S XX (VP XX", [("S", 0, 2), ("VP", 1, 2)], {"unclosed": 2}),
        ("(S XX (VP XX )S", [("S", 0, 2), ("VP", 1, 2)], {"unclosed": 1}),
        ("(S (NP (NP XX )S XX", [("TOP", 0, 2), ("S", 0, 1), ("NP", 0, 1), ("NP", 0, 1)], {"unclosed": 2, "roots": 1}),
        ("(S XX )NP XX )S )S )", [("S", 0, 2)], {"unopened": 3}),
        ("(S (NP )NP XX (PP (NP )NP )PP XX )S", [("S", 0, 2)], {"empty": 3}),
        ("(S XX (VP XX (NP XX XX )NP )VP XX )S", [("S", 0, 2), ("VP", 1, 2)], {"surplus": 3}),
        ("(S (NP XX )NP )S", [("S", 0, 2), ("NP", 0, 1)], {"missing": 1}),
        ("", [("TOP", 0, 2)], {"missing": 2}),
        ("(S )S", [("TOP", 0, 2)], {"empty": 1, "missing": 2}),
        ("XX XX", [("TOP", 0, 2)], {"roots": 1}),
        ("(NP XX )NP (VP XX )VP", [("TOP", 0, 2), ("NP", 0, 1), ("VP", 1, 2)], {"roots": 1}),
        ("(NP XX )NP (VP", [("NP", 0, 2)], {"unclosed": 1, "empty": 1, "missing": 1}),
        ("(S ( XX XX XX )S", [("S", 0, 2)], {"unlabeled": 1, "surplus": 1}),
    ],
)
def test_what_does_not_fit_is_mended(text: str, phrases: list[tuple[str, int, int]], mended: dict[str, int]) -> None:
    laid = parse_bracket_line(text, ["John", "sleeps"])
    assert laid.tree.phrases == tuple(Phrase(*phrase) for phrase in phrases)
    assert laid.tree.words == ("John", "sleeps")
    assert laid.tree.tags == ("XX", "XX")
    assert laid.repairs == mended


def test_left_over_words_are_under_the_outermost_phrase() -> None:
    laid = parse_bracket_line("(S (NP XX )NP (VP XX )VP )S", ["it", "is", "so", "."], ["PRP", "VBZ", "RB", "."])
    assert laid.tree.text() == "(S (NP (PRP it)) (VP (VBZ is)) (RB so) (. .))"
    assert laid.repairs == {"missing": 2}


@given(SOUP, st.integers(1, 6))
@settings(max_examples=300, deadline=None)
def test_whatever_is_written_gives_a_tree_of_just_these_words(symbols: list[str], words: int) -> None:
    text = " ".join(symbols)
    laid = parse_bracket_line(
        text, [f"w{number}" for number in range(words)]
    )  # Bracketing itself refuses what is no tree
    assert laid.tree.words == tuple(f"w{number}" for number in range(words))
    assert (bracket_line(laid.tree) == text) is (not laid.repairs)
    assert set(laid.repairs) <= set(REPAIRS)
    assert all(laid.repairs.values())
    assert symbols.count("XX") + laid.repairs.get("missing", 0) - laid.repairs.get("surplus", 0) == words
    again = parse_bracket_line(bracket_line(laid.tree), laid.tree.words)
    assert (again.tree, again.repairs) == (laid.tree, {})


def test_a_line_may_be_deeper_than_recursion_goes() -> None:
    laid = parse_bracket_line("(NP " * 5000 + "XX", ["dog"])
    assert laid.repairs == {"unclosed": 5000}
    assert len(laid.tree.phrases) == 5000


def test_the_words_of_a_sentence() -> None:
    assert split_words(" 10\xa0000 dogs\t. ") == ["10\xa0000", "dogs", "."]
    assert split_words("") == []
