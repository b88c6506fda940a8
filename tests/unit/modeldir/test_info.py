"""`model.json` has vocabulary, languages and license; older models have their languages in the card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import DamagedError
from dragoman.modeldir.info import ModelInfo, read_info
from raising import raises


@pytest.mark.parametrize(
    "info",
    [
        ModelInfo(300),
        ModelInfo((300, 310), ("en",), ("de",), "CC-BY-4.0"),
        ModelInfo(7, ("en", "fr"), ("de", "zh-Hans")),
    ],
)
def test_what_was_written_is_read(tmp_path: Path, info: ModelInfo) -> None:
    (tmp_path / "model.json").write_text(info.to_json(), encoding="utf-8")
    (tmp_path / "card.md").write_text("# train.it to train.es\n", encoding="utf-8")  # has no say
    assert read_info(tmp_path) == info


def test_pairs_and_sizes() -> None:
    assert ModelInfo(300, ("en",), ("de",)).language_pair == ("en", "de")
    assert ModelInfo(300, ("en",), ("de", "fr")).language_pair is None
    assert ModelInfo(300, ("en",)).language_pair is None
    assert (ModelInfo(300).vocabulary_sizes, ModelInfo((3, 5)).vocabulary_sizes) == ((300, 300), (3, 5))


@pytest.mark.parametrize(
    ("heading", "sources", "targets"),
    [
        ("train.en to train.de.gz", ("en",), ("de",)),
        ("train.en, news.en, train.deu.xz to de, en", ("en", "de"), ("de", "en")),
        ("a.txt to de, fr", (), ("de", "fr")),
        ("averaged", (), ()),
    ],
)
def test_models_of_format_1_have_languages_in_the_card(
    tmp_path: Path, heading: str, sources: tuple[str, ...], targets: tuple[str, ...]
) -> None:
    (tmp_path / "model.json").write_text('{"vocabulary": [5, 7]}\n')
    assert read_info(tmp_path) == ModelInfo((5, 7))
    (tmp_path / "card.md").write_text(f"# {heading}\n\nMore.", encoding="utf-8")
    assert read_info(tmp_path) == ModelInfo((5, 7), sources, targets)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"vocabulary": "many"}, "file_damaged"),
        ({"vocabulary": [3, 0]}, "file_damaged"),
        ({"vocabulary": [3, 4, 5]}, "file_damaged"),
        ({"source_languages": "en"}, "file_damaged"),
        ({"target_languages": [3]}, "file_damaged"),
        ({"format": 3}, "unsupported_format"),
    ],
)
def test_damage_is_found(tmp_path: Path, change: dict[str, Any], code: str) -> None:
    (tmp_path / "model.json").write_text(json.dumps(json.loads(ModelInfo(300).to_json()) | change))
    with raises(DamagedError, code, "model.json", repr(next(iter(change.values())))):
        read_info(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{}", "3"])
def test_what_is_no_table_is_damaged(tmp_path: Path, content: str) -> None:
    with raises(DamagedError, "file_damaged", "model.json"):
        read_info(tmp_path)
    (tmp_path / "model.json").write_text(content)
    with raises(DamagedError, "file_damaged", "model.json"):
        read_info(tmp_path)
