from __future__ import annotations

import gzip
from html import escape
from pathlib import Path

import pytest
from lxml import etree
from tests.raising import raises

from command_line import leave
from dragoman.data.corpora.corpus import Corpus
from dragoman.data.corpora.reader import read_pairs, read_pairs_with_languages
from dragoman.data.corpora.tmx import take_units
from dragoman.errors import DataError

FIXTURES = Path(__file__).parents[3] / "fixtures" / "localization"


def pairs(path: Path, source: str = "en", target: str = "de", size: int = 2) -> list[tuple[str, str]]:
    corpus = Corpus(path, form="tmx", source_key=source, target_key=target)
    return [pair for sources, targets in read_pairs(corpus, size) for pair in zip(sources, targets, strict=True)]


def test_units_with_both_languages_are_pairs(tmp_path: Path) -> None:
    assert pairs(FIXTURES / "omegat.tmx") == [("The bench is wet.", "Die Bank ist nass.")]
    assert pairs(FIXTURES / "europe.tmx", "en", "fr") == [("a spade", "une bêche"), ("two rakes", "deux râteaux")]
    assert pairs(FIXTURES / "trados_utf16.tmx", "EN_us", "de") == [
        ("Good morning, gardener.", "Guten Morgen, Gärtner.")
    ]
    packed = tmp_path / "x.tmx.gz"
    packed.write_bytes(gzip.compress((FIXTURES / "europe.tmx").read_bytes()))
    assert pairs(packed, "de", "fr") == [("ein Spaten", "une bêche")]


def test_inline_codes_are_left_out(tmp_path: Path) -> None:
    unit = '<tu><tuv xml:lang="{}"><seg>a <bpt i="1">&lt;b></bpt>b <hi>c<ph>x</ph></hi><ept i="1"/> d</seg></tuv>'
    (tmp_path / "x.tmx").write_text(
        '<tmx version="1.4"><header/><body>' + unit.format("en") + unit.format("de")[4:] + "</tu></body></tmx>"
    )
    assert pairs(tmp_path / "x.tmx") == [("a b c d", "a b c d")]


def test_the_language_of_a_corpus(tmp_path: Path) -> None:
    corpus = Corpus(FIXTURES / "europe.tmx", form="tmx", source_key="en", target_key="fr", to="fr")
    ((_, _, languages),) = read_pairs_with_languages(corpus, 9)
    assert languages == ["fr", "fr"]


def test_errors(tmp_path: Path) -> None:
    with raises(DataError, "missing_key", "en and de"):
        Corpus(FIXTURES / "omegat.tmx", form="tmx")
    with raises(DataError, "no_data", "EN-GB, FR-FR, de-DE"):
        pairs(FIXTURES / "europe.tmx", "en", "it")
    whole = (FIXTURES / "omegat.tmx").read_bytes()
    (tmp_path / "x.tmx").write_bytes(whole[:-30])
    with raises(DataError, "wrong_file_format", "x.tmx"):
        pairs(tmp_path / "x.tmx")
    (tmp_path / "x.tmx").write_bytes(
        b'<!DOCTYPE tmx [<!ENTITY a "a"><!ENTITY b "&a;&a;">]>' + whole[whole.index(b"<tmx ") :]
    )
    assert pairs(tmp_path / "x.tmx")  # entities are not expanded


def test_units_are_removed_from_the_tree_as_they_are_read() -> None:
    unit = '<tu><tuv xml:lang="en"><seg>a {}</seg></tuv><tuv xml:lang="de"><seg>b</seg></tuv></tu>'
    parser = etree.XMLPullParser(["end"], tag=("{*}tu", "{*}header"))
    parser.feed("<tmx><header/><body>")
    for i in range(50):
        parser.feed(unit.format(i))
        assert list(take_units(parser, "en", "de", set())) == [(f"a {i}", "b")]
    parser.feed("</body></tmx>")
    _, body = parser.close()
    assert len(body) == 1  # of 50


def test_prepared_tmx_is_prepared_tsv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [(f"the {i} box is old & {i % 7}", f"die {i} kiste < {i % 7} alt") for i in range(300)]
    (tmp_path / "a.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in pairs))
    units = "".join(
        f'<tu><tuv lang="en-GB"><seg>{escape(one)}</seg></tuv><tuv lang="de"><seg>{escape(other)}</seg></tuv></tu>'
        for one, other in pairs
    )
    (tmp_path / "a.tmx").write_text(f'<tmx version="1.4"><header/><body>{units}</body></tmx>')
    for name, keys in (("tsv", []), ("tmx", ["--source-key", "en", "--target-key", "de"])):
        out = ["--out", str(tmp_path / f"from-{name}")]
        assert leave(capsys, "prepare", f"--{name}", str(tmp_path / f"a.{name}"), *keys, *out)[0] == 0
    ids = [sorted(path.name for path in (tmp_path / f"from-{name}").rglob("*.ids")) for name in ("tsv", "tmx")]
    assert ids[0] == ids[1] and ids[0]
    for name in ids[0]:
        one, other = (next((tmp_path / f"from-{form}").rglob(name)).read_bytes() for form in ("tsv", "tmx"))
        assert one == other
