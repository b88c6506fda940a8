"""Pictures: their formats, and the numbers drawn."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.errors import DragomanError, MissingExtraError
from dragoman.inspect.alignment import draw_alignment, format_pharaoh
from dragoman.inspect.attention.maps import SentenceAttention
from dragoman.inspect.attention.picture import draw_attention, draw_heads
from raising import raises

PNG, SVG = b"\x89PNG\r\n\x1a\n", b"<?xml"


@pytest.mark.parametrize(
    ("name", "begins", "options"),
    [
        ("all.png", PNG, {}),
        ("words.svg", SVG, {"words": True, "kind": "encoder"}),
        ("layer.png", PNG, {"layer": 2, "kind": "decoder"}),
        ("head.png", PNG, {"head": 3}),
        ("one.svg", SVG, {"layer": 1, "head": 2, "words": True}),
    ],
)
def test_heads_are_drawn(attention: SentenceAttention, tmp_path: Path, name: str, begins: bytes, options: dict) -> None:
    path = tmp_path / name
    assert draw_heads(attention, path, **options) == ""
    assert path.read_bytes().startswith(begins)


def test_the_same_picture_is_the_same_file(attention: SentenceAttention, tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        draw_heads(attention, tmp_path / name, layer=1, head=1)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_tensor_can_be_drawn_too(tmp_path: Path) -> None:
    draw_attention(torch.rand(2, 3), ["a", "b", "$c"], ["d", "e$"], tmp_path / "a.png", "title")
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_characters_that_no_font_has_are_told(tmp_path: Path) -> None:
    note = draw_attention(np.ones((1, 1)), ["\U0010fffd"], ["a"], tmp_path / "a.png")
    assert "drawn as boxes" in note


def test_other_forms_are_refused(attention: SentenceAttention, tmp_path: Path) -> None:
    with raises(DragomanError, "unsupported_format", "a.gif", ".png"):
        draw_heads(attention, tmp_path / "a.gif")


def test_without_matplotlib_the_error_has_the_pip_line(
    attention: SentenceAttention, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with raises(MissingExtraError, "missing_extra", "pip install 'dragoman[pictures]'"):
        draw_heads(attention, tmp_path / "a.png")


def test_a_picture_that_cannot_be_written_leaves_the_old_one(
    attention: SentenceAttention, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "a.svg").write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with raises(DragomanError, "cannot_write", "a.svg", "No space left on device"):
        draw_heads(attention, tmp_path / "a.svg", layer=1, head=1)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.svg", "old")]


def test_an_alignment_is_drawn_and_written(tmp_path: Path) -> None:
    draw_alignment(["the", "red", "house"], ["la", "casa", "roja"], [(0, 0), (1, 2), (2, 1)], tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)
    assert format_pharaoh([(0, 0), (1, 2), (2, 1)]) == "0-0 1-2 2-1"
    assert format_pharaoh([]) == ""


def test_a_long_sentence_is_not_hidden_under_lines(tmp_path: Path) -> None:
    from matplotlib.image import imread

    long = [str(i) for i in range(900)]
    draw_attention(np.eye(900), long, long, tmp_path / "long.png")
    assert imread(tmp_path / "long.png")[..., 0].min() < 0.3  # the dark diagonal can be seen
