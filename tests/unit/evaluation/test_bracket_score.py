"""Labeled bracketing against counts by hand, EVALB's README, and a brute-force scorer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.evaluation.bracketing import BracketScore, score_brackets
from dragoman.text.trees.constituency import Bracketing, read_brackets
from dragoman.text.trees.linearization import parse_bracket_line
from nested_trees import LABELS, TREES, Nested, leaves, spans, without, written
from raising import raises

GOLD = "(S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .))"


def read(text: str) -> Bracketing:
    (tree,) = read_brackets([text], "gold.mrg")
    return tree


def scored(guess: str, gold: str) -> BracketScore:
    return score_brackets([(read(guess), read(gold))])


def test_by_hand() -> None:
    # Gold: S 0-4, NP 0-1, VP 1-4, NP 2-4. Written: S 0-4, NP 0-1, VP 1-2, NP 2-4 and ADJP 2-3: three of five.
    found = score_brackets(
        [
            (
                parse_bracket_line("(S (NP XX )NP (VP XX )VP (NP (ADJP XX )ADJP XX )NP XX )S", read(GOLD).words).tree,
                read(GOLD),
            )
        ]
    )
    assert found == BracketScore(correct=3, predicted=5, gold=4, exact=0, sentences=1)
    assert (found.precision, found.recall) == (3 / 5, 3 / 4)
    assert found.f1 == pytest.approx(2 * (3 / 5) * (3 / 4) / (3 / 5 + 3 / 4))
    assert scored(GOLD, GOLD) == BracketScore(4, 4, 4, 1, 1)


def test_counts_are_summed_over_sentences() -> None:
    flat = read("(S (NNP John) (VBZ has) (DT a) (NN dog) (. .))")
    found = score_brackets([(flat, read(GOLD)), (read(GOLD), read(GOLD))])
    assert (found.correct, found.predicted, found.gold, found.exact, found.sentences) == (5, 5, 8, 1, 2)
    assert (found.precision, found.recall, found.exact_share) == (1, 5 / 8, 1 / 2)


def test_where_punctuation_hangs_does_not_matter() -> None:
    gold = "(S (`` ``) (NP (NN a)) (, ,) (VP (VB b)) ('' '') (: --) (. .))"
    guess = "(S (NP (`` ``) (NN a) (, ,)) (VP (VB b) (PRN ('' '') (: --)) (. .)))"
    assert scored(guess, gold) == BracketScore(3, 3, 3, 1, 1)


def test_punctuation_is_what_the_right_tree_says() -> None:
    gold, guess = "(S (NP (NN a)) (. b))", "(S (NP (NN a) (NN b)))"
    assert scored(guess, gold).correct == 2
    assert scored(gold.replace("(. b)", "(NN b)"), guess).correct == 1  # b is a word here, so NP is another


def test_particles_are_adverbs_and_the_top_is_left_out() -> None:
    assert scored("(S (VB give) (ADVP (RP up)))", "(S (VB give) (PRT (RP up)))").f1 == 1
    assert scored("(TOP (VB give) (NN x))", "(TOP (VB give) (NN x))") == BracketScore(0, 0, 0, 1, 1)
    assert scored("(TOP (S (VB a)) (NN x))", "(S (S (VB a)) (NN x))") == BracketScore(1, 1, 2, 0, 1)


@pytest.mark.parametrize(("n", "m", "precision", "recall"), [(1, 3, 1 / 3, 1), (3, 2, 1, 2 / 3), (2, 2, 1, 1)])
def test_phrases_alike_as_evalb_has_them(n: int, m: int, precision: float, recall: float) -> None:
    gold, guess = (f"{'(NP ' * count}(DT the) (NN man){')' * count}" for count in (n, m))
    found = scored(guess, gold)
    assert (found.precision, found.recall) == (precision, recall)


def test_nothing_at_all() -> None:
    found = score_brackets([])
    assert (found.precision, found.recall, found.f1, found.exact_share) == (0, 0, 0, 0)


def test_other_words_are_refused() -> None:
    with raises(DataError, "tree_mismatch", "gold.mrg, line 1", "word 2, 'b' and 'c'"):
        scored("(S (X a) (X b))", "(S (X a) (X c))")
    with raises(DataError, "tree_mismatch", "word 2, '' and 'c'"):
        scored("(S (X a))", "(S (X a) (X c))")


def brute_force(guess: Nested, gold: Nested) -> tuple[int, int, int]:
    """Right, written and gold: each phrase that was written takes one of the right ones away."""
    marks = {",", ":", "``", "''", "."}
    found, expected = ([] if tree is None else spans(tree) for tree in (without(guess, marks), without(gold, marks)))
    found, expected = ([("ADVP" if p[0] == "PRT" else p[0], *p[1:]) for p in phrases] for phrases in (found, expected))
    left, right = [*expected], 0
    for phrase in found:
        if phrase in left:
            left.remove(phrase)
            right += 1
    return right, len(found), len(expected)


@given(TREES, st.data())
@settings(max_examples=150, deadline=None)
def test_against_brute_force(gold: Nested, data: st.DataObject) -> None:
    def grown(some: list[Nested], deep: int) -> Nested:
        """Another tree over the same leaves."""
        label = data.draw(st.sampled_from(LABELS))
        cut = data.draw(st.integers(0, len(some)))
        if deep == 0 or cut == 0:
            return [label, *some]
        return [label, grown(some[:cut], deep - 1), *some[cut:]]

    guess = grown(leaves(gold), 4)
    found = score_brackets([(read(written(guess)), read(written(gold)))])
    assert (found.correct, found.predicted, found.gold) == brute_force(guess, gold)
    assert found.exact == (found.correct == found.predicted == found.gold)
