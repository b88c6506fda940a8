"""The public names, the cost of importing them, and the README's code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import dragoman
from small_model import model_at

ROOT = Path(__file__).parents[2]


def run(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, check=False, cwd=cwd)


def test_every_public_name_is_there() -> None:
    for name in dragoman.__all__:
        assert getattr(dragoman, name) is not None
    assert set(dragoman.__all__) <= set(dir(dragoman))


def test_an_unknown_name_says_what_there_is() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'Transfromer'; it has .*Transformer"):
        _ = dragoman.Transfromer


def test_forecast_is_an_attribute() -> None:
    done = run("-c", "import dragoman; print(dragoman.forecast.train.__name__)")
    assert (done.stdout, done.stderr) == ("train\n", "")


def imported(statement: str) -> set[str]:
    """The modules that a statement brings in, as `python -X importtime` lists them."""
    done = run("-X", "importtime", "-c", statement)
    assert done.returncode == 0, done.stderr
    return {line.rsplit("|", 1)[1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


def test_import_dragoman_costs_nothing() -> None:
    brought = {module.split(".")[0] for module in imported("import dragoman") - imported("pass")}
    assert brought - sys.stdlib_module_names == {"dragoman"}


def test_the_transformer_costs_torch_and_nothing_else_heavy() -> None:
    heavy = {"sentencepiece", "tokenizers", "sacrebleu", "rich", "click", "matplotlib", "transformers", "safetensors"}
    assert not imported("from dragoman import Transformer") & heavy - imported("import torch")


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_the_readmes_python_runs(name: str, tmp_path: Path) -> None:
    model_at(tmp_path / "my-model")
    (tmp_path / "book.en").write_text("one two\n\nthree\n", encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    assert len(blocks[0].strip().splitlines()) <= 10
    for block in blocks:
        done = run("-c", block, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
