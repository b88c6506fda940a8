"""Settings and tensors of another toolkit's model, checked as they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.errors import ConversionError, DamagedError
from dragoman.files import format_names, parse_json
from dragoman.values import render_value


class DamagedSourceError(ConversionError):
    """A file whose content is not what its toolkit writes."""

    default_code = "file_damaged"

    def __init__(self, path: Path | str, problem: str) -> None:
        super().__init__(f"{path} {problem}; copy it again")


class UnsupportedSettingError(ConversionError):
    """A setting that our models cannot express."""

    default_code = "unsupported_setting"


class SourceSettings:
    """The settings of a model by name, checked when they are read."""

    def __init__(self, values: Mapping[str, Any], where: Path | str) -> None:
        self.values, self.where = values, where

    def integer(self, name: str, default: int | None = None, minimum: int = 1) -> int:
        """Return an integer of at least `minimum`."""
        value = self.values.get(name, default)
        if type(value) is not int or not minimum <= value < 1 << 31:
            raise self.invalid(name, value, f"an integer of at least {minimum}")
        return value

    def probability(self, name: str, default: float = 0.0) -> float:
        """Return a number from 0 to 1, such as a dropout rate."""
        value = self.values.get(name, default)
        if type(value) not in (int, float) or not 0 <= value <= 1:
            raise self.invalid(name, value, "a number from 0 to 1")
        return float(value)

    def boolean(self, name: str, default: bool = False) -> bool:
        """Return a boolean; null is false."""
        value = self.values.get(name, default)
        if value is not None and type(value) not in (bool, int):
            raise self.invalid(name, value, "true or false")
        return bool(value)

    def invalid(self, name: str, value: object, expected: str) -> ConversionError:
        """Make the error for a value that the toolkit would not write."""
        return ConversionError(
            f"{self.where} has {name}={render_value(value)}; expected {expected}", code="invalid_setting"
        )

    def choice(self, name: str, choices: Mapping[str, str], default: str | None = None) -> str:
        """Translate one of the toolkit's choices to our name for it."""
        value = self.values.get(name, default)
        if not isinstance(value, str) or value not in choices:
            raise UnsupportedSettingError(
                f"{self.where} has {name}={render_value(value)}, which cannot be imported; supported: "
                f"{', '.join(choices)}"
            )
        return choices[value]

    def require(self, name: str, usual: object, what: str) -> None:
        """Reject a setting unless it has the value `usual`; our models cannot express others."""
        value = self.values.get(name, usual)
        if value != usual and not (value is None and not usual):
            raise UnsupportedSettingError(
                f"{self.where} has {name}={render_value(value)}: {what} cannot be imported; expected {name}={usual!r}"
            )

    def shared_integer(self, one: str, other: str) -> int:
        """Return the common value of two settings; our models have one setting for both."""
        first, second = self.integer(one), self.integer(other)
        if first != second:
            raise UnsupportedSettingError(
                f"{self.where} has {one}={first} and {other}={second}; only models with equal values in encoder "
                "and decoder can be imported"
            )
        return first


class SourceCheckpoint:
    """The tensors of a checkpoint by name; shapes must match the settings, and every tensor must be used."""

    def __init__(self, tensors: Any, where: Path, of: str) -> None:
        if not isinstance(tensors, Mapping) or not all(isinstance(each, Tensor) for each in tensors.values()):
            raise DamagedSourceError(where, f"does not have the named tensors that {of}")
        self.tensors: Mapping[str, Tensor] = tensors
        self.where = where
        self.taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def take(self, name: str, shape: Sequence[int]) -> Tensor:
        """Return a tensor as float32 and mark it as used."""
        if name not in self.tensors:
            raise ConversionError(
                f"{self.where} has no tensor {name}; its settings require one of shape {list(shape)}",
                code="weights_mismatch",
            )
        found = self.tensors[name]
        if list(found.shape) != [*shape]:
            raise ConversionError(
                f"{self.where} has the tensor {name} of shape {list(found.shape)}, but its settings require "
                f"{[*shape]}; the files belong to different models, or to an unsupported kind of model",
                code="weights_mismatch",
            )
        if not found.is_floating_point():
            raise ConversionError(
                f"{self.where} has the tensor {name} of type {found.dtype}; expected floating-point numbers",
                code="weights_mismatch",
            )
        self.taken.add(name)
        tensor = found.detach().to(torch.float32)
        if not tensor.isfinite().all():
            raise ConversionError(
                f"{self.where} has NaN or infinite values in {name}; copy it again", code="not_finite"
            )
        return tensor

    def take_first(self, names: Sequence[str], shape: Sequence[int]) -> Tensor:
        """Take a tensor under the first of its names that exists."""
        present = [name for name in names if name in self.tensors]
        found = self.take(present[0] if present else names[0], shape)
        self.taken.update(present)
        return found

    def ignore(self, *names: str) -> None:
        """Mark tensors that are not weights as used."""
        self.taken.update(name for name in names if name in self.tensors)

    def check_all_taken(self) -> None:
        """Reject a checkpoint with tensors that were not used."""
        if rest := sorted(self.tensors.keys() - self.taken):
            more = f" and {len(rest) - 1} more" if rest[1:] else ""
            raise ConversionError(
                f"{self.where} has the tensor {render_value(rest[0])}{more}, which its settings do not "
                "mention; this kind of model cannot be imported",
                code="weights_mismatch",
            )


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object."""
    content = read_bytes(path)
    try:
        found = parse_json(content)
    except ValueError as error:
        raise DamagedSourceError(path, f"cannot be read ({error})") from None
    if not isinstance(found, dict):
        raise DamagedSourceError(path, f"holds {render_value(found, 40)}; expected a JSON object")
    return found


def read_bytes(path: Path) -> bytes:
    """Read a file of the model."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ConversionError(f"{path} is missing; copy the whole model", code="file_missing") from None
    except OSError as error:
        raise ConversionError(f"{path} cannot be read: {error.strerror}", code="file_unreadable") from None


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    from dragoman.models.loading import read_tensors

    try:
        return read_tensors(path)
    except DamagedError as error:
        raise ConversionError(str(error), code=error.code) from None


def choose_checkpoint(directory: Path, pattern: str, preferred: Sequence[str]) -> Path:
    """Choose the checkpoint of a directory: the first of the preferred names, or the only match."""
    there = sorted(directory.glob(pattern))
    best = [directory / name for name in preferred if directory / name in there] or there
    if not there or (best is there and len(there) > 1):
        raise ConversionError(
            f"{directory} has {format_names(there) or f'no {pattern}'}; expected a single checkpoint, or "
            f"one named {', '.join(preferred)}",
            code="several_checkpoints",
        )
    return best[0]
