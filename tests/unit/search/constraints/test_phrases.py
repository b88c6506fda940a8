"""What is in a text and what is not, terminologies, and what cannot be demanded."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Demands, Terms
from dragoman.errors import DataError, SearchError
from dragoman.search.constraints.aho_corasick import Automaton
from dragoman.search.constraints.phrases import count, places
from dragoman.translation.constraints import Wishes


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
    assert count(text, [phrase]) == times


def test_of_alternatives_as_many_as_fit_are_counted() -> None:
    assert count("a b c d", ["a b", "b", "c d"]) == 2
    assert count("a b c d", ["a b c d", "b", "d"]) == 2
    assert [*places("a a a", "a a")] == [0, 2]


def test_each_demand_needs_a_place_of_its_own() -> None:
    demands = Demands.of(["New York", "York"])
    assert demands.told("from New York to York") == (["New York", "York"], [])
    assert demands.told("from New York") == (["New York"], ["York"])
    assert demands.told("York and York") == (["York"], ["New York"])
    twice = Demands.of(["Haus", "Haus", ["Auto", "Wagen"]])
    assert twice.told("Haus und Wagen") == (["Haus", "Auto | Wagen"], ["Haus"])
    assert twice.told("  Haus  und\tHaus Auto") == (["Haus", "Haus", "Auto | Wagen"], [])


@pytest.mark.parametrize(
    ("require", "avoid", "message"),
    [
        ([""], (), "a phrase to require is empty: ''"),
        (["  \t"], (), "is empty"),
        ((), ["\u00ad"], "a phrase to avoid is empty"),
        (["a\nb"], (), r"a phrase to require must be of one line; got 'a\\nb'"),
        ([3], (), "require must be a phrase, or a list of phrases; got int 3"),
        ([["a"], []], (), "a choice among what is required is empty"),
        ([[]], ["x"], "a choice among what is required is empty"),
        ([[3]], (), "a phrase to require must be a str; got int 3"),
        ({"a"}, (), "got set"),
        (["\ud800"], (), "a phrase to require cannot be written: .*lone surrogate"),
        (["x" * 1001], (), "1,001 characters"),
        (["das Haus"], ["Haus"], "'das Haus' is required, but 'Haus' is to be avoided"),
        ([["Haus", "Haus am See"]], ["Haus"], "'Haus' is required, but 'Haus' is to be avoided"),
    ],
)
def test_what_cannot_be_demanded_is_refused(require: object, avoid: object, message: str) -> None:
    with pytest.raises(SearchError, match=message):
        Demands.of(require, avoid)


def test_an_alternative_that_is_avoided_is_none() -> None:
    assert Demands.of([["Haus", "Heim"]], ["Haus"]).require == (("Heim",),)
    assert Demands.of(["Hausfrau"], ["Haus"]).require == (("Hausfrau",),)
    assert Demands.of("Haus", "Hof") == Demands((("Haus",),), ("Hof",))
    assert not Demands.of([], [])


def test_terms_are_whole_words_and_the_longest_goes_first() -> None:
    terms = Terms({"cat": "Katze", "cat food": ["Katzenfutter", "Futter"], "food": "Essen", "学校": "school"})
    assert len(terms) == 4
    assert terms.found("The cat, cat food and category") == [("Katze",), ("Katzenfutter", "Futter")]
    assert terms.found("Cat food") == [("Essen",)]
    assert terms.found("cat  food cat") == [("Katzenfutter", "Futter"), ("Katze",)]
    assert terms.found("我们去学校。") == [("school",)]
    assert terms.found("") == []
    loud = Terms([("Cat", "Katze"), ("STRASSE", "street")], ignore_case=True)
    assert loud.found("a CAT in the straße") == [("Katze",), ("street",)]
    assert Terms({"a b c": "1", "b c d e": "2"}).found("a b c d e") == [("2",)]


def test_a_terminology_is_read_from_lines() -> None:
    terms = Terms.of_lines(["cat\tKatze", "", "cat\tKater\tKatze", "the dog \t der  Hund\t\t "], "t.tsv")
    assert terms.targets == {"cat": ("Katze", "Kater"), "the dog": ("der Hund",)}
    assert terms.with_more(Terms({"cat": "Mieze"})).targets["cat"] == ("Katze", "Kater", "Mieze")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["cat\tKatze", "dog Hund"], "t.tsv, line 2: no tab in 'dog Hund'; expected a source phrase, a tab"),
        (["\tKatze"], "t.tsv, line 1: a phrase to find is empty"),
        (["cat\t "], "t.tsv, line 1: a phrase to require is empty"),
        (["cat\t\t"], "t.tsv, line 1: a phrase to require is empty"),
        (["cat\t\tKatze"], "t.tsv, line 1: a phrase to require is empty"),
    ],
)
def test_lines_that_are_no_terms_are_refused(lines: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Terms.of_lines(lines, "t.tsv")


@pytest.mark.parametrize("wrong", ["cat", 3, [("cat",)], ["cat"], {"cat": 3}, {"cat": []}, {3: "x"}])
def test_what_is_no_terminology_is_refused(wrong: object) -> None:
    with pytest.raises(SearchError):
        Terms(wrong)  # type: ignore[arg-type]


def test_wishes_of_all_of_each_and_by_terms_come_together() -> None:
    wishes = Wishes.of((), ["Hof"], {"cat": "Katze"}, [None, Demands.of(["Haus"], ["Tor"])])
    assert wishes is not None and wishes.required
    assert wishes.of_parts(0, ["a cat", "a dog"]) == [Demands((("Katze",),), ("Hof",)), Demands((), ("Hof",))]
    assert wishes.of_parts(1, ["a cat"]) == [Demands((("Haus",), ("Katze",)), ("Hof", "Tor"))]
    with pytest.raises(SearchError, match=r"'Haus' is required of a text that is translated in 2 parts"):
        wishes.of_parts(1, ["a cat", "a dog"])
    by_hand = Wishes.of((), (), None, [Demands(["Haus", ["a  b"]])])  # type: ignore[list-item, arg-type]
    assert by_hand is not None and by_hand.each == [Demands((("Haus",), ("a b",)))]
    with pytest.raises(SearchError, match="a choice among what is required is empty"):
        Wishes.of((), (), None, [Demands(((),))])
    assert Wishes.of((), (), None, None) is None
    avoiding = Wishes.of((), "Hof", None, None)
    assert avoiding is not None and not avoiding.required
    for wrong in ("x", Demands(), [3], 3):
        with pytest.raises(SearchError, match="demands"):
            Wishes.of((), (), None, wrong)


@settings(max_examples=50, deadline=None)
@given(
    patterns=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), min_size=1, max_size=5),
    text=st.lists(st.integers(0, 2), max_size=20),
)
def test_the_automaton_is_in_the_longest_end_that_begins_a_pattern(patterns: list[list[int]], text: list[int]) -> None:
    machine = Automaton(patterns, 3)
    beginnings = {tuple(p[:n]): machine.paths[k][n - 1] for k, p in enumerate(patterns) for n in range(1, len(p) + 1)}
    state = 0
    for i, symbol in enumerate(text, 1):
        state = int(machine.delta[state, symbol])
        ends = [tuple(text[i - n : i]) for n in range(i, 0, -1)]
        expected = next((end for end in ends if end in beginnings), ())
        assert state == beginnings.get(expected, 0)
        assert machine.depth[state] == len(expected)
        shorter = next((end for end in ends if end in beginnings and len(end) < len(expected)), ())
        assert machine.shorter[state] == beginnings.get(shorter, 0)
