"""Options of importing a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ImportOptions:
    """Options of `dragoman import`.

    `tokenizer` is the subword model of the text, also of the target unless `target_tokenizer` is given. `vocabulary` is
    the directory of the vocabularies, if they are not next to the model. `one_target` means that tokens such as >>fra<<
    are not target languages.
    """

    tokenizer: Path | None = None
    target_tokenizer: Path | None = None
    vocabulary: Path | None = None
    one_target: bool = False
