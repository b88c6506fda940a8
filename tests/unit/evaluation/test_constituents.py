"""The constituents that benchmarks/parsing.py derives from dependency trees, against examples by hand."""

from __future__ import annotations

import lzma
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from parsing import chain, constituents, sentences

from dragoman.text.trees.linearization import bracket_line

ROWS = [  # From the AP comes this story :
    *("1 From ADP IN 3", "2 the DET DT 3", "3 AP PROPN NNP 4", "4 comes VERB VBZ 0"),
    *("5-6 thisstory _ _ _", "5 this DET DT 6", "6 story NOUN NN 4", "6.1 told VERB VBN _", "7 : PUNCT : 4"),
]


def conllu(rows: list[str]) -> str:
    cells = [row.split() for row in rows]
    return (
        "".join(f"{n}\t{word}\t_\t{upos}\t{xpos}\t_\t{head}\t_\t_\t_\n" for n, word, upos, xpos, head in cells) + "\n"
    )


def test_a_phrase_for_each_head_with_dependents(tmp_path: Path) -> None:
    path = tmp_path / "dev.conllu.xz"
    path.write_bytes(lzma.compress(f"# text = From\n{conllu(ROWS)}{conllu(['1 Yes INTJ UH 0'])}".encode()))
    first, second = sentences(path, 7)
    assert first.text() == (
        "(VERBP (PROPNP (IN From) (DT the) (NNP AP)) (VBZ comes) (NOUNP (DT this) (NN story)) (: :))"
    )
    assert bracket_line(second) == "(INTJP XX )INTJP"
    assert [tree.words for tree in sentences(path, 6)] == [("Yes",)]


def test_a_phrase_with_a_gap_is_left_out() -> None:
    # 1 hangs on 3, 2 is the root, 3 hangs on 2 and 4 on 3: what hangs on 3 is 1, 3 and 4.
    assert [(p.label, p.first, p.end) for p in constituents([3, 0, 2, 3], ["A", "B", "C", "D"])] == [("BP", 0, 4)]
    # 1 on 2, 2 the root, 3 on 4, 4 on 2: nested and beside each other, the root's first.
    assert [(p.label, p.first, p.end) for p in constituents([2, 0, 4, 2], ["A", "B", "C", "D"])] == [
        ("BP", 0, 4),
        ("DP", 2, 4),
    ]
    # Each on the one after: phrases that begin together are the outer first.
    assert [(p.label, p.end) for p in constituents([2, 3, 0], ["A", "B", "C"])] == [("CP", 3), ("BP", 2)]


def test_a_chain(tmp_path: Path) -> None:
    path = tmp_path / "dev.conllu"
    path.write_text(conllu(ROWS), encoding="utf-8")
    (tree,) = sentences(path, 7)
    assert bracket_line(chain(tree, "X")) == "(X XX " * 5 + "(X XX XX" + " )X" * 6
