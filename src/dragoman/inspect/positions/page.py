"""A self-contained HTML page to compare position codes."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np

from dragoman.errors import SearchError
from dragoman.inspect.attention.page import render_page
from dragoman.inspect.positions.codes import ABOUT, Numbers, PositionView, plane_names
from dragoman.inspect.positions.palette import DARK, LIGHT

MAX_INT16: Final = 32767  # numbers are stored as 16-bit integers, and the value of the largest
MAX_PAGE_NUMBERS: Final = 16_000_000  # a page of 43 MB at most
MAX_PAGE_POSITIONS: Final = 600  # a larger square has more cells than a screen has pixels


def positions_page(views: Sequence[PositionView], title: str = "Position codes") -> str:
    """The page as HTML; it loads nothing, and its content security policy forbids loading."""
    longest, total = max(view.length for view in views), sum(view.pairs.size + view.values.size for view in views)
    if longest > MAX_PAGE_POSITIONS or total > MAX_PAGE_NUMBERS:
        raise SearchError(
            f"a page shows up to {MAX_PAGE_POSITIONS} positions and {MAX_PAGE_NUMBERS:,} numbers; this one would have "
            f"{longest:,} positions and {total:,} numbers: use a smaller --length, fewer --code, or a picture",
            code="too_large",
        )
    colors = {"light": asdict(LIGHT), "dark": asdict(DARK)}
    data = {"title": title, "colors": colors, "views": [view_data(view) for view in views]}
    return render_page("positions.html", ("attention.css", "positions.css"), ("positions.js",), data)


def view_data(view: PositionView) -> dict[str, Any]:
    """One code, as the page reads it."""
    return {
        "code": view.code,
        "name": view.name,
        "about": ABOUT[view.code],
        "parameters": view.parameters,
        "distance_only": view.distance_only,
        "range": [float(view.values.min()), float(view.values.max())],
        "row_name": view.row_name,
        "first_row": view.first_row,
        "column_name": view.column_name,
        "measure": view.measure,
        "pairs_label": view.pairs_label,
        "planes": list(plane_names(view)),
        "values": pack_numbers(view.values),
        "pairs": pack_numbers(view.pairs),
    }


def pack_numbers(numbers: Numbers) -> dict[str, Any]:
    """Numbers as 16-bit integers in base64, with their shape and the value of the largest integer."""
    scale = float(np.abs(numbers).max()) or 1.0
    integers = np.rint(numbers / scale * MAX_INT16).astype("<i2").tobytes()
    return {"shape": list(numbers.shape), "scale": scale, "numbers": base64.b64encode(integers).decode("ascii")}
