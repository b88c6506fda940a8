"""Python code in docs/ runs as written and gives the results in its comments."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.conversion.exports.export import export
from dragoman.demo.corpus import pairs
from exportable_model import exportable
from small_model import model_at
from small_series import write_series
from tiny_model import write_tiny_model

DOCS = Path(__file__).parents[2] / "docs"
BLOCKS = [
    (path.name, block)
    for path in sorted(DOCS.rglob("*.md"), key=lambda path: path.name)
    if not {"_build", "tutorial"} & {*path.parts}  # test_docs_tutorial.py runs those in order
    for block in re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
]
CONLLU = "1\tone\t_\t_\t_\t_\t2\t_\t_\t_\n2\ttwo\t_\t_\t_\t_\t0\t_\t_\t_\n\n"


def names(page: str, folder: Path) -> dict[str, Any]:
    """What a page takes for granted: names, and files in the folder."""
    lines = [english for english, _ in pairs(60, split="train")]
    given: dict[str, dict[str, Any]] = {
        "evaluating.md": {"references": lines, "translations": lines, "other_translations": lines[::-1]},
        "rivals.md": {"source": torch.tensor([[5, 6, 2]]), "target": torch.tensor([[1, 9]])},
        "tokenizers.md": {"lines": [*lines, "The keeper told a story."] * 9, "directory": folder},
    }
    if page in ("inspecting.md", "variations.md"):
        model_at(folder / "my-model", **({"positions": "syntax"} if page == "variations.md" else {}))
        (folder / "test.en").write_text("one two\n", encoding="utf-8")
        (folder / "test.conllu").write_text(CONLLU, encoding="utf-8")
    if page == "clusters.md":
        pytest.importorskip("ray")
        model_at(folder / "my-model")
        (folder / "book.en").write_text("one two\n\nthree\n", encoding="utf-8")
    if page == "documents.md":
        model_at(folder / "my-model")
        (folder / "page.html").write_text("<p>one <b>two</b></p>", encoding="utf-8")
    if page == "training.md":
        for side, ending in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in pairs(400, split="train"))
            (folder / f"train.{ending}").write_text(text, encoding="utf-8")
    if page == "exporting.md":
        for to, name in (("huggingface", "hf"), ("ctranslate2", "ct2")):
            pytest.importorskip({"hf": "transformers"}.get(name, to))
            export(exportable(folder / f"{to}-model"), to, folder / f"my-model-{name}", verify=False)
    if page == "forecasting.md":
        write_series(folder / "data.csv")
    if page == "languages.md":
        write_tiny_model(folder / "en-de-fr", 'text.targets=["de", "fr"]')
    if page == "parsing.md":
        text = (DOCS / "explanation" / page).read_text(encoding="utf-8")
        shown = re.search(r"\$ cat two.mrg\n(.*?)\n\n", text, re.DOTALL)
        assert shown
        (folder / "two.mrg").write_text(shown[1], encoding="utf-8")
    return given.get(page, {})


def promised(block: str) -> list[tuple[str, Any]]:
    """The expressions whose comment is a value."""
    found = []
    for line in block.splitlines():
        expression, _, comment = line.partition("  #")
        try:
            ast.parse(expression, mode="eval")
            found.append((expression, ast.literal_eval(comment.strip())))
        except (SyntaxError, ValueError):
            continue
    return [(expression, value) for expression, value in found if "Ellipsis" not in repr(value)]


def test_values_are_promised() -> None:
    assert [value for _, block in BLOCKS for _, value in promised(block)] == [
        "halb acht",
        "Peter hat gestern drei Äpfel gekauft.",
        ("de", "fr"),
        "(S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S",
        1.0,
        "The keeper told a story.",
    ]


@pytest.mark.parametrize(("page", "block"), BLOCKS, ids=[f"{page} {n}" for n, (page, _) in enumerate(BLOCKS)])
def test_it_runs(page: str, block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if page == "data.md":  # its processes load the file that it is in
        for side, ending in enumerate(("en", "de")):
            (tmp_path / f"train.{ending}").write_text(
                "".join(f"{pair[side]}\n" for pair in pairs(400, split="train")), "utf-8"
            )
        (tmp_path / "shown.py").write_text(block, "utf-8")
        done = subprocess.run([sys.executable, "shown.py"], capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        return
    known = names(page, tmp_path)
    exec(compile(block, page, "exec"), known)
    for expression, value in promised(block):
        assert eval(expression, known) == value
