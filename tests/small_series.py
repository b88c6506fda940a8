"""Small series for tests: two columns with a daily rhythm, in hourly rows."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from pathlib import Path

TINY = (
    *("model.d_model=8", "model.n_heads=2", "model.d_ff=12", "model.encoder_layers=1", "model.decoder_layers=1"),
    *("model.dropout=0.1", "forecast.patch=4", "forecast.stride=4", "forecast.batch_windows=16"),
    *("train.steps=12", "train.save_every=4", "train.evaluate_every=3", "train.log_every=3", "train.average=2"),
    *("train.keep=2", "train.warmup_steps=2", "train.learning_rate=0.01", "train.clip=1.0"),
)


def write_series(path: Path, rows: int = 240) -> Path:
    """A CSV file with the columns date, load and heat."""
    lines = ["date,load,heat"]
    for hour in range(rows):
        time = datetime(2024, 2, 27) + timedelta(hours=hour)
        load = 5 + math.sin(2 * math.pi * hour / 24) + 0.3 * math.sin(1.7 * hour)
        lines.append(f"{time},{load:.5f},{20 - 3 * load + 0.01 * hour:.5f}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
