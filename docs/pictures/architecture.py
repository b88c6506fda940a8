"""Draw the walks of architecture.md as SVG: a column per package, a box per file, in the order of the page."""

from __future__ import annotations

import re
from html import escape
from itertools import pairwise
from pathlib import Path

PICTURES = Path(__file__).parent
PAGE = next(PICTURES.parent.rglob("architecture.md"))
WIDTH, ROW, HEAD, MARGIN = 160, 34, 40, 12
WALK = r"!\[[^]]*\]\((?:\.\./)*pictures/(walk-[\w-]+)\.svg\)\n(.*?)(?=\n## |\Z)"
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2430 }
.head { font-weight: 600; text-anchor: middle }
.name { text-anchor: middle }
.lane { fill: #f3f5f9 }
.box { fill: #ffffff; stroke: #4a6fa5; stroke-width: 1.2 }
path { fill: none; stroke: #8a94a6; stroke-width: 1.3 }
marker path { fill: #8a94a6; stroke: none }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e9ef } .lane { fill: #232833 } .box { fill: #2e3542; stroke: #8fb3e8 }
}
"""


def walks(page: str) -> dict[str, list[str]]:
    """The files of each walk in order, by the name of its picture."""
    sections = re.findall(WALK, page, re.DOTALL)
    return {picture: re.findall(r"^\d+\. `([\w/]+\.\w+)`", section, re.MULTILINE) for picture, section in sections}


def lane_of(file: str) -> str:
    """The package that a file belongs to."""
    return file.split("/")[0] if "/" in file else "dragoman"


def drawing(files: list[str]) -> str:
    """One walk as SVG."""
    lanes = list(dict.fromkeys(map(lane_of, files)))
    width, height = MARGIN * 2 + WIDTH * len(lanes), HEAD + ROW * len(files) + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="end" markerWidth="7" markerHeight="7" refX="6" refY="3.5" orient="auto">'
        '<path d="M0,0 L7,3.5 L0,7 z"/></marker></defs>',
    ]
    for column, lane in enumerate(lanes):
        left = MARGIN + column * WIDTH
        if column % 2 == 0:
            parts.append(f'<rect class="lane" x="{left}" y="0" width="{WIDTH}" height="{height}"/>')
        parts.append(f'<text class="head" x="{left + WIDTH / 2}" y="24">{escape(lane)}</text>')
    centers = [
        (MARGIN + lanes.index(lane_of(file)) * WIDTH + WIDTH / 2, HEAD + row * ROW + ROW / 2)
        for row, file in enumerate(files)
    ]
    for (x, y), (to_x, to_y) in pairwise(centers):
        parts.append(
            f'<path marker-end="url(#end)" d="M{x},{y + 11} C{x},{y + 20} {to_x},{to_y - 22} {to_x},{to_y - 12}"/>'
        )
    for (x, y), file in zip(centers, files, strict=True):
        name = file.partition("/")[2] or file
        parts.append(f'<rect class="box" x="{x - 76}" y="{y - 11}" width="152" height="22" rx="5"/>')
        squeeze = ' textLength="144" lengthAdjust="spacingAndGlyphs"' if len(name) > 23 else ""
        parts.append(f'<text class="name" x="{x}" y="{y + 4}"{squeeze}>{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def draw_walks(out: Path) -> None:
    """Write the picture of each walk."""
    for name, files in walks(PAGE.read_text(encoding="utf-8")).items():
        (out / f"{name}.svg").write_text(drawing(files), encoding="utf-8")
