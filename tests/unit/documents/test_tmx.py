from __future__ import annotations

import random
from pathlib import Path

import pytest
from lxml import etree
from tests.raising import raises
from tests.word_by_word import WordByWord, backward

from dragoman.documents.detect import read_document
from dragoman.documents.formats.localization import tmx
from dragoman.documents.segment import ReadOptions, Target
from dragoman.documents.translate import translate_segments
from dragoman.errors import DocumentError

FIXTURES = Path(__file__).parents[2] / "fixtures" / "localization"
FILES = sorted(path.name for path in FIXTURES.glob("*.tmx"))
OPTIONS = ReadOptions("en", "de")


def translate(data: bytes, translator: WordByWord, options: ReadOptions = OPTIONS) -> bytes:
    document = tmx.read(data, "x.tmx", options)
    report = translate_segments(document.segments, translator)
    assert not report.kept
    return document.write([result.target for result in report.results])


@pytest.mark.parametrize("name", FILES)
def test_a_file_without_targets_is_the_same_bytes(name: str) -> None:
    data = (FIXTURES / name).read_bytes()
    document = read_document(data, name, options=OPTIONS)
    assert document.segments
    assert document.write([None] * len(document.segments)) == data


@pytest.mark.parametrize("name", FILES)
def test_every_unit_gets_the_language_and_nothing_else_changes(name: str) -> None:
    data = (FIXTURES / name).read_bytes()
    before, after = (etree.fromstring(one) for one in (data, translate(data, WordByWord(order=backward))))
    for unit in after.iter("tu"):
        languages = [
            (one.get("{http://www.w3.org/XML/1998/namespace}lang") or one.get("lang")).lower()[:2]
            for one in unit.iter("tuv")
        ]
        assert languages.count("de") == 1
    for variant in after.xpath("//tuv[@creationtool='dragoman']"):
        variant.getparent().remove(variant)
    for segment in [*before.xpath("//tu[@tuid='k7']//tuv[2]/seg"), *after.xpath("//tu[@tuid='k7']//tuv[2]/seg")]:
        segment.clear()  # it was empty
    plain = [[(one.tag, dict(one.attrib), (one.text or "").strip()) for one in root.iter()] for root in (before, after)]
    assert plain[0] == plain[1]


def test_new_variants_look_like_the_others() -> None:
    written = translate((FIXTURES / "omegat.tmx").read_bytes(), WordByWord()).decode()
    assert (
        '      </tuv>\n      <tuv xml:lang="de" creationtool="dragoman">\n        <seg>SIT '
        '<bpt i="0">&lt;b0&gt;</bpt>HERE<ept i="0">&lt;/b0&gt;</ept>, PLEASE.</seg>\n      </tuv>\n    </tu>'
    ) in written
    assert "<seg>THE <hi>RED</hi> BENCH &amp; THE TABLE<ph>%s</ph></seg>" in written
    document = tmx.read((FIXTURES / "omegat.tmx").read_bytes(), "x", OPTIONS)
    spans = document.segments[0].spans
    assert b'creationtool="dragoman"' not in document.write([Target("Hier", spans, approved=True), None])


def test_languages() -> None:
    omegat, europe = ((FIXTURES / name).read_bytes() for name in ("omegat.tmx", "europe.tmx"))
    assert tmx.read(omegat, "x", ReadOptions()).language == "de"  # the only other one
    with raises(DocumentError, "missing_language", "EN-GB, FR-FR, de-DE"):
        tmx.read(europe, "x", ReadOptions())
    assert tmx.read(europe, "x", ReadOptions("en", "de")).language == "de-DE"  # as the file writes it
    assert b'<tuv xml:lang="it" creationtool="dragoman"><seg>A SPADE</seg></tuv></tu>' in translate(
        europe, WordByWord(), ReadOptions("en", "it")
    )


def test_pairs() -> None:
    for name, expected in {
        "omegat.tmx": [("The bench is wet.", "Die Bank ist nass.", False)],
        "trados_utf16.tmx": [("Good morning, gardener.", "Guten Morgen, Gärtner.", False)],
    }.items():
        assert list(tmx.read_pairs((FIXTURES / name).read_bytes(), name, OPTIONS)) == expected


def test_damaged_files_give_an_error_or_a_document() -> None:
    generator = random.Random(3)
    whole = (FIXTURES / "omegat.tmx").read_text(encoding="utf-8")
    for _ in range(80):
        place = generator.randrange(len(whole))
        text = (
            whole[:place]
            + generator.choice(["<", "</tu>", "<seg>", "&", "", "<tu/>"])
            + whole[place + generator.randint(0, 40) :]
        )
        try:
            written = translate(text.encode(), WordByWord(order=backward), ReadOptions("en", "de"))
            etree.fromstring(written)
        except DocumentError as error:
            assert error.code in ("damaged_document", "missing_language", "unsupported_encoding")
