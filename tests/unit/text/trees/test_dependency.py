"""Dependency trees: reading CoNLL-U, depths of words, and the word of each token."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import TextError
from dragoman.text import Tokenizer, normalize
from dragoman.text.trees.dependency import MAX_DEPTH, Tree, TreeAligner, depths_of_tokens, read_trees, tree_depths
from raising import raises

GERMAN = """# newdoc id = d1
# sent_id = 1
# text = Er ging zum Haus, nicht?
1\tEr\ter\tPRON\t_\t_\t2\tnsubj\t_\t_
2\tging\tgehen\tVERB\t_\t_\t0\troot\t_\t_
3-4\tzum\t_\t_\t_\t_\t_\t_\t_\t_
3\tzu\tzu\tADP\t_\t_\t5\tcase\t_\t_
4\tdem\tder\tDET\t_\t_\t5\tdet\t_\t_
5\tHaus\tHaus\tNOUN\t_\t_\t2\tobl\t_\tSpaceAfter=No
5.1\tging\tgehen\tVERB\t_\t_\t_\t_\t2:conj\t_
6\t,\t,\tPUNCT\t_\t_\t7\tpunct\t_\t_
7\tnicht\tnicht\tPART\t_\t_\t5\tadvmod\t_\tSpaceAfter=No
8\t?\t?\tPUNCT\t_\t_\t2\tpunct\t_\t_

# text = Ja
1\tJa\tja\tINTJ\t_\t_\t0\troot\t_\t_"""


def row(number: object, form: str, head: object) -> str:
    return f"{number}\t{form}\t_\t_\t_\t_\t{head}\t_\t_\t_"


def read(*rows: str) -> list[Tree]:
    return list(read_trees(rows, "a.conllu"))


def refused(*rows: str) -> str:
    with pytest.raises(TextError) as error:
        read(*rows)
    return str(error.value)


def test_comments_multiword_tokens_and_empty_nodes() -> None:
    first, second = read(*GERMAN.split("\n"))
    assert first.words == ("Er", "ging", "zum", "Haus", ",", "nicht", "?")
    assert first.depths == (1, 0, 2, 1, 3, 2, 1)
    assert first.where == "a.conllu, line 4"
    assert (second.words, second.depths, second.where) == (("Ja",), (0,), "a.conllu, line 16")


def test_a_multiword_token_stands_where_the_highest_of_its_words_does() -> None:
    rows = [row("1-3", "dámelo", "_"), row(1, "da", 0), row(2, "me", 1), row(3, "lo", 1), row(4, ".", 2)]
    (tree,) = read(*rows)
    assert (tree.words, tree.depths) == (("dámelo", "."), (0, 2))


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_lines_may_keep_their_ends_and_blank_lines_may_be_many(ends: str) -> None:
    lines = ("\n\n\n" + GERMAN.replace("\n\n", "\n \n\n# alone\n\n") + "\n\n\n").split("\n")
    found = read(*(line + ends for line in lines))
    assert [tree.depths for tree in found] == [tree.depths for tree in read(*GERMAN.split("\n"))]


def test_a_word_may_be_a_hash_or_hold_spaces() -> None:
    (tree,) = read(row(1, "#", 2), row(2, "1 000", 0))
    assert tree.words == ("#", "1 000")
    assert tree.byte_depths("# 1 000") == bytes([1, 0, 0, 0, 0, 0, 0])


def test_two_roots_are_allowed() -> None:
    assert read(row(1, "Ja", 0), row(2, ".", 1), row(3, "Nein", 0), row(4, ".", 3))[0].depths == (0, 1, 0, 1)


def test_what_is_no_tree_is_refused_with_its_line() -> None:
    ok = row(1, "a", 0)
    assert refused("# c", "1 a 0").startswith("a.conllu, line 2: 1 column, but CoNLL-U has 10")
    assert refused(ok, row("x", "b", 1)).startswith("a.conllu, line 2: 'x' is not a word number")
    assert refused(ok, "", ok, row(3, "b", 1)).startswith("a.conllu, line 4: 3 where word 2 was expected")
    assert refused(ok, row(1, "b", 0)).startswith("a.conllu, line 2: 1 where word 2 was expected")
    assert refused(row("2-1", "b", "_")).startswith("a.conllu, line 1: 2-1 where word 1 was expected")
    assert refused(row("1-2", "ab", "_"), ok, row("2-3", "bc", "_")).startswith("a.conllu, line 3: 2-3 where word 2")
    assert refused(ok, row(2, "b", "_")).startswith("a.conllu, line 2: word 2 has head '_'; expected a number, 0 for")
    assert refused(ok, row("9" * 5000, "b", 1)).startswith("a.conllu, line 2: '999")
    assert refused(ok, row(f"2-{'9' * 5000}", "b", 1)).startswith("a.conllu, line 2: '2-999")
    assert refused(ok, row(2, "b", "9" * 5000)).startswith("a.conllu, line 2: word 2 has head '999")
    assert refused(ok, row(2, "b", -1)).startswith("a.conllu, line 2: word 2 has head '-1'")
    assert refused(ok, row(2, "b", 3)).startswith("a.conllu, line 2: word 2 has head 3; heads are words of the sente")
    assert refused(ok, row("2-3", "bc", "_"), row(2, "b", 1)).startswith(
        "a.conllu, line 2: the token 2-3 ends after the last word"
    )


def test_circles_and_no_root() -> None:
    assert refused(row(1, "a", 0), row(2, "b", 3), row(3, "c", 4), row(4, "d", 2)).startswith(
        "a.conllu, line 2: heads form a cycle, 2 -> 3 -> 4 -> 2"
    )
    assert refused("", row(1, "a", 2), row(2, "b", 2)).startswith(
        "a.conllu, line 3: no word has head 0, and heads form a cycle, 2 -> 2"
    )


def test_a_tree_from_words_and_heads() -> None:
    assert Tree.of(["we", "sleep"], [2, 0]) == Tree(("we", "sleep"), (1, 0))
    assert Tree.of(["we", "sleep"], np.array([2, 0])).depths == (1, 0)  # as parsers give them
    assert Tree.of(iter(["we", "sleep"]), iter([2, 0])) == Tree(["we", "sleep"], np.array([1, 0]))  # type: ignore[arg-type]
    assert len({Tree(["we"], [0]), Tree(("we",), (0,))}) == 1  # type: ignore[arg-type]
    for words, heads in (("we", [0, 1]), (["we"], [0, 1]), (None, [0]), (["we"], None), (["we"], 0)):
        with raises(TextError, "invalid_tree"):
            Tree.of(words, heads)  # type: ignore[arg-type]
    for words, deep in (((3,), (0,)), (("we",), ()), (("we",), (-1,)), (("we",), ("0",)), ("we", (0, 1)), (None, None)):
        with raises(TextError, "invalid_tree", "0"):
            Tree(words, deep)  # type: ignore[arg-type]
    for heads in ([2, 3], [2, 0.0], [True, 0], [2, None]):
        with raises(TextError, "invalid_tree", "1", "2"):
            Tree.of(["we", "sleep"], heads)  # type: ignore[arg-type]


def random_heads(data: st.DataObject, n: int) -> list[int]:
    """Any forest: each word hangs on one that was placed before it, or is a root."""
    order = data.draw(st.permutations(range(1, n + 1)))
    heads = [0] * n
    for place in range(1, n):
        heads[order[place] - 1] = data.draw(st.sampled_from([0, *order[:place]]))
    return heads


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_depths_are_what_climbing_counts(data: st.DataObject) -> None:
    heads = random_heads(data, data.draw(st.integers(1, 12)))
    climbed = []
    for word in range(len(heads)):
        steps, at = 0, heads[word]
        while at:
            steps, at = steps + 1, heads[at - 1]
        climbed.append(steps)
    assert tree_depths(heads, ["here"] * len(heads)) == climbed


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=6))
def test_heads_are_a_tree_or_refused(heads: list[int]) -> None:
    """By brute force: whoever has not come to the root after as many steps as there are words never will."""
    inside = all(head <= len(heads) for head in heads)
    arrives = []
    for word in range(len(heads) if inside else 0):
        at = word + 1
        for _ in heads:
            at = heads[at - 1] if at else 0
        arrives.append(at == 0)
    if inside and all(arrives):
        assert len(tree_depths(heads, [""] * len(heads))) == len(heads)
    else:
        with raises(TextError, "invalid_tree"):
            tree_depths(heads, [""] * len(heads))


def test_a_chain_of_any_length_and_a_depth_is_a_byte() -> None:
    n = 5000  # no recursion
    assert tree_depths(range(n), [""] * n) == list(range(n))
    assert tree_depths([*range(2, n + 1), 0], [""] * n) == list(range(n - 1, -1, -1))
    tree = Tree.of(["x"] * 300, range(300))
    assert tree.byte_depths("x" * 300) == bytes([*range(256), *[MAX_DEPTH] * 44])


def test_spaces_belong_to_the_word_after_them() -> None:
    tree = Tree(("Grün", "is", "n't", "."), (7, 8, 9, 1))
    assert tree.byte_depths("Grün isn't.") == bytes([7] * 5 + [8] * 3 + [9] * 3 + [1])


def test_forms_are_normalized_as_the_text_is() -> None:
    tree = Tree(("u\u0308ber", "a\u00adb", "\u00ad"), (1, 2, 3))
    assert tree.byte_depths(normalize("u\u0308ber  a\u00adb")) == bytes([1] * 5 + [2] * 3)


def test_words_that_are_not_those_of_the_text() -> None:
    tree = Tree(("The", "old", "box"), (1, 1, 0), "t.conllu, line 9")
    for text, words in {
        "The new box": "this tree does not match line 4: it has word 2, 'old', where the text has 'new box'",
        "The old": "it has word 3, 'box', where the text has no more text",
        "The old box stands": "it has its end where the text has 'stands'",
        "The old boy": "it has word 3, 'box', where the text has 'boy'",
        "": "it has word 1, 'The', where the text has no more text",
    }.items():
        with pytest.raises(TextError) as error:
            tree.byte_depths(text, "line 4")
        assert str(error.value).startswith("t.conllu, line 9: ") and words in str(error.value), error.value


TEXTS = [
    "The old lighthouse keeper counted 365 ships.",
    "We wouldn't; she's a ☃ in 1987!",
    "Der alte Leuchtturmwärter öffnete.",
    "他们说 Python 的文档，很好。",
    "x",
]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_token_belongs_to_the_word_in_which_it_begins(tokenizers: dict[str, Tokenizer], data: st.DataObject) -> None:
    """By brute force, with each word a depth of its own: the tokens before one write where it begins."""
    text = data.draw(st.sampled_from(TEXTS))
    kind, alpha = data.draw(st.sampled_from(["bpe", "unigram", "wordpiece"])), data.draw(st.sampled_from([0.0, 0.5]))
    tokenizer = tokenizers[kind]
    bare = text.replace(" ", "")
    cuts = sorted(data.draw(st.sets(st.integers(1, len(bare)), max_size=5)) | {len(bare)})
    words = [bare[a:b] for a, b in zip([0, *cuts], cuts, strict=False)]
    tree = Tree(tuple(words), tuple(range(len(words))))
    ids = tokenizer.sample(text, alpha, seed=data.draw(st.integers(0, 9)))
    found = depths_of_tokens(ids, tokenizer.widths, tree.byte_depths(text))
    assert len(found) == len(ids)
    written = [tokenizer.table.token_bytes[number] for number in ids]  # type: ignore[attr-defined]
    for place, depth in enumerate(found):
        before = b"".join(written[:place]).replace(b" ", b"")
        letters = len(before.decode(errors="ignore"))  # bytes of a letter that is not whole count with that letter
        assert depth == next(number for number, cut in enumerate(cuts) if letters < cut)


def test_tokens_of_another_text_than_the_trees_are_refused(tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers["bpe"]
    laid = Tree(("the", "box"), (1, 0)).byte_depths("the box")
    for text in ("the boxes", "the b", ""):
        with raises(TextError, "tree_mismatch"):
            depths_of_tokens(tokenizer.encode(text), tokenizer.widths, laid)


def test_trees_are_taken_for_texts_that_are_not_empty() -> None:
    trees = TreeAligner([Tree(("a",), (0,)), Tree(("b", "c"), (0, 1))])
    assert [trees.byte_depths(text) for text in ("a", "", "bc")] == [b"\0", b"", b"\0\1"]
    trees.check_finished()
    with raises(TextError, "count_mismatch", "2", "4", "'d'"):
        trees.byte_depths("d")
    trees = TreeAligner([Tree(("a",), (0,)), Tree(("b",), (0,), "t.conllu, line 3")])
    trees.byte_depths("a")
    with raises(TextError, "count_mismatch", "t.conllu", "3"):
        trees.check_finished()
    for wrong in ("(a)", None):  # None is no tree of a text that has none, and not the end of them
        with raises(TextError, "wrong_type", "read_trees_file", repr(wrong)):
            TreeAligner([wrong, Tree(("a",), (0,))]).byte_depths("a")  # type: ignore[list-item]
        with raises(TextError, "count_mismatch"):
            TreeAligner([wrong]).check_finished()  # type: ignore[list-item]
