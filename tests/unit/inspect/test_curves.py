"""Pictures of curves: their lines and axes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import DragomanError
from dragoman.evaluation.layer_costs import CostCurve
from dragoman.inspect.pictures import draw_curves
from raising import raises

PANELS = {
    "paths": [CostCurve("near", [2, 4, 8], [1, 2, 4], [1, 2, 4.5]), CostCurve("far", [2, 4, 8], [1, 1, 1], [1, 1, 1])],
    "times": [CostCurve("far", [2, 4, 8, 16], [0.1, 0.2, 0.3, 0.9])],
}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that were saved."""
    figures: list[Any] = []
    monkeypatch.setattr("dragoman.inspect.pictures.save_figure", lambda figure, _: figures.append(figure) or "")
    return figures


def test_points_are_measured_and_dashes_expected(drawn: list[Any]) -> None:
    draw_curves(PANELS, "x.png", "positions n", "a title")
    (figure,) = drawn
    paths, times = figure.axes
    assert [axis.get_title() for axis in (paths, times)] == ["paths", "times"]
    assert {axis.get_xscale() for axis in (paths, times)} == {"log"} == {axis.get_yscale() for axis in (paths, times)}
    styles = [(line.get_linestyle(), list(line.get_ydata())) for line in paths.get_lines()]
    assert styles == [("None", [1, 2, 4]), ("--", [1, 2, 4.5]), ("None", [1, 1, 1]), ("--", [1, 1, 1])]
    (line,) = times.get_lines()
    assert line.get_linestyle() == "-" and list(line.get_xdata()) == [2, 4, 8, 16]
    assert line.get_color() == paths.get_lines()[2].get_color() != paths.get_lines()[0].get_color()
    assert [text.get_text() for text in paths.get_legend().get_texts()] == ["near", "far"]


def test_a_picture_is_written_and_other_forms_refused(tmp_path: Path) -> None:
    assert draw_curves({"times": PANELS["times"]}, tmp_path / "one.svg", "n") == ""
    assert "<svg" in (tmp_path / "one.svg").read_text()
    with raises(DragomanError, "unsupported_format", "one.txt"):
        draw_curves(PANELS, tmp_path / "one.txt", "n")
