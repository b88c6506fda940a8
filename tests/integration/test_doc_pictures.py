"""The pictures of the docs: one command draws them, and each is shown somewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image

from tiny_model import LINES, write_tiny_model

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
sys.path.insert(0, str(PICTURES))
import make_pictures  # noqa: E402


def test_commands_draw_the_pictures_of_a_model(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "en-de")
    for side, lines in (("en", LINES), ("de", LINES[::-1])):
        (tmp_path / f"valid.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    make_pictures.draw_model(model, tmp_path / "valid.en", tmp_path / "valid.de", tmp_path)
    drawn = {path.name for path in tmp_path.glob("*.png")}
    assert drawn == {
        "attention.png",
        *(f"inspect-{name}.png" for name in ("heads", "alignment", "positions", "survey")),
    }
    for name in drawn:
        with Image.open(tmp_path / name) as picture:
            assert min(picture.size) > 200
            assert len(picture.convert("RGB").getcolors(10**6)) > 10


def test_few_colors_look_the_same(tmp_path: Path) -> None:
    path = tmp_path / "shades.png"
    shades = Image.linear_gradient("L").resize((64, 64))
    Image.merge("RGB", (shades, shades.rotate(90), shades.rotate(180))).save(path)
    before = np.asarray(Image.open(path).convert("RGB"), dtype=int)
    make_pictures.compress(path)
    after = np.asarray(Image.open(path).convert("RGB"), dtype=int)
    assert abs(before - after).max() < 40


def test_each_picture_is_shown_somewhere() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/results/*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    found = [path.name for path in PICTURES.iterdir() if path.suffix in (".png", ".svg")]
    assert len(found) > 10
    assert [name for name in found if f"pictures/{name})" not in text] == []
