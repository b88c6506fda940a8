"""Forecasts of ETTh1 and ETTh2 by the usual protocol: what each change to the 2017 architecture brings, and baselines.

    python benchmarks/forecast_ett.py DATA_FOLDER --out runs/forecast_ett --jobs 8 --minutes 7
    python benchmarks/forecast_ett.py DATA_FOLDER --out runs/forecast_ett --table   # only write the tables again

DATA_FOLDER holds ETTh1.csv and ETTh2.csv, packed or not. Splits of 8640, 2880 and 2880 hours, standardized by the
training part, all seven variables, all test windows, MSE and MAE of standardized values. Finished rows are kept in
OUT/rows; the same command continues until all are there, and then exits with 0 (3 while some are missing). Writes
OUT/forecast_ett.json and OUT/forecast_ett.md. Rows that benchmarks/results/forecast_ett.json has are not trained again,
unless --anew is given.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean

HORIZONS, LOOK_BACKS, SETS = (96, 192, 336, 720), (96, 336), ("ETTh1", "ETTh2")
SIZES = (
    *("model.d_model=16", "model.n_heads=4", "model.d_ff=128", "model.encoder_layers=3", "model.decoder_layers=2"),
    *("model.dropout=0.3", "forecast.split=[8640,2880,2880]", "forecast.batch_windows=128"),
    *("train.precision=float32", "train.schedule=cosine", "train.beta2=0.999", "train.epsilon=1e-8"),
    *("train.learning_rate=0.0005", "train.steps=1000", "train.warmup_steps=100", "train.evaluate_every=50"),
    *("train.save_every=50", "train.log_every=50", "train.average=3", "train.keep=5"),
)
# Without patches, validation writes hundreds of values one by one, so it is rare.
RARE = ("train.evaluate_every=250", "train.save_every=250")
VALUES = ("forecast.patch=1", "forecast.stride=1", "forecast.valid_windows=128", *RARE)
PATCHES = ("forecast.patch=16", "forecast.stride=8", "forecast.valid_windows=512")
# The defaults of forecasting are modern; the earlier rows must name what they replace.
PLAIN = ("model.norm=layer", "model.activation=relu", "model.positions=sinusoidal", "model.attention_bias=false")
# PatchTST is trained slowly: with a small rate and for many epochs.
SLOW = ("train.steps=2000", "train.learning_rate=0.0002", "train.warmup_steps=400", "train.evaluate_every=100")
MODERN = ("model.norm=batch", "model.activation=gelu", "model.positions=learned", "model.attention_bias=true")
MODELS = {
    "2017": ("forecast.mode=decoder", *VALUES, *PLAIN, "forecast.normalization=none"),
    "+ instance normalization": ("forecast.mode=decoder", *VALUES, *PLAIN),
    "+ patches": ("forecast.mode=decoder", *PATCHES, *PLAIN),
    "+ direct head": ("forecast.mode=direct", *PATCHES, *SLOW, *PLAIN),
    "+ batch norm, GELU, learned positions": ("forecast.mode=direct", *PATCHES, *SLOW, *MODERN),
}
BASELINES = ("seasonal naive", "linear")
MEASURED = Path(__file__).parent / "results" / "forecast_ett.json"
PUBLISHED = {  # mean MSE over the horizons, of ETTh1 and ETTh2, as their papers give them
    "DLinear (Zeng et al., 2023), look-back 336": (0.423, 0.431),
    "PatchTST/64 (Nie et al., 2023), look-back 512": (0.413, 0.331),
    "iTransformer (Liu et al., 2024), look-back 96": (0.454, 0.383),
}


@dataclass(frozen=True)
class Row:
    """One training: a model, a data set, a look-back and a horizon."""

    model: str
    data: str
    look_back: int
    horizon: int

    @property
    def name(self) -> str:
        return f"{list(MODELS).index(self.model)}-{self.data}-{self.look_back}-{self.horizon}"


def all_rows() -> Iterator[Row]:
    """Every row, the cheapest models first."""
    for model in reversed(MODELS):
        for data in SETS:
            for look_back in LOOK_BACKS:
                for horizon in HORIZONS:
                    yield Row(model, data, look_back, horizon)


def find(folder: Path, name: str) -> Path:
    found = next((path for path in sorted(folder.glob(f"{name}.csv*"))), None)
    return found or sys.exit(f"{folder} has no {name}.csv, packed or not")


def measure(row: Row, data: Path, out: Path, changes: tuple[str, ...], device: str) -> float:
    """Train and evaluate one row; its figures go to OUT/rows."""
    import torch

    from dragoman import SilentReporter, forecast

    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = True
    began, model = time.perf_counter(), out / "models" / row.name
    settings = [*SIZES, *MODELS[row.model], *changes]
    trained = forecast.train(
        data,
        out=model,
        horizon=row.horizon,
        look_back=row.look_back,
        changes=settings,
        device=device,
        reporter=SilentReporter(),
    )
    seconds = time.perf_counter() - began
    loaded = forecast.load(model, device)
    report = forecast.evaluate(loaded, data, reporter=SilentReporter())
    figures = {name: {"mse": errors.mse, "mae": errors.mae} for name, errors in report.systems.items()}
    figures["model"] = figures.pop(row.name)
    table = {
        **row.__dict__,
        "errors": figures,
        "windows": report.windows,
        "parameters": loaded.model.parameter_count(),
        "steps": trained.recipe.train.steps,
        "seconds": round(seconds, 1),
        "evaluation_seconds": round(time.perf_counter() - began - seconds, 1),
        "valid_mse": trained.metrics["mse"],
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch": torch.__version__,
    }
    write(out / "rows" / f"{row.name}.json", json.dumps(table, indent=1) + "\n")
    shutil.rmtree(model)
    return seconds


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".new").write_text(text, encoding="utf-8")
    path.with_suffix(".new").rename(path)


def restore_rows(out: Path) -> None:
    """Copy the rows that were measured before to OUT/rows."""
    if MEASURED.exists():
        for table in json.loads(MEASURED.read_text())["rows"]:
            row = Row(*(table[key] for key in ("model", "data", "look_back", "horizon")))
            write(out / "rows" / f"{row.name}.json", json.dumps(table, indent=1) + "\n")


def write_tables(out: Path) -> int:
    """Write the JSON and the Markdown of all finished rows; return how many are missing."""
    done = [json.loads(path.read_text()) for path in sorted((out / "rows").glob("*.json"))]
    found: dict[tuple[str, str, int, int], dict[str, float]] = {}
    for row in done:
        place = row["data"], row["look_back"], row["horizon"]
        found[(row["model"], *place)] = row["errors"]["model"]
        for name in BASELINES:
            found.setdefault((name, *place), row["errors"][name])
    write(out / "forecast_ett.json", json.dumps({"rows": done, "published_mean_mse": PUBLISHED}, indent=1) + "\n")
    head = "| model | look-back | " + " | ".join(map(str, HORIZONS)) + " | mean MSE | mean MAE |"
    lines = ["# Forecasts of ETTh1 and ETTh2", "", "MSE of standardized values over all test windows, by horizon."]
    for data in SETS:
        lines += ["", f"## {data}", "", head, "|---|---|" + "---|" * (len(HORIZONS) + 2)]
        for name in (*BASELINES, *MODELS):
            for look_back in LOOK_BACKS:
                cells = [found.get((name, data, look_back, horizon)) for horizon in HORIZONS]
                if any(cells):
                    shown = [f"{cell['mse']:.3f}" if cell else "" for cell in cells]
                    full = all(cells)
                    means = [f"{fmean(c[key] for c in cells if c):.3f}" if full else "" for key in ("mse", "mae")]
                    lines.append(f"| {name} | {look_back} | " + " | ".join([*shown, *means]) + " |")
        for name, figures in PUBLISHED.items():
            empty = " | ".join([""] * len(HORIZONS))
            lines.append(f"| {name} | published | {empty} | {figures[SETS.index(data)]:.3f} | |")
    write(out / "forecast_ett.md", "\n".join(lines) + "\n")
    return len(list(all_rows())) - len(done)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/forecast_ett"))
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time, each in a process")
    parser.add_argument("--minutes", type=float, default=1e9, help="no training starts after this")
    parser.add_argument("--models", nargs="+", type=int, help="numbers of models, 0 is that of 2017")
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--horizons", nargs="+", type=int, default=HORIZONS)
    parser.add_argument("--look-backs", nargs="+", type=int, default=LOOK_BACKS)
    parser.add_argument("--set", action="append", default=[], dest="changes", help="a change of every recipe")
    parser.add_argument("--device", default=None)
    parser.add_argument("--table", action="store_true", help="only write the tables of what is there")
    parser.add_argument("--anew", action="store_true", help="also train the rows that the results have")
    options = parser.parse_args()
    if not options.anew:
        restore_rows(options.out)
    began, names = time.perf_counter(), list(MODELS)
    wanted = [
        row
        for row in all_rows()
        if (options.models is None or names.index(row.model) in options.models)
        and row.data in options.sets
        and row.horizon in options.horizons
        and row.look_back in options.look_backs
        and not (options.out / "rows" / f"{row.name}.json").exists()
    ]
    if not options.table:
        import torch

        device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
        with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
            waiting, running = list(wanted), {}
            while waiting or running:
                while waiting and len(running) < options.jobs and time.perf_counter() - began < 60 * options.minutes:
                    row = waiting.pop(0)
                    data = find(options.data, row.data)
                    running[pool.submit(measure, row, data, options.out, tuple(options.changes), device)] = row
                if not running:
                    break
                done = next(as_completed(running))
                row = running.pop(done)
                error = done.exception()  # the other rows go on
                print(f"{row}: {f'{done.result():.1f} s of training' if error is None else repr(error)}", flush=True)
    missing = write_tables(options.out)
    print((options.out / "forecast_ett.md").read_text())
    print(f"{missing} rows are missing" if missing else "complete", flush=True)
    sys.exit(3 if missing else 0)


if __name__ == "__main__":
    main()
