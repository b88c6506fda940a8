"""Forecasts of small public series with the settings that `dragoman forecast train` chooses, beside the baselines.

    python benchmarks/forecast_small.py DATA_FOLDER --out runs/forecast_small [--set train.steps=300 ...]

DATA_FOLDER holds co2.csv, seattle-temps.csv, seattle-weather.csv, sf-temps.csv and sunspots.csv, packed or not. Missing
weeks and hours are interpolated. Finished models are kept, and the same command continues. Writes
OUT/forecast_small.json and OUT/forecast_small.md: MSE and MAE of standardized values over all test windows.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from dragoman import SilentReporter, forecast

SERIES = {"sunspots": 11, "seattle-weather": 30, "co2": 52, "seattle-temps": 24, "sf-temps": 24}  # horizons


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/forecast_small"))
    parser.add_argument("--set", action="append", default=[], dest="changes")
    parser.add_argument("--device", default=None)
    options = parser.parse_args()
    lines = ["| series | rows | look-back | horizon | forecast | MSE | MAE |", "|---|---|---|---|---|---|---|"]
    found = {}
    for name, horizon in SERIES.items():
        path = next(iter(sorted(options.data.glob(f"{name}.csv*"))), None)
        if path is None:
            sys.exit(f"{options.data} has no {name}.csv, packed or not")
        model = options.out / name
        forecast.train(
            path, out=model, horizon=horizon, missing="interpolate", changes=options.changes, device=options.device
        )
        report = forecast.evaluate(model, path, missing="interpolate", reporter=SilentReporter())
        rows = len(forecast.read_series(path, missing="interpolate"))
        found[name] = json.loads(report.to_json())
        for system, errors in report.systems.items():
            shown = "this model" if system == name else system
            cells = (name, f"{rows:,}", report.look_back, horizon, shown, f"{errors.mse:.3f}", f"{errors.mae:.3f}")
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    (options.out / "forecast_small.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (options.out / "forecast_small.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
