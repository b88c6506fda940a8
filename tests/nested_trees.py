"""Constituency trees the plain way, as nested lists and by recursion: what the flat ones are compared with."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Nested = list[Any]  # [label, child, ...], or [tag, word]
LABELS = ["S", "NP", "VP", "PP", "ADVP", "PRT", "PRN"]
TAGS = ["DT", "NN", "VBZ", "IN", ",", ".", "``", ":", "PRP$"]
WORDS = ["the", "dog", "sees", "(", "]", "1/2", ".", "No.", "naïve", "10\xa0000"]

LEAVES = st.tuples(st.sampled_from(TAGS), st.sampled_from(WORDS)).map(list)


def phrases_of(children: st.SearchStrategy[Nested]) -> st.SearchStrategy[Nested]:
    return st.tuples(st.sampled_from(LABELS), st.lists(children, min_size=1, max_size=4)).map(lambda p: [p[0], *p[1]])


TREES = phrases_of(st.recursive(LEAVES, phrases_of, max_leaves=12))


def is_leaf(tree: Nested) -> bool:
    return isinstance(tree[1], str)


def leaves(tree: Nested) -> list[Nested]:
    return [tree] if is_leaf(tree) else [leaf for child in tree[1:] for leaf in leaves(child)]


def spans(tree: Nested, first: int = 0) -> list[tuple[str, int, int]]:
    """The phrases, outer first, with their words' numbers."""
    if is_leaf(tree):
        return []
    found, at = [(tree[0], first, first + len(leaves(tree)))], first
    for child in tree[1:]:
        found += spans(child, at)
        at += len(leaves(child))
    return found


def without(tree: Nested, tags: set[str]) -> Nested | None:
    """The tree without leaves of these tags, and without what is then empty."""
    if is_leaf(tree):
        return None if tree[0] in tags else tree
    kept = [child for child in (without(child, tags) for child in tree[1:]) if child is not None]
    return [tree[0], *kept] if kept else None


def written(tree: Nested) -> str:
    """In brackets."""
    if is_leaf(tree):
        word = tree[1].replace("(", "-LRB-").replace(")", "-RRB-").replace("[", "-LSB-").replace("]", "-RSB-")
        return f"({tree[0]} {word})"
    return f"({tree[0]} {' '.join(map(written, tree[1:]))})"


def line(tree: Nested) -> str:
    """As Vinyals et al. write it."""
    return "XX" if is_leaf(tree) else f"({tree[0]} {' '.join(map(line, tree[1:]))} ){tree[0]}"
