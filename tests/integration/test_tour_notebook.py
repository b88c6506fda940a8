"""examples/tour.ipynb: its cells run in order, here with a model too small to learn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib
import pytest

NOTEBOOK = json.loads((Path(__file__).parents[2] / "examples" / "tour.ipynb").read_text(encoding="utf-8"))
CELLS = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
SMALL = "n_pairs, n_steps = 1200, 6\n"


def test_it_is_stored_without_outputs() -> None:
    assert (NOTEBOOK["nbformat"], len(CELLS) > 5) == (4, True)
    assert [cell["id"] for cell in CELLS if cell["outputs"] or cell["execution_count"]] == []
    assert len({cell["id"] for cell in NOTEBOOK["cells"]}) == len(NOTEBOOK["cells"])


def test_its_cells_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in CELLS:
        source = "".join(cell["source"])
        exec(compile(source, f"tour.ipynb, cell {cell['id']}", "exec"), names)
        if "parameters" in cell["metadata"].get("tags", []):
            assert set(names) - {"__builtins__"} == {"n_pairs", "n_steps"}
            exec(SMALL, names)
    printed = capsys.readouterr().out
    translator, weights = names["translator"], names["attention"].maps["cross"]
    assert names["result"].path == Path("runs/tour/en-de")
    assert [entry["step"] for entry in names["evaluated"]][-1] == 6
    assert (len(names["best"].alternatives), len(names["translations"])) == (2, 300)
    assert weights.shape[:2] == (translator.recipe.model.decoder_layers, translator.recipe.model.n_heads)
    assert len(names["survey"].heads) == 3 * weights.shape[0] * weights.shape[1]
    assert "unseen lines" in printed and "parameters" in printed
    assert Path("runs/tour/attention.html").stat().st_size > 10_000
    assert len(matplotlib.pyplot.get_fignums()) >= 2
    matplotlib.pyplot.close("all")
