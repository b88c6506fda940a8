"""The record of the model that a run fine-tunes: its name, weights, languages, license and data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.modeldir.info import ModelInfo, data_section, read_info
from dragoman.modeldir.locate import model_name
from dragoman.modeldir.weights import weights_sha256


@dataclass(frozen=True)
class BaseModel:
    """The model that a run starts from; `data` is the "Data" section of its card."""

    name: str
    weights: str  # SHA-256 of the file
    source_languages: tuple[str, ...]
    target_languages: tuple[str, ...]
    license: str
    data: str
    longest_line: int = 0  # tokens of the longest source line in its training data, if known

    @classmethod
    def read(cls, directory: Path) -> BaseModel:
        """Describe a finished model."""
        info = read_info(directory)
        data = data_section(directory).removeprefix("## Data").strip()
        return cls(
            model_name(directory),
            weights_sha256(directory),
            info.source_languages,
            info.target_languages,
            info.license,
            data,
            0 if info.line_lengths is None else info.line_lengths.longest,
        )

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> BaseModel:
        """The description that a run has recorded."""
        languages = {key: tuple(values[key]) for key in ("source_languages", "target_languages")}
        return cls(**{**values, **languages})

    def info(self, vocabulary: int | tuple[int, int]) -> ModelInfo:
        """Its languages and license, with the given vocabulary."""
        return ModelInfo(vocabulary, self.source_languages, self.target_languages, self.license)

    def section(self) -> str:
        """The section of the card about the base model."""
        return (
            f"## Base model\n\nFine-tuned from {self.name}; the SHA-256 of its weights begins with "
            f"`{self.weights[:16]}`.\nIts license: {self.license or 'unknown'}.\n"
        )

    def data_part(self) -> str:
        """The part of the "Data" section about the base model's data; kept when the model is fine-tuned again."""
        return f"### Data of the base model, {self.name}\n\n{self.data}\n"
