"""Phrases in texts, terminologies, and invalid constraints."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Constraints, Terms
from dragoman.errors import DataError, SearchError
from dragoman.search.constraints.phrases import count_occurrences, occurrences
from dragoman.search.constraints.request import RequestConstraints
from dragoman.search.constraints.tables import Automaton
from raising import raises


@pytest.mark.parametrize(
    ("text", "phrase", "times"),
    [
        ("New York", "York", 1),
        ("Yorkshire York, (York) York-er Yorks", "York", 3),
        ("New Yorker", "New York", 0),
        ("我们去学校。学校", "学校", 2),
        ("用Python写", "Python", 1),
        ("用Pythons写", "Python", 0),
        ("서울에서 서울로", "서울", 2),
        ("हिन्दी", "हिन", 0),  # a vowel sign goes on with the word
        ("a a a", "a a", 1),
        ("x2", "x", 0),
        ("m², m", "m", 1),
        ("Haus", "haus", 0),
        ("", "a", 0),
    ],
)
def test_whole_words_are_counted(text: str, phrase: str, times: int) -> None:
    assert count_occurrences(text, [phrase]) == times


def test_of_alternatives_as_many_as_fit_are_counted() -> None:
    assert count_occurrences("a b c d", ["a b", "b", "c d"]) == 2
    assert count_occurrences("a b c d", ["a b c d", "b", "d"]) == 2
    assert [*occurrences("a a a", "a a")] == [0, 2]


def test_each_demand_needs_a_place_of_its_own() -> None:
    constraints = Constraints.of(["New York", "York"])
    assert constraints.met_and_unmet("from New York to York") == (["New York", "York"], [])
    assert constraints.met_and_unmet("from New York") == (["New York"], ["York"])
    assert constraints.met_and_unmet("York and York") == (["York"], ["New York"])
    twice = Constraints.of(["Haus", "Haus", ["Auto", "Wagen"]])
    assert twice.met_and_unmet("Haus und Wagen") == (["Haus", "Auto | Wagen"], ["Haus"])
    assert twice.met_and_unmet("  Haus  und\tHaus Auto") == (["Haus", "Haus", "Auto | Wagen"], [])


@pytest.mark.parametrize(
    ("require", "avoid", "code", "mention"),
    [
        ([""], (), "empty_phrase", "require"),
        (["  \t"], (), "empty_phrase", "require"),
        ((), ["\u00ad"], "empty_phrase", "avoid"),
        (["a\nb"], (), "not_one_line", r"'a\nb'"),
        ([3], (), "wrong_type", "int 3"),
        ([["a"], []], (), "empty_phrase", "require"),
        ([[]], ["x"], "empty_phrase", "require"),
        ([[3]], (), "wrong_type", "int 3"),
        ({"a"}, (), "wrong_type", "set"),
        (["\ud800"], (), "invalid_character", "lone surrogate"),
        (["x" * 1001], (), "phrase_too_long", "1,001 characters; at most 1,000"),
        (["das Haus"], ["Haus"], "conflicting_constraints", "'das Haus'"),
        ([["Haus", "Haus am See"]], ["Haus"], "conflicting_constraints", "'Haus'"),
    ],
)
def test_invalid_constraints(require: object, avoid: object, code: str, mention: str) -> None:
    with raises(SearchError, code, mention):
        Constraints.of(require, avoid)


def test_an_alternative_that_is_avoided_is_none() -> None:
    assert Constraints.of([["Haus", "Heim"]], ["Haus"]).require == (("Heim",),)
    assert Constraints.of(["Hausfrau"], ["Haus"]).require == (("Hausfrau",),)
    assert Constraints.of("Haus", "Hof") == Constraints((("Haus",),), ("Hof",))
    assert not Constraints.of([], [])


def test_terms_are_whole_words_and_the_longest_goes_first() -> None:
    terms = Terms({"cat": "Katze", "cat food": ["Katzenfutter", "Futter"], "food": "Essen", "学校": "school"})
    assert len(terms) == 4
    assert terms.required_by("The cat, cat food and category") == [("Katze",), ("Katzenfutter", "Futter")]
    assert terms.required_by("Cat food") == [("Essen",)]
    assert terms.required_by("cat  food cat") == [("Katzenfutter", "Futter"), ("Katze",)]
    assert terms.required_by("我们去学校。") == [("school",)]
    assert terms.required_by("") == []
    loud = Terms([("Cat", "Katze"), ("STRASSE", "street")], ignore_case=True)
    assert loud.required_by("a CAT in the straße") == [("Katze",), ("street",)]
    assert Terms({"a b c": "1", "b c d e": "2"}).required_by("a b c d e") == [("2",)]


def test_a_terminology_is_read_from_lines() -> None:
    terms = Terms.from_lines(["cat\tKatze", "", "cat\tKater\tKatze", "the dog \t der  Hund\t\t "], "t.tsv")
    assert terms.targets == {"cat": ("Katze", "Kater"), "the dog": ("der Hund",)}
    assert terms.merge(Terms({"cat": "Mieze"})).targets["cat"] == ("Katze", "Kater", "Mieze")


@pytest.mark.parametrize(
    ("lines", "code", "mention"),
    [
        (["cat\tKatze", "dog Hund"], "wrong_columns", "t.tsv, line 2: no tab in 'dog Hund'"),
        (["\tKatze"], "empty_phrase", "t.tsv, line 1"),
        (["cat\t "], "empty_phrase", "t.tsv, line 1"),
        (["cat\t\t"], "empty_phrase", "t.tsv, line 1"),
        (["cat\t\tKatze"], "empty_phrase", "t.tsv, line 1"),
    ],
)
def test_invalid_lines_of_terms(lines: list[str], code: str, mention: str) -> None:
    with raises(DataError, code, mention):
        Terms.from_lines(lines, "t.tsv")


@pytest.mark.parametrize("wrong", ["cat", 3, [("cat",)], ["cat"], {"cat": 3}, {"cat": []}, {3: "x"}])
def test_what_is_no_terminology_is_refused(wrong: object) -> None:
    with pytest.raises(SearchError):
        Terms(wrong)  # type: ignore[arg-type]


def test_constraints_of_all_texts_of_each_and_by_terms_are_merged() -> None:
    constraints = RequestConstraints.parse((), ["Hof"], {"cat": "Katze"}, [None, Constraints.of(["Haus"], ["Tor"])])
    assert constraints is not None and constraints.requires_phrases
    assert constraints.for_parts(0, ["a cat", "a dog"]) == [
        Constraints((("Katze",),), ("Hof",)),
        Constraints((), ("Hof",)),
    ]
    assert constraints.for_parts(1, ["a cat"]) == [Constraints((("Haus",), ("Katze",)), ("Hof", "Tor"))]
    with raises(SearchError, "constraints_with_splitting", "'Haus'", "2 parts"):
        constraints.for_parts(1, ["a cat", "a dog"])
    by_hand = RequestConstraints.parse((), (), None, [Constraints(["Haus", ["a  b"]])])  # type: ignore[list-item, arg-type]
    assert by_hand is not None and by_hand.each == [Constraints((("Haus",), ("a b",)))]
    with raises(SearchError, "empty_phrase"):
        RequestConstraints.parse((), (), None, [Constraints(((),))])
    assert RequestConstraints.parse((), (), None, None) is None
    avoiding = RequestConstraints.parse((), "Hof", None, None)
    assert avoiding is not None and not avoiding.requires_phrases
    for wrong in ("x", Constraints(), [3], 3):
        with raises(SearchError, "wrong_type", "constraints"):
            RequestConstraints.parse((), (), None, wrong)


@settings(max_examples=50, deadline=None)
@given(
    patterns=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), min_size=1, max_size=5),
    text=st.lists(st.integers(0, 2), max_size=20),
)
def test_the_automaton_is_in_the_longest_end_that_begins_a_pattern(patterns: list[list[int]], text: list[int]) -> None:
    machine = Automaton(patterns)
    table = machine.transitions().table(3)
    beginnings = {tuple(p[:n]): machine.paths[k][n - 1] for k, p in enumerate(patterns) for n in range(1, len(p) + 1)}
    state = 0
    for i, symbol in enumerate(text, 1):
        before, state = state, machine.step(state, symbol)
        assert table[before, symbol] == state
        ends = [tuple(text[i - n : i]) for n in range(i, 0, -1)]
        expected = next((end for end in ends if end in beginnings), ())
        assert state == beginnings.get(expected, 0)
        assert machine.depth[state] == len(expected)
        shorter = next((end for end in ends if end in beginnings and len(end) < len(expected)), ())
        assert machine.shorter[state] == beginnings.get(shorter, 0)
