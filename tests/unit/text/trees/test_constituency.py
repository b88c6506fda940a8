"""Reading constituency trees from Penn Treebank brackets, against examples and a plain recursive reader."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from dragoman.errors import TextError
from dragoman.text.trees.constituency import Bracketing, Phrase, read_brackets
from nested_trees import TREES, Nested, leaves, spans, written
from raising import raises

JOHN = """
( (S
    (NP-SBJ-1 (NNP John) )
    (VP (VBZ has)
\t(NP=2 (DT a) (NN dog) )
      (SBAR (-NONE- 0) (S (NP-SBJ (-NONE- *-1) ))))
    (. .) ))
"""


def read(text: str) -> list[Bracketing]:
    return list(read_brackets(text.split("\n"), "wsj.mrg"))


def labels(tree: Bracketing) -> list[tuple[str, int, int]]:
    return [(phrase.label, phrase.first, phrase.end) for phrase in tree.phrases]


def test_a_tree_of_the_treebank() -> None:
    (tree,) = read(JOHN)
    assert tree.words == ("John", "has", "a", "dog", ".")
    assert tree.tags == ("NNP", "VBZ", "DT", "NN", ".")
    assert labels(tree) == [("S", 0, 5), ("NP", 0, 1), ("VP", 1, 4), ("NP", 2, 4)]
    assert tree.where == "wsj.mrg, line 2"
    assert tree.text() == "(S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .))"


@pytest.mark.parametrize("top", ["", "TOP", "ROOT", "S1"])
def test_a_top_that_says_nothing_goes(top: str) -> None:
    (tree,) = read(f"({top} (NP-TTL (NP (NN dog))))")
    assert labels(tree) == [("NP", 0, 1), ("NP", 0, 1)]


@pytest.mark.parametrize("top", ["", "TOP", "ROOT", "S1"])
@pytest.mark.parametrize("inside", ["(NP (NN dog)) (. .)", "(NN dog) (. .)", "(INTJ (UH dog)) (NP (NN .))"])
def test_a_top_that_holds_things_together_is_named(top: str, inside: str) -> None:
    (tree,) = read(f"({top} {inside})")
    assert labels(tree)[0] == ("TOP", 0, 2)
    assert len(tree.phrases) == 1 + inside.count("P (") + inside.count("J (")


def test_a_top_of_which_a_trace_leaves_one_phrase_goes() -> None:
    (tree,) = read("( (S (VB go)) (-NONE- *) )")
    assert labels(tree) == [("S", 0, 1)]


def test_a_lone_word_gets_a_top() -> None:
    assert labels(read("(UH yes)")[0]) == labels(read("( (UH yes) )")[0]) == [("TOP", 0, 1)]


def test_several_trees_on_a_line_and_some_without_a_word() -> None:
    trees = read("(S (VB go)) (NP (NN\ndog)) ( (S (-NONE- *)) )\n\n(S(VB run))")
    assert [tree.words for tree in trees] == [("go",), ("dog",), ("run",)]
    assert [tree.where for tree in trees] == [f"wsj.mrg, line {number}" for number in (1, 1, 4)]


def test_escapes_of_words_and_tags_that_look_like_functions() -> None:
    (tree,) = read(r"(PRN (-LRB- -LRB-) (CD 1\/2) (NN M\*A) (NN :-RRB-) (-RRB- -RRB-) (-LRB- -LCB-) (NN a-b=c))")
    assert tree.words == ("(", "1/2", "M*A", ":)", ")", "{", "a-b=c")
    assert tree.tags == ("-LRB-", "CD", "NN", "NN", "-RRB-", "-LRB-", "NN")
    assert tree.text() == ("(PRN (-LRB- -LRB-) (CD 1/2) (NN M*A) (NN :-RRB-) (-RRB- -RRB-) (-LRB- -LCB-) (NN a-b=c))")


def test_a_no_break_space_is_inside_its_word() -> None:
    assert read("(NP (CD 10\xa0000)\r\n\t(NN dogs))")[0].words == ("10\xa0000", "dogs")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(S (VB go))\n\nno tree", ("invalid_tree", "wsj.mrg", "3", "'no'")),
        ("(S (VB go)))", ("invalid_tree", "1", "')'")),
        ("\n(S (VP (VB go)\n", ("invalid_tree", "2")),
        ("(S\n(NP the (NN dog)))", ("invalid_tree", "2", "'the'")),
        ("(S (NP (NN dog) barks))", ("invalid_tree", "1", "'barks'")),
        ("(S (NN big dog))", ("invalid_tree", "1", "'dog'")),
        ("(S (VB go)\n (NP))", ("invalid_tree", "2")),
        ("()", ("invalid_tree", "1")),
        ("(S\n\n((VB go)))", ("invalid_tree", "3")),
    ],
)
def test_what_is_no_tree_is_refused(text: str, expected: tuple[str, ...]) -> None:
    with raises(TextError, *expected):
        read(text)


def test_trees_before_a_wrong_one_are_given() -> None:
    trees = read_brackets(["(S (VB go))", "oh"], "x")
    assert next(trees).words == ("go",)
    with pytest.raises(TextError):
        next(trees)


def test_words_and_tags_come_in_twos() -> None:
    for words, tags in (((), ()), (("a", "b"), ("X",))):
        with raises(TextError, "invalid_tree"):
            Bracketing(words, tags, (Phrase("S", 0, len(words)),))


@given(TREES)
@settings(max_examples=150, deadline=None)
def test_flat_trees_are_those_of_recursion(nested: Nested) -> None:
    (tree,) = read(written(nested))
    assert labels(tree) == spans(nested)
    assert [*zip(tree.tags, tree.words, strict=True)] == [tuple(leaf) for leaf in leaves(nested)]
    assert tree.text() == written(nested)


def test_a_tree_may_be_deeper_than_recursion_goes() -> None:
    deep = 5000
    (tree,) = read("(NP " * deep + "(NN dog)" + ")" * deep)
    assert tree.phrases == (Phrase("NP", 0, 1),) * deep
    assert read(tree.text()) == [tree]
