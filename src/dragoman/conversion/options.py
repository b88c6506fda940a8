"""What a person says of a model beside its place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Asked:
    """`tokenizer` is the file that text was cut with, of the target too unless that has its own; `vocabulary` is the
    directory that has the tokens, where they are not beside the model; `one_target` says that tokens such as >>fra<<
    are no target languages."""

    tokenizer: Path | None = None
    target_tokenizer: Path | None = None
    vocabulary: Path | None = None
    one_target: bool = False
