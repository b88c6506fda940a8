"""Translating sentences with their trees, by a model that reads them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman import Translator
from dragoman.engines.ctranslate2_conversion import to_ctranslate2
from dragoman.engines.specs import cuda_unavailable
from dragoman.errors import DataError, DragomanError, SearchError, TextError
from dragoman.inspect.alignment import align_pairs
from dragoman.inspect.attention.maps import record_attention
from dragoman.inspect.positions.codes import model_views
from dragoman.models import AttentionMaps
from dragoman.search.types import Sampling, Search
from dragoman.text.special_tokens import BOS, EOS
from dragoman.text.trees.dependency import Tree, TreeAligner
from dragoman.text.trees.token_depths import ParsedIds, attach_depths, depths_of
from raising import raises
from small_model import model_at
from tiny_model import write_tiny_model

SHORT = {"max_length": 7}
BOX = ["the", "old", "box", "stands"]
FLAT, DEEP, LEFT = (Tree.of(BOX, heads) for heads in ([4, 4, 4, 0], [2, 3, 4, 0], [0, 1, 2, 3]))
TEXT = " ".join(BOX)
HALL = Tree.of(["in", "the", "hall"], [3, 3, 0])


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("syntax") / "tiny", "model.positions=syntax", noise=0.4)


@pytest.fixture(scope="module")
def translator(directory: Path) -> Translator:
    return Translator.load(directory, device="cpu")


def one(translator: Translator, text: str, tree: Tree, **settings: object) -> tuple[str, float]:
    found = translator.translate(text, trees=tree, **{**SHORT, **settings})
    return found.text, round(found.log_probability, 4)


@pytest.mark.parametrize("search", [{"beam": 1}, {"beam": 3}, {"sampling": Sampling(seed=4)}])
def test_the_tree_decides_and_company_does_not(translator: Translator, search: dict[str, object]) -> None:
    alone = [one(translator, TEXT, tree, **search) for tree in (FLAT, DEEP, LEFT)]
    assert len({probability for _, probability in alone}) == 3
    texts = [TEXT, "in the hall", TEXT, "  ", TEXT, TEXT]
    trees = [FLAT, HALL, DEEP, LEFT, FLAT]  # none for the empty text
    together = translator.translate(texts, trees=trees, **SHORT, **search)
    found = [(each.text, round(each.log_probability, 4)) for each in together]
    assert [found[0], found[2], found[4], found[5]] == [*alone, alone[0]]
    assert found[1] == one(translator, "in the hall", HALL, **search)
    assert found[3] == ("", 0.0)


def test_the_engine_is_handed_the_depths_of_the_tokens(translator: Translator) -> None:
    (ids,) = translator.encoded([TEXT], [DEEP])
    assert isinstance(ids, ParsedIds) and list(ids) == translator.source.encode(TEXT)
    tokens = translator.source.tokens(ids)
    depth, expected = {"the": 3, "old": 2, "box": 1, "stands": 0}, []
    word = -1
    for token in tokens:
        word += token.startswith("▁")
        expected.append(depth[BOX[word]])
    assert list(ids.depths) == expected
    short = ParsedIds(ids[:2], [0, 0])
    rows, layout = translator.engines.torch.sources([ids, short, ParsedIds(ids[:3], [5, 6, 7])])
    assert rows[1].tolist() == [*ids[:2], EOS, *[0] * (len(ids) - 2)]
    assert layout.depths is not None
    assert layout.depths[0].tolist() == [*expected, 0]
    assert layout.depths[1].tolist() == [0] * (len(ids) + 1)
    assert layout.depths[2].tolist() == [5, 6, 7, *[0] * (len(ids) - 2)]
    with raises(SearchError, "count_mismatch", "1 of 2 sentences"):
        translator.engines.torch.sources([ids, ids[:2]])  # a part of it, which has none


def test_greedy_search_is_teacher_forcing_with_the_same_depths(translator: Translator) -> None:
    model = translator.engines.torch.model
    for tree in (FLAT, LEFT):
        rows, layout = translator.engines.torch.sources(translator.encoded([TEXT], [tree]))
        found = translator.translate(TEXT, trees=tree, beam=1, **SHORT)
        written = translator.target.to_ids(found.tokens)
        with torch.inference_mode():
            logits = model(rows, torch.tensor([[1, *written]]), layout)
            logits[..., [0, 1]] = -torch.inf  # neither padding nor the BOS token
        assert logits[0, : len(written)].argmax(-1).tolist() == written


def looked_at(translator: Translator, tokens: Sequence[str], tree: Tree) -> Any:
    """What the last decoder layer but one looks at, the mean of its heads, when it reads the text in this tree."""
    maps, (rows, layout) = AttentionMaps(), translator.engines.torch.sources(translator.encoded([TEXT], [tree]))
    with torch.inference_mode():
        written = torch.tensor([[BOS, *translator.target.to_ids(tokens)]])
        translator.engines.torch.model.hidden(rows, written, layout, maps=maps)  # type: ignore[union-attr]
    return maps.cross[max(0, len(maps.cross) - 2)][0].mean(0)[:-1, :-1].numpy()


def test_scores_alignments_and_attention_are_of_the_tree_too(translator: Translator) -> None:
    pairs = [(TEXT, "der Kasten"), (TEXT, "der Kasten")]
    flat, deep = translator.score(pairs, trees=[FLAT, DEEP])
    assert flat.log_probability != deep.log_probability
    (again,) = translator.score(pairs[:1], trees=DEEP)
    assert again.log_probability == pytest.approx(deep.log_probability, abs=1e-4)
    found = translator.translate(
        [TEXT, TEXT], trees=[FLAT, DEEP], attention=True, alignment=True, min_length=3, **SHORT
    )
    assert all(each.attention is not None and each.alignment is not None for each in found)
    for each, tree, other in zip(found, (FLAT, DEEP), (DEEP, FLAT), strict=True):
        assert abs(each.attention - looked_at(translator, each.tokens, tree)).max() < 1e-5
        assert abs(each.attention - looked_at(translator, each.tokens, other)).max() > 1e-4
    maps = [record_attention(translator, TEXT, "der Kasten", tree).maps for tree in (FLAT, DEEP)]
    assert abs(maps[0]["encoder"] - maps[1]["encoder"]).max() > 1e-3
    own = translator.translate(TEXT, trees=LEFT)
    assert own.tokens
    for trees in (LEFT, [LEFT], iter([LEFT])):  # the last as `trees_of` gives them
        assert record_attention(translator, TEXT, trees=trees).target_output.tokens[:-1] == own.tokens
    links = align_pairs(translator, [TEXT, "", "in the hall"], ["der Kasten", "", "im Flur"], [FLAT, HALL])
    assert len(links) == 3 and links[1] == []


def test_long_lines_are_cut_and_keep_their_places(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    words = BOX * 20
    tree = Tree.of(words, range(len(words)))
    handed: list[ParsedIds] = []
    engine = translator.engines.torch
    search = engine.search

    def watched(sources: list[ParsedIds], *rest: object) -> object:
        handed.extend(sources)
        return search(sources, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "search", watched)
    found = translator.translate(" ".join(words), trees=tree, beam=1, **SHORT)
    assert found.split and len(handed) > 2
    (whole,) = translator.encoded([" ".join(words)], tree)
    parts = sorted(handed, key=lambda part: part.depths)
    assert [i for part in parts for i in part] == list(whole)
    assert [d for part in parts for d in part.depths] == list(depths_of(whole))
    with raises(SearchError, "trees_with_splitting"):
        translator.translate(TEXT, trees=FLAT, split="sentences")


def test_trees_are_asked_for(translator: Translator, directory: Path, tmp_path: Path) -> None:
    for ask in (
        lambda: translator.translate(TEXT),
        lambda: translator.translate([TEXT]),
        lambda: translator.score([(TEXT, "x")]),
        lambda: record_attention(translator, TEXT),
        lambda: align_pairs(translator, [TEXT], ["x"]),
    ):
        with raises(SearchError, "missing_trees"):
            ask()
    plain = Translator.load(write_tiny_model(tmp_path / "plain"), device="cpu")
    with raises(SearchError, "unsupported_trees", "model.positions='sinusoidal'"):
        plain.translate(TEXT, trees=FLAT)
    other = Translator.load(model_at(tmp_path / "other", architecture="recurrent"), device="cpu")
    with raises(SearchError, "unsupported_trees", "model.architecture='recurrent'"):
        other.translate(TEXT, trees=FLAT)


def test_wrong_trees_are_refused_after_all_before_them_are_answered(translator: Translator) -> None:
    found: Iterator[object] = translator.stream([TEXT, TEXT, "in the hall"], trees=[FLAT, HALL, HALL], **SHORT)
    next(found)
    with raises(TextError, "tree_mismatch", "line 2", "word 1, 'in'"):
        next(found)

    def unreadable() -> Iterator[Tree]:
        yield FLAT
        raise DataError("t.conllu, line 9, byte 3: not UTF-8")

    found = translator.stream([TEXT, TEXT], trees=unreadable(), **SHORT)
    next(found)
    with pytest.raises(DataError, match="line 9"):
        next(found)
    with pytest.raises(TextError, match="only 1 tree, and none for line 2"):
        translator.translate([TEXT, TEXT], trees=[FLAT], **SHORT)
    with raises(TextError, "count_mismatch"):
        translator.translate([TEXT], trees=[FLAT, DEEP], **SHORT)
    with raises(TextError, "count_mismatch"):
        translator.translate(TEXT, trees=[FLAT, DEEP], **SHORT)
    with raises(TextError, "count_mismatch"):
        translator.score([(TEXT, "x")], trees=[FLAT, FLAT])
    for nothing in ("the old box", 7, [7], ["the"]):
        with raises(TextError, "wrong_type"):
            translator.translate(TEXT, trees=nothing, **SHORT)  # type: ignore[call-overload]


def test_trees_may_outlast_a_call(translator: Translator) -> None:
    trees = TreeAligner(iter([FLAT, HALL, DEEP]))
    first = translator.translate([TEXT, "", "in the hall"], trees=trees, **SHORT)
    second = translator.translate([TEXT], trees=trees, **SHORT)
    trees.check_finished()
    assert [one.text for one in (*first, *second)] == [
        each.text for each in translator.translate([TEXT, "", "in the hall", TEXT], trees=[FLAT, HALL, DEEP], **SHORT)
    ]


def test_prefixes_and_another_process(translator: Translator) -> None:
    texts = [TEXT, "in the hall"]
    found = translator.translate(texts, trees=[FLAT, HALL], prefix=["der alte", "im"], **SHORT)
    assert [each.text.startswith(prefix) for each, prefix in zip(found, ["der alte", "im"], strict=True)] == [
        True,
        True,
    ]
    with raises(TextError, "tree_mismatch", "line 2"):
        translator.translate(texts, trees=[FLAT, FLAT], prefix=["der alte", "im"], **SHORT)
    again = pickle.loads(pickle.dumps(translator))
    assert again.translate(TEXT, trees=DEEP, **SHORT).text == translator.translate(TEXT, trees=DEEP, **SHORT).text


def test_other_engines_do_not_know_it(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(DragomanError, match=r"model\.positions='syntax'|pip install"):
        to_ctranslate2(directory, tmp_path / "exported")
    translator = Translator.load(directory, device="cpu")
    assert translator.running.engine == "torch"
    assert cuda_unavailable(translator.recipe.model, "cuda")
    for engine in ("native", "ctranslate2"):
        with pytest.raises(SearchError, match=r"does not support model\.positions='syntax'|not installed"):
            Translator.load(directory, device="cpu", engine=engine).translate(TEXT, trees=FLAT)


def test_the_position_codes_are_the_order_and_the_depth(translator: Translator) -> None:
    order, depth = model_views(translator.engines.torch.model, 9)
    assert (order.row_name, depth.row_name) == ("position", "depth")
    assert order.values.shape == depth.values.shape == (9, 24)
    assert abs(order.values - depth.values).max() > 0.1


def test_tokens_in_another_tree_are_others() -> None:
    one, same, other = ParsedIds((3, 4), (0, 1)), ParsedIds([3, 4], [0, 1]), ParsedIds((3, 4), (1, 0))
    assert one == same and hash(one) == hash(same) and one != other and one != (3, 4)
    assert len({one, same, other}) == 2
    assert sorted([other, one, ParsedIds((3,), (9,))]) == [ParsedIds((3,), (9,)), one, other]
    assert [(tuple(part), part.depths) for part in ParsedIds((3, 4, 5), (2, 1, 0)).parts([1, 2])] == [
        ((3,), (2,)),
        ((4, 5), (1, 0)),
    ]


def test_a_search_is_the_same_however_it_is_asked_for(translator: Translator) -> None:
    tokenizer = translator.source
    deep = attach_depths(tokenizer.encode(TEXT), tokenizer, DEEP.byte_depths(TEXT))
    (best,) = translator.engines.torch.search([deep], Search(max_length=7))
    assert tokenizer.decode(best[0].ids) == translator.translate(TEXT, trees=DEEP, **SHORT).text
