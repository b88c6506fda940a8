"""The recipe of a forecaster: [model] and [train] as for translation, and [forecast] in place of text and data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dragoman.config.model import ModelRecipe
from dragoman.config.sectioned import SectionedRecipe
from dragoman.config.sections import TrainRecipe
from dragoman.errors import RecipeError
from dragoman.values import check_field_types, check_fields, check_fractions, check_seed

MAX_STEPS = 1_000_000  # of look-back and horizon
CalendarFeature = Literal["minute", "hour", "weekday", "monthday", "yearday"]
NO_EFFECT = {  # keys of [train] that are for translation
    **{"label_smoothing": 0.1, "r_drop": 0.0, "stop_on": "loss"},
    **{"lora": 0, "lora_alpha": None, "lora_projections": ()},
}
UNUSED_MODEL_KEYS = ("tie", "output_bias")  # a forecaster has no vocabulary


@dataclass(frozen=True)
class ForecastRecipe:
    """Forecasting: what the model reads, what it predicts, and how.

    `mode` "direct" predicts all values of the horizon at once from the encoder's output; "decoder" is the paper's
    encoder-decoder, which predicts step by step. `patch` values form one token, and patches start `stride` values
    apart; a stride below `patch` makes them overlap. `split` are the parts for training, validation and test, as
    fractions or as numbers of rows.
    """

    mode: Literal["direct", "decoder"] = "direct"
    """Predict the whole horizon at once from the encoder, or step by step with a decoder."""
    horizon: int = 96
    """Number of time steps to predict."""
    look_back: int = 336
    """Number of past time steps that the model reads."""
    patch: int = 16
    """Number of values that form one token."""
    stride: int = 8
    """Distance between the starts of two patches of the past."""
    normalization: Literal["none", "instance", "instance_affine"] = "instance"
    """Normalize each window by its own mean and deviation; `instance_affine` also learns a scale per column."""
    loss: Literal["mse", "mae"] = "mse"
    """Error that is minimized if there are no quantiles."""
    quantiles: tuple[float, ...] = ()
    """Quantiles to predict, with 0.5 among them; empty for a single value."""
    calendar: tuple[CalendarFeature, ...] = ()
    """Parts of the time stamp that the model also reads."""
    head_dropout: float = 0.0
    """Dropout rate before the last projection."""
    split: tuple[float, ...] = (0.7, 0.1, 0.2)
    """Parts for training, validation and test: fractions, or numbers of rows."""
    batch_windows: int = 128
    """Number of windows in a batch, each with all columns."""
    valid_windows: int = 0
    """Largest number of windows to validate with during training; 0 for all."""
    seed: int = 1
    """Seed of the order of windows."""

    def __post_init__(self) -> None:
        """Reject values out of range, and those that do not go together."""
        check_field_types(self, "forecast")
        check_fields(self, "forecast", 1, "horizon look_back patch stride batch_windows", MAX_STEPS)
        check_fields(self, "forecast", 0, "valid_windows")
        check_fractions(self, "forecast", "head_dropout")
        check_seed("forecast.seed", self.seed)
        if self.patch > self.look_back:
            raise RecipeError(
                f"forecast.patch={self.patch} is longer than forecast.look_back={self.look_back}; use a shorter patch",
                code="out_of_range",
            )
        if self.stride > self.patch:
            raise RecipeError(
                f"forecast.stride={self.stride} skips values between patches of forecast.patch={self.patch}; use a "
                "stride of at most the patch",
                code="out_of_range",
            )
        if (self.look_back - self.patch) % self.stride:
            fitting = self.look_back - (self.look_back - self.patch) % self.stride
            raise RecipeError(
                f"forecast.look_back={self.look_back} is not a whole number of strides of {self.stride} after the "
                f"first patch of {self.patch}; use forecast.look_back={fitting}",
                code="not_divisible",
            )
        self._check_quantiles()
        self._check_split()
        if len({*self.calendar}) != len(self.calendar):
            raise RecipeError(f"forecast.calendar={list(self.calendar)} repeats a feature", code="conflicting_settings")

    def _check_quantiles(self) -> None:
        found = self.quantiles
        if not found:
            return
        if list(found) != sorted({*found}) or not all(0 < q < 1 for q in found):
            raise RecipeError(
                f"forecast.quantiles={list(found)} must rise and lie between 0 and 1, such as [0.1, 0.5, 0.9]",
                code="out_of_range",
            )
        if 0.5 not in found:
            raise RecipeError(
                f"forecast.quantiles={list(found)} lacks 0.5, which is the point forecast; add it",
                code="missing_setting",
            )
        if self.loss != "mse":
            raise RecipeError(
                f"forecast.loss={self.loss!r} has no effect with forecast.quantiles, whose loss is the pinball loss; "
                "leave out one of them",
                code="unused_setting",
            )

    def _check_split(self) -> None:
        rows = all(part >= 1 and part == int(part) for part in self.split[:2])
        fractions = all(0 < part < 1 for part in self.split[:2]) and sum(self.split) <= 1 + 1e-9
        if len(self.split) != 3 or not all(part >= 0 for part in self.split) or not (rows or fractions):
            raise RecipeError(
                f"forecast.split={list(self.split)} must be three fractions of at most 1 in sum, such as "
                "[0.7, 0.1, 0.2], or three numbers of rows",
                code="out_of_range",
            )

    @property
    def overlaps(self) -> bool:
        """Whether patches overlap; the past is then extended by one stride, as in PatchTST."""
        return self.stride < self.patch

    @property
    def n_patches(self) -> int:
        """Number of tokens of the past."""
        return (self.look_back - self.patch) // self.stride + 1 + self.overlaps

    @property
    def n_steps(self) -> int:
        """Number of decoder steps for the horizon."""
        return -(-self.horizon // self.patch)

    @property
    def n_outputs(self) -> int:
        """Numbers that are predicted for each time step."""
        return max(1, len(self.quantiles))


@dataclass(frozen=True)
class ForecasterRecipe(SectionedRecipe):
    """All settings of a forecaster and its training."""

    model: ModelRecipe = field(default_factory=ModelRecipe)
    forecast: ForecastRecipe = field(default_factory=ForecastRecipe)
    train: TrainRecipe = field(default_factory=TrainRecipe)

    def __post_init__(self) -> None:
        """Reject sections of the wrong type, and settings that are for translation."""
        self._check_sections()
        model = self.model
        if model.architecture != "transformer":
            raise RecipeError(
                f"model.architecture={model.architecture!r} does not forecast; use 'transformer'",
                code="conflicting_settings",
            )
        if model.reads_trees:
            raise RecipeError(
                "model.positions='syntax' needs sentences; use other positions for series", code="conflicting_settings"
            )
        tokens = max(self.forecast.n_patches, self.forecast.n_steps if self.forecast.mode == "decoder" else 0)
        if (model.positions == "learned" or model.pattern == "low_rank") and tokens > model.max_positions:
            raise RecipeError(
                f"a window has {tokens} tokens, but model.max_positions={model.max_positions} positions are learned; "
                f"use model.max_positions={tokens} or longer patches",
                code="out_of_range",
            )
        for key, default in NO_EFFECT.items():
            if (given := getattr(self.train, key)) != default:
                raise RecipeError(
                    f"train.{key}={given!r} has no effect on a forecaster; leave it out", code="unused_setting"
                )

    def _unused_in(self, section: str) -> set[str]:
        """Keys that have no effect on a forecaster."""
        match section:
            case "model":
                return {*UNUSED_MODEL_KEYS}
            case "train":
                return {*NO_EFFECT}
            case _:
                return set()
