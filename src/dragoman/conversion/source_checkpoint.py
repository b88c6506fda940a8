"""What another toolkit has written, looked at with care: its settings and its tensors, refused in words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.errors import ConversionError


class Settings:
    """The settings of a model by name, each of the kind that is asked for."""

    def __init__(self, values: Mapping[str, Any], where: Path | str) -> None:
        self.values, self.where = values, where

    def whole(self, name: str, default: int | None = None, least: int = 1) -> int:
        """A whole number."""
        value = self.values.get(name, default)
        if type(value) is not int or not least <= value < 1 << 31:
            raise ConversionError(
                f"{self.where} has {name}={value!r:.60}; expected a whole number, {least} or more",
                code="invalid_setting",
            )
        return value

    def share(self, name: str, default: float = 0.0) -> float:
        """A number from 0 to 1, such as a dropout."""
        value = self.values.get(name, default)
        if type(value) not in (int, float) or not 0 <= value <= 1:
            raise ConversionError(
                f"{self.where} has {name}={value!r:.60}; expected a number from 0 to 1", code="invalid_setting"
            )
        return float(value)

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false."""
        value = self.values.get(name, default)
        if value is not None and type(value) not in (bool, int):
            raise ConversionError(
                f"{self.where} has {name}={value!r:.60}; expected true or false", code="invalid_setting"
            )
        return bool(value)

    def word(self, name: str, among: Mapping[str, str], default: str | None = None) -> str:
        """What a word of theirs is called here."""
        value = self.values.get(name, default)
        if not isinstance(value, str) or value not in among:
            raise ConversionError(
                f"{self.where} has {name}={value!r:.60}, which Dragoman does not have; it imports: {', '.join(among)}",
                code="unsupported_setting",
            )
        return among[value]

    def refuse(self, name: str, usual: object, what: str) -> None:
        """Refuse what models here cannot express; a setting that is not there is as usual."""
        value = self.values.get(name, usual)
        if value != usual and not (value is None and not usual):
            raise ConversionError(
                f"{self.where} has {name}={value!r:.60}: {what}; models here have none of that, so it cannot be "
                f"imported; expected {name}={usual!r}",
                code="unsupported_setting",
            )

    def same(self, one: str, other: str) -> int:
        """The value that two settings must share, because there is one of them here."""
        first, second = self.whole(one), self.whole(other)
        if first != second:
            raise ConversionError(
                f"{self.where} has {one}={first} and {other}={second}; models here have the same in encoder and "
                "decoder, so it cannot be imported",
                code="unsupported_setting",
            )
        return first


class Theirs:
    """Tensors by their names there; what is taken must have the shape that the settings say, and all must be taken."""

    def __init__(self, tensors: Mapping[str, Tensor], where: Path) -> None:
        self.tensors, self.where = tensors, where
        self.taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def take(self, name: str, shape: Sequence[int]) -> Tensor:
        """A tensor as float32."""
        if name not in self.tensors:
            raise ConversionError(
                f"{self.where} has no tensor {name}; the model's settings ask for one of {list(shape)}",
                code="tensor_missing",
            )
        found = self.tensors[name]
        if list(found.shape) != [*shape]:
            raise ConversionError(
                f"{self.where} has the tensor {name} of shape {list(found.shape)}; the model's settings ask for "
                f"{[*shape]}: the two are not of one model, or it has something that is not known here",
                code="shape_mismatch",
            )
        self.taken.add(name)
        tensor = found.detach().to(torch.float32)
        if not tensor.isfinite().all():
            raise ConversionError(
                f"{self.where} has numbers that are none (NaN or infinite) in {name}; it is damaged", code="not_finite"
            )
        return tensor

    def first(self, names: Sequence[str], shape: Sequence[int]) -> Tensor:
        """The first that is there of tensors that are one and the same."""
        there = [name for name in names if name in self.tensors]
        found = self.take(there[0] if there else names[0], shape)
        self.taken.update(there)
        return found

    def ignore(self, *names: str) -> None:
        """Tensors that say nothing."""
        self.taken.update(name for name in names if name in self.tensors)

    def refuse_rest(self) -> None:
        """Refuse tensors that nobody asked for: a model that has more would not be the same without."""
        if rest := sorted(self.tensors.keys() - self.taken):
            more = f" and {len(rest) - 1} more" if rest[1:] else ""
            raise ConversionError(
                f"{self.where} has the tensor {rest[0]}{more}, which no model of its settings has; it is of a kind "
                "that cannot be imported",
                code="unexpected_tensor",
            )


def read_json(path: Path) -> dict[str, Any]:
    """The content of a JSON file that holds a table."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConversionError(f"{path} is missing; copy the whole model", code="file_missing") from None
    except (OSError, ValueError) as error:
        raise ConversionError(f"{path} cannot be read ({error}); copy it again", code="file_damaged") from None
    if not isinstance(found, dict):
        raise ConversionError(
            f"{path} holds {found!r:.40}; expected a table of names and values; copy it again", code="file_damaged"
        )
    return found


def read_bytes(path: Path) -> bytes:
    """The content of a file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ConversionError(f"{path} is missing; copy the whole model", code="file_missing") from None
    except OSError as error:
        raise ConversionError(f"{path} cannot be read: {error.strerror}", code="file_unreadable") from None
