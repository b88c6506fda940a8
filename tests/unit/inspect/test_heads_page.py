"""The page and the picture of a survey contain its results, and the page loads nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attention_pages import assert_offline, unpack_weights
from dragoman.inspect.attention.maps import record_attention
from dragoman.inspect.heads.page import example_attention, heads_page
from dragoman.inspect.heads.passes import PruningPoint
from dragoman.inspect.heads.picture import describe_importance, draw_survey, format_importance
from dragoman.inspect.heads.survey import HeadSurvey, survey_heads
from dragoman.translation.translator import Translator

SOURCES = ["", "one two", "three </script> four five six seven", "six $1 & five four three two"]
TARGETS = ["x", "eins zwei", "drei </script>", "sechs $1"]


@pytest.fixture(scope="module")
def found(translator: Translator) -> HeadSurvey:
    return survey_heads(translator, SOURCES, TARGETS)


@pytest.fixture(scope="module")
def text(found: HeadSurvey, translator: Translator) -> str:
    return heads_page(found, translator, SOURCES, TARGETS, title="heads of <b>")


def test_the_data_come_back(text: str, found: HeadSurvey, translator: Translator) -> None:
    assert text.count("</script>") == text.count("<script") == 2
    begun = text.index('id="data">') + len('id="data">')
    entry = json.loads(text[begun : text.index("</script>", begun)])
    assert entry["heads"] == json.loads(json.dumps(found.to_dict()["heads"]))
    assert entry["title"] == "heads of <b>" and entry["measure"] == describe_importance(found)
    assert [example["source"]["text"] for example in entry["examples"]] == SOURCES[2:]  # those of a usual length
    for example, source, target in zip(entry["examples"], SOURCES[2:], TARGETS[2:], strict=True):
        for kind, weights in record_attention(translator, source, target).maps.items():
            np.testing.assert_allclose(unpack_weights(example["kinds"][kind]), weights, atol=0.51 / 65535)
    assert not set(re.findall(r"/\*[A-Z]+\*/", text))


def test_there_is_no_reference_to_the_network(text: str) -> None:
    assert_offline(text)


def test_where_no_pair_has_a_usual_length_the_shortest_is_shown(translator: Translator) -> None:
    short = list(example_attention(translator, ["", "two", "one"], ["x", "zwei", "eins"], None, None))
    assert [looked.source_text for looked in short] == ["two"]
    long = "one two three four five six seven " * 100  # which the survey leaves out; its maps would take megabytes
    asked = ([long, "two", "one", "six " * 40, "one two three"], ["eins", " ", long, "sechs", "eins " * 70])
    assert [looked.source_text for looked in example_attention(translator, *asked, None, None)] == ["six " * 40]


def test_pictures_of_all_forms(found: HeadSurvey, tmp_path: Path) -> None:
    points = tuple(PruningPoint(n, 1.0 + n, 40.0 - n) for n in range(5))
    for name, drawn in {"a.png": found, "b.svg": replace(found, curve=points), "c.pdf": found}.items():
        assert draw_survey(drawn, tmp_path / name, "heads of $x$") == ""
        assert (tmp_path / name).stat().st_size > 5_000


def test_words_in_a_picture_do_not_overlap(found: HeadSurvey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest labels stay inside their cells, and below the figure."""
    labels = ["mixed; the previous token (28 %)", "punctuation and end (100 %)", "mixed; along the diagonal (49 %)"]
    heads = tuple(replace(head, label=labels[i % 3], ablation=-1.2345) for i, head in enumerate(found.heads))
    figures = []
    monkeypatch.setattr("dragoman.inspect.heads.picture.save_figure", lambda figure, _: figures.append(figure) or "")
    draw_survey(replace(found, heads=heads), tmp_path / "a.png")
    (figure,) = figures
    renderer = figure.canvas.get_renderer()
    blocks = [axis for axis in figure.axes if axis.texts]
    assert len(blocks) == 3
    for axis in blocks:
        boxes = [text.get_window_extent(renderer) for text in axis.texts]
        assert len(boxes) == 2 * len(axis.patches)
        for number, words, cell in zip(boxes[::2], boxes[1::2], axis.patches, strict=True):
            around = cell.get_window_extent(renderer)
            assert around.x0 < words.x0 and words.x1 < around.x1 and around.y0 < words.y0
            assert words.y1 < number.y0 and number.y1 < around.y1


def test_figures_have_as_many_places_as_say_something() -> None:
    assert [format_importance(n) for n in (0.1234, 0.00996, 0.0099, 0.00004, -0.0021)] == [
        "123",
        "10",
        "9.9",
        "0.0",
        "-2.1",
    ]
