"""Lines of plain text: placeholders are masked in the stream, and lines without any are sent as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.documents.lines import LineTranslator
from dragoman.documents.segment import Segment
from dragoman.documents.sentences import ModelTranslator
from dragoman.documents.translate import translate_segments
from dragoman.translation.overlap import Blocks
from dragoman.translation.result import Translation
from dragoman.translation.translator import Translator


class Upper:
    """A translator that writes each text in capitals, and records what it gets."""

    engines = SimpleNamespace(others=())
    recipe = SimpleNamespace(model=SimpleNamespace(attention="none"))
    source = SimpleNamespace(unknown_characters=lambda text: frozenset())

    def __init__(self) -> None:
        self.texts: list[str] = []

    def stream(self, texts: Iterable[str], **options: Any) -> Iterator[Translation]:
        assert isinstance(texts, Blocks)
        for block in texts.blocks:
            self.texts += block
            yield from (Translation(text.upper()) for text in block)


class RecordingTranslator(ModelTranslator):
    """A translator that records what the model reads."""

    def __init__(self, translator: Translator) -> None:
        super().__init__(translator)
        self.read: list[str] = []

    def stream(self, texts: Sequence[str], alignment: bool) -> Iterator[Translation]:
        self.read += texts
        return super().stream(texts, alignment)


def test_lines_are_masked_and_restored_in_order() -> None:
    model = Upper()
    lines = ["one: two", "see https://a.org/b?c=1, or {name}", "", "a@b.org", "%s of 5 %"]
    found = LineTranslator(model).stream([lines[:2], [], lines[2:]])  # type: ignore[arg-type]
    texts = [one.text for one in found]
    assert texts == ["ONE: TWO", "SEE https://a.org/b?c=1, OR {name}", "", "a@b.org", "%s OF 5 %"]
    assert model.texts == ["one: two", "see X1, or X2", "", "", "X1 of 5 %"]


def test_each_block_is_answered_before_the_next_is_read() -> None:
    read = []

    def blocks() -> Iterator[list[str]]:
        for line in ("one", "two {x}", "three"):
            read.append(line)
            yield [line]

    found = LineTranslator(Upper()).stream(blocks())  # type: ignore[arg-type]
    assert next(found).text == "ONE" and read == ["one"]
    assert next(found).text == "TWO {x}" and read == ["one", "two {x}"]


def test_lines_that_the_model_cannot_read_whole_are_in_their_places(directory: Path) -> None:
    lines = ["the old box", "the ♪ boxes", "{x} the hall", "☐ halls, and nobody", "", "the hall 9", "☃"]
    model = Translator.load(directory, device="cpu")
    found = [one.text for one in LineTranslator(model).stream([lines[:5], lines[5:]])]
    alone = [one.text for line in lines for one in LineTranslator(model).stream([[line]])]
    assert found == alone
    assert [number in text for number, text in zip("♪☐☃", [found[1], found[3], found[6]], strict=True)] == [True] * 3
    assert [found[i] for i in (0, 5)] == [model.translate(lines[i]).text for i in (0, 5)]
    assert "♪" not in model.translate(lines[1]).text


def test_lines_without_words_tabs_and_gaps_stay(directory: Path) -> None:
    model = Translator.load(directory, device="cpu")
    lines = ["***", "the hall\tthe old box", "", "* * *", "\tthe hall", "\u200b", "12", "    the hall    the old box"]
    found = [one.text for one in LineTranslator(model).stream([lines])]
    hall, box, number = (model.translate(text).text for text in ("the hall", "the old box", "12"))
    assert found == ["***", f"{hall}\t{box}", "", "* * *", f"\t{hall}", "\u200b", number, f"    {hall}    {box}"]


def test_lines_without_words_are_translated_if_they_are_terms(directory: Path) -> None:
    model = Translator.load(directory, device="cpu")
    (found,) = LineTranslator(model, terms={"&": "the hall"}).stream([["&"]])
    assert "hall" in found.text


def test_lines_in_capitals_are_read_in_lower_case(directory: Path) -> None:
    model = Translator.load(directory, device="cpu")
    lines = ["THE OLD BOXES", "the hall", "SEE {x} OF THE OLD HALL"]
    found = [one.text for one in LineTranslator(model).stream([lines])]
    assert found[:2] == [model.translate("The old boxes").text.upper(), model.translate("the hall").text]
    assert found[2].replace("{x}", "X") == found[2].upper().replace("{X}", "X")


@pytest.mark.parametrize("line", ["THE OLD BOXES. The hall.", "The hall. SEE {x} OF THE OLD HALL!", "A\tTHE OLD BOXES"])
def test_lines_with_a_sentence_in_capitals_are_translated_as_documents_are(directory: Path, line: str) -> None:
    model = Translator.load(directory, device="cpu")
    translator = RecordingTranslator(model)
    (result,) = translate_segments([Segment(line)], translator).results
    assert result.target is not None and any("he old" in text and text == text.capitalize() for text in translator.read)
    assert [one.text for one in LineTranslator(model).stream([[line]])] == [result.target.text]
