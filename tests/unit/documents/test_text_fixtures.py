"""Every page, Markdown and string fixture: the same bytes without a translation, and nothing lost with one."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from dragoman.documents.detect import read_document
from dragoman.documents.markup import scan
from dragoman.documents.segment import Document
from dragoman.documents.translate import translate_segments
from word_by_word import WordByWord, backward

FOLDER = Path(__file__).parents[2] / "fixtures" / "documents"
FIXTURES = sorted(
    str(path.relative_to(FOLDER))
    for name in ("web", "strings")
    for path in (FOLDER / name).iterdir()
    if path.suffix != ".sh"
)
HTML, MARKDOWN, JSON, YAML_FILES = ((".html", ".xhtml"), (".md",), (".json", ".arb"), (".yml", ".yaml"))


def read(name: str) -> tuple[bytes, Document]:
    data = (FOLDER / name).read_bytes()
    return data, read_document(data, name)


def translate(document: Document, translator: WordByWord) -> bytes:
    return document.write([result.target for result in translate_segments(document.segments, translator).results])


def decode(data: bytes, name: str) -> str:
    return data.decode("latin-1" if "latin1" in name else "utf-8-sig")


def letters(data: bytes, name: str) -> str:
    """The letters and digits of a file, without case and entities."""
    text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda escape: chr(int(escape[1], 16)), html.unescape(decode(data, name)))
    return "".join(one for one in text.casefold() if one.isalnum())


def folded(value: Any) -> Any:
    """A value without the case of its strings."""
    match value:
        case str():
            return value.casefold()
        case dict():
            return {key: folded(one) for key, one in value.items()}
        case list():
            return [folded(one) for one in value]
    return value


def test_there_are_enough_fixtures_of_each_format() -> None:
    counts = Counter(Path(name).suffix for name in FIXTURES)
    assert len(FIXTURES) >= 28 and counts[".html"] >= 8 and counts[".md"] >= 8
    assert all(sum(counts[one] for one in of) >= 3 for of in (JSON, YAML_FILES))


@pytest.mark.parametrize("name", FIXTURES)
def test_an_untranslated_file_is_the_same_bytes(name: str) -> None:
    data, document = read(name)
    assert document.segments
    assert document.write([None] * len(document.segments)) == data
    assert translate(document, WordByWord(word=str)) == data


@pytest.mark.parametrize("name", FIXTURES)
def test_translated_words_are_all_there(name: str) -> None:
    data, document = read(name)
    written = translate(document, WordByWord())
    assert written != data and letters(written, name) == letters(data, name)


@pytest.mark.parametrize("name", [name for name in FIXTURES if name.endswith(HTML)])
def test_tags_stay(name: str) -> None:
    data, document = read(name)

    def tags(content: bytes) -> Counter[tuple[str, str]]:
        return Counter((token.kind, token.name) for token in scan(decode(content, name)) if token.kind != "text")

    assert tags(translate(document, WordByWord(order=backward))) == tags(data)


@pytest.mark.parametrize("name", [name for name in FIXTURES if name.endswith((*JSON, *YAML_FILES))])
def test_strings_are_read_back(name: str) -> None:
    data, document = read(name)

    def load(content: bytes) -> Any:
        text = decode(content, name)
        return json.loads(text) if name.endswith(JSON) else YAML(typ="safe").load(StringIO(text))

    assert folded(load(translate(document, WordByWord()))) == folded(load(data))
