"""Settings for a series, chosen by its length: sizes that suit small data, and a schedule of some epochs."""

from __future__ import annotations

from typing import Final

from dragoman.training.defaults import Choice
from dragoman.values import plural

LOOK_BACK: Final = 336
LARGE: Final = 500_000  # values, from which a wider model is worth it
EPOCHS: Final = 20
FEWEST_STEPS: Final = 200
MOST_STEPS: Final = 20_000
BASICS: Final = (
    *("model.encoder_layers=3", "model.decoder_layers=2", "model.norm=batch", "model.activation=gelu"),
    *("model.positions=learned", "model.attention_bias=true", "train.beta2=0.999", "train.epsilon=1e-8"),
    *("train.schedule=cosine", "train.precision=float32"),
)
"""As in PatchTST; matrix products stay in float32, because small differences of values matter."""


def size_choices(rows: int, columns: int, horizon: int, look_back: int | None) -> list[Choice]:
    """Look-back, patches and model sizes for a series."""
    found = []
    if look_back is None:
        look_back = max(1, min(LOOK_BACK, (int(0.7 * rows) - horizon) // 2))
        look_back -= look_back % 8 if look_back >= 16 else 0
        found.append(Choice(f"forecast.look_back={look_back}", f"for {rows:,} rows"))
    patch = 16 if look_back >= 64 else max(1, look_back // 8)
    stride = max(1, patch // 2)
    while (look_back - patch) % stride:
        stride -= 1
    reason = f"for a look-back of {look_back}"
    found += [Choice(f"forecast.patch={patch}", reason), Choice(f"forecast.stride={stride}", reason)]
    large = rows * columns >= LARGE
    reason = f"for {rows * columns:,} values"
    d_model, n_heads, d_ff, dropout = (64, 8, 256, 0.2) if large else (16, 4, 128, 0.3)
    sizes = {"d_model": d_model, "n_heads": n_heads, "d_ff": d_ff, "dropout": dropout}
    return found + [Choice(f"model.{key}={value}", reason) for key, value in sizes.items()]


def schedule_choices(windows: int, batch: int, steps: int | None) -> list[Choice]:
    """The length of a run and how often it is evaluated, for a number of training windows."""
    epoch = max(1, windows // batch)
    found = []
    if steps is None:
        steps = min(MOST_STEPS, max(FEWEST_STEPS, EPOCHS * epoch))
        limit = {FEWEST_STEPS: "the minimum", MOST_STEPS: "the maximum"}
        epochs = f"{EPOCHS} epochs of {plural(epoch, 'step')}"
        found.append(Choice(f"train.steps={steps}", epochs if steps == EPOCHS * epoch else limit[steps]))
    every = max(10, steps // 20)
    return [
        *found,
        Choice("train.learning_rate=0.001", "a usual rate for small models"),
        Choice(f"train.warmup_steps={max(1, steps // 10)}", "a tenth of the run"),
        Choice(f"train.evaluate_every={every}", plural(max(1, steps // every), "evaluation")),
        Choice(f"train.save_every={every}", "with each evaluation"),
        Choice(f"train.log_every={max(1, every // 4)}", "some lines for each evaluation"),
    ]
