"""`model.json` of a forecaster: its columns, their scale, and the time between two rows."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dragoman.errors import DamagedError
from dragoman.files import parse_json
from dragoman.modeldir.info import MODEL_FORMAT
from dragoman.modeldir.layout import INFO
from dragoman.values import render_value


@dataclass(frozen=True)
class ForecastInfo:
    """What `model.json` says of a forecaster; `mean` and `scale` standardize each column, by its training part."""

    columns: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    time_column: str
    step: str  # between two rows, such as "1 hour"
    season: int  # rows per season, for the seasonal-naive baseline
    license: str = ""

    def to_json(self) -> str:
        """The content of the file."""
        return json.dumps({"format": MODEL_FORMAT, "kind": "forecast", **asdict(self)}, ensure_ascii=False) + "\n"


def read_forecast_info(directory: Path) -> ForecastInfo:
    """Read and check `model.json` of a forecaster."""
    path = directory / INFO
    try:
        table: dict[str, Any] = parse_json(path.read_bytes())
        lists: dict[str, Any] = {key: tuple(table[key]) for key in ("columns", "mean", "scale")}
        info = ForecastInfo(**lists, **{key: table[key] for key in ("time_column", "step", "season", "license")})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{path} cannot be read ({type(error).__name__}: {error}); restore it from a copy") from None
    if table.get("format") != MODEL_FORMAT:
        raise DamagedError(
            f"{path} has format {render_value(table.get('format'))}; this Dragoman reads {MODEL_FORMAT}; use a newer "
            "version",
            code="unsupported_format",
        )
    texts = [*info.columns, info.time_column, info.step, info.license]
    figures = [*info.mean, *info.scale]
    numeric = all(isinstance(x, float | int) and math.isfinite(x) for x in figures) and all(x > 0 for x in info.scale)
    fits = 0 < len(info.columns) == len(info.mean) == len(info.scale) and type(info.season) is int and info.season > 0
    if not (all(isinstance(text, str) for text in texts) and numeric and fits):
        raise DamagedError(f"{path} does not describe the columns of a forecaster; restore it from a copy")
    return info
