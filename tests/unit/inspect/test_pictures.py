"""Pictures: their formats, and the numbers drawn."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.config import ModelRecipe
from dragoman.errors import DragomanError, MissingExtraError, SearchError
from dragoman.inspect.alignment import draw_alignment, format_pharaoh
from dragoman.inspect.attention.maps import SentenceAttention
from dragoman.inspect.attention.picture import draw_attention, draw_heads
from dragoman.inspect.positions import draw_positions, position_codes, similarity, similarity_by_distance
from dragoman.models import Transformer
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
    path = tmp_path / "new" / name
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


def small(**changes: object) -> Transformer:
    sizes = {"d_model": 8, "n_heads": 2, "d_ff": 12, "encoder_layers": 1, "decoder_layers": 1, **changes}
    return Transformer(ModelRecipe(**sizes), 11).eval()  # type: ignore[arg-type]


def test_sinusoids_are_the_papers_and_depend_on_distance_alone(tmp_path: Path) -> None:
    codes = position_codes(small(), 13)
    assert list(codes) == ["source and target"]
    code = codes["source and target"]
    for pos in range(13):
        for i in range(4):
            angle = pos / 10000 ** (2 * i / 8)
            np.testing.assert_allclose(code[pos, 2 * i : 2 * i + 2], [np.sin(angle), np.cos(angle)], atol=1e-6)
    mean, least, greatest = similarity_by_distance(code)
    np.testing.assert_allclose(least, greatest, atol=1e-5)
    expected = [np.cos([k / 10000 ** (2 * i / 8) for i in range(4)]).mean() for k in range(13)]
    np.testing.assert_allclose(mean, expected, atol=1e-5)
    draw_positions(codes, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)


def test_learned_positions_are_drawn_for_each_side(tmp_path: Path) -> None:
    model = small(positions="learned", max_positions=9)
    codes = position_codes(model, 9)
    assert list(codes) == ["source", "target"]
    np.testing.assert_allclose(codes["target"], model.target_positions.table.detach().numpy(), atol=1e-6)
    assert np.diag(similarity(codes["source"])).mean() == pytest.approx(1)
    draw_positions(codes, tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_bytes().startswith(SVG)


@pytest.mark.gpu
def test_a_model_on_a_gpu_stays_there_when_its_positions_were_looked_at() -> None:
    model = small(positions="learned", max_positions=9).cuda()
    assert position_codes(model, 9)["source"].shape == (9, 8)
    assert model.source_positions.table.is_cuda


def test_no_positions_are_no_picture() -> None:
    with raises(SearchError, "no_positions", "model.positions='none'"):
        position_codes(small(positions="none"), 5)


def test_a_long_sentence_is_not_hidden_under_lines(tmp_path: Path) -> None:
    from matplotlib.image import imread

    long = [str(i) for i in range(900)]
    draw_attention(np.eye(900), long, long, tmp_path / "long.png")
    assert imread(tmp_path / "long.png")[..., 0].min() < 0.3  # the dark diagonal can be seen
