from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import DataRecipe
from dragoman.data.corpora.cleaning import (
    RULES,
    Cleaner,
    HashSet,
    check_chunk,
    count_letters,
    detect_scripts,
    expected_share,
    parse_script,
)
from dragoman.errors import DataError
from dragoman.text.normalization import normalize
from raising import raises

LATIN = frozenset({"LATIN"})
RECIPE = DataRecipe()


def dropped_by(pairs, recipe=RECIPE, scripts=(LATIN, LATIN), held_out=None):
    """For each pair the rule that dropped it, None where it stayed; a pair at a time, so that memory is needed."""
    cleaner, found = Cleaner(recipe, held_out), []
    for source, target in pairs:
        before = {rule: dropped.count for rule, dropped in cleaner.dropped_by.items()}
        kept = cleaner.filter(check_chunk([source], [target], recipe, scripts))
        after = [rule for rule, dropped in cleaner.dropped_by.items() if dropped.count > before[rule]]
        assert len(after) == (0 if kept[0] else 1)
        found.append(None if kept[0] else after[0])
    assert cleaner.n_read == len(pairs) and cleaner.n_dropped == sum(rule is not None for rule in found)
    return found, cleaner


TABLE = [
    (("Good morning.", "Guten Morgen."), None),
    (("", "Guten Tag."), "empty"),
    (("  \t ", "\u200a"), "empty"),
    (("x" * 2001, "y" * 2001), "length"),
    (("Yes.", "Ja, natürlich, das sehe ich auch so."), "ratio"),
    (("Yes.", "Jawohl, gewiss."), None),
    (("Berlin", "Berlin"), "copy"),
    (("caf\u00e9", "cafe\u0301"), "copy"),
    (("This is fine.", "Это не по-немецки."), "script"),
    (("2 + 2 = 4", "2 + 2 = 4."), None),
    (("Good morning.", "Guten  Morgen."), "duplicate"),
    (("Good morning.", "Schönen Morgen."), None),
]


def test_each_rule_drops_what_it_names_and_shows_it():
    found, cleaner = dropped_by([pair for pair, _ in TABLE])
    assert found == [rule for _, rule in TABLE]
    for rule, dropped in cleaner.dropped_by.items():
        meant = [(normalize(s), normalize(t)) for (s, t), broken in TABLE if broken == rule]
        assert dropped.count == len(meant)
        assert dropped.examples == meant[:3]
    assert set(cleaner.dropped_by) == set(RULES)


def test_rules_can_be_turned_off():
    recipe = replace(
        RECIPE, drop_copies=False, drop_duplicates=False, min_script=0.0, max_ratio=99.0, max_characters=5000
    )
    found, _ = dropped_by([pair for pair, rule in TABLE if rule != "empty"], recipe)
    assert set(found) == {None}


def test_pairs_of_the_validation_set_are_held_out():
    known = HashSet()
    known.add(check_chunk(["Good evening."], ["Guten Abend."], RECIPE, (LATIN, LATIN)).hashes)
    found, _ = dropped_by([("Good evening.", " Guten Abend. "), ("Good evening.", "Nabend.")], held_out=known)
    assert found == ["held out", None]


@settings(max_examples=80, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.sampled_from(["a", "b", "c d", "e"]), st.sampled_from(["x", "y z", "w"])), max_size=40),
    size=st.integers(1, 11),
)
def test_the_first_of_equals_stays_whatever_the_chunks(pairs, size):
    cleaner, kept = Cleaner(RECIPE), []
    for i in range(0, len(pairs), size):
        chunk = pairs[i : i + size]
        kept += cleaner.filter(
            check_chunk([s for s, _ in chunk], [t for _, t in chunk], RECIPE, (LATIN, LATIN))
        ).tolist()
    assert kept == [pair not in pairs[:i] for i, pair in enumerate(pairs)]


def test_a_pair_is_more_than_its_text():
    chunk = check_chunk(["a b", "a"], ["c", "b c"], RECIPE, (LATIN, LATIN))
    assert chunk.hashes[0] != chunk.hashes[1]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 50), max_size=20)))
def test_a_hash_set_is_a_set(runs):
    seen, reference = HashSet(), set()
    for run in runs:
        hashes = np.array(run, np.uint64)
        assert seen.contains(hashes).tolist() == [h in reference for h in run]
        seen.add(hashes)
        reference |= set(run)
    assert {int(h) for run in seen.runs for h in run} == reference
    assert all(len(a) >= 2 * len(b) for a, b in zip(seen.runs, seen.runs[1:], strict=False))


def test_empty_chunks_are_fine():
    chunk = check_chunk([], [], RECIPE, (LATIN, LATIN))
    assert len(Cleaner(RECIPE).filter(chunk)) == 0


@pytest.mark.parametrize(
    ("texts", "script"),
    [
        (["Good morning", "été"], {"LATIN"}),
        (["Доброе утро", "ok"], {"CYRILLIC"}),
        (["早上好。", "使用 asyncio 运行它"], {"CJK"}),
        (["おはようございます", "東京都"], {"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"}),
        (["좋은 아침"], {"HANGUL", "CJK"}),
        (["12:30", "", "!"], set()),
    ],
)
def test_the_script_of_most_letters_is_found(texts, script):
    assert detect_scripts(texts) == script


def test_shares_count_letters_alone():
    texts = ["abc", "абв", "ab 12 вг", "123!", "", "ab\U00020000я"]
    expected = []
    for text in texts:  # from the definition, letter by letter, in bytes
        letters = "".join(c for c in text if c.isalpha()).encode()
        latin = "".join(c for c in text if c in "abc").encode()
        expected.append(len(latin) / len(letters) if letters else 1.0)
    np.testing.assert_allclose(expected_share(texts, LATIN), expected)
    assert expected_share(texts, frozenset()).tolist() == [1.0] * len(texts)
    assert count_letters(["aя中", "中"]) == {"LATIN": 1, "CYRILLIC": 1, "CJK": 2}


def test_scripts_by_name():
    assert parse_script("latin") == LATIN and parse_script("Chinese") == {"CJK"}
    with raises(DataError, "unknown_choice", "'cyrillic'"):
        parse_script("cyrilic")
    with raises(DataError, "unknown_choice", "'auto'", "'off'"):
        parse_script("zzzzzzzz")
    with raises(DataError, "unknown_choice", "'klingon'"):  # a letter, and no script
        parse_script("klingon")
