"""`model.json`: vocabulary sizes, languages and license of a model."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from dragoman.errors import DamagedError
from dragoman.modeldir.languages import card_languages
from dragoman.modeldir.layout import CARD, INFO

FORMAT: Final = 2  # format 1 had neither this number nor anything but the vocabulary


@dataclass(frozen=True)
class ModelInfo:
    """What `model.json` says of a model; unknown languages and an unknown license are empty."""

    vocabulary: int | tuple[int, int]  # tokens of the shared vocabulary, or of (source, target)
    source_languages: tuple[str, ...] = ()
    target_languages: tuple[str, ...] = ()
    license: str = ""

    @property
    def vocabulary_sizes(self) -> tuple[int, int]:
        """The sizes of the source and target vocabularies."""
        return self.vocabulary if isinstance(self.vocabulary, tuple) else (self.vocabulary, self.vocabulary)

    @property
    def language_pair(self) -> tuple[str, str] | None:
        """The source and target language of a model that has one of each."""
        if len(self.source_languages) == len(self.target_languages) == 1:
            return self.source_languages[0], self.target_languages[0]
        return None

    def to_json(self) -> str:
        """The content of the file."""
        return json.dumps({"format": FORMAT, **asdict(self)}, ensure_ascii=False) + "\n"


def read_info(directory: Path) -> ModelInfo:
    """Read and check `model.json`; models of format 1 have their languages in the heading of the card."""
    path = directory / INFO
    try:
        table: dict[str, Any] = json.loads(path.read_bytes())
        vocabulary = table["vocabulary"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedError(
            f"{path} cannot be read ({type(error).__name__}: {error}); restore it from a copy", code="file_damaged"
        ) from None
    if (version := table.get("format", 1)) not in (1, FORMAT):
        raise DamagedError(
            f"{path} has format {version!r}; this Dragoman reads formats 1 and {FORMAT}; use a newer version",
            code="unsupported_format",
        )
    sizes = vocabulary if isinstance(vocabulary, list) and len(vocabulary) == 2 else [vocabulary]
    if not all(type(size) is int and size > 0 for size in sizes):
        raise DamagedError(
            f"{path} has the vocabulary {vocabulary!r}; expected a number of tokens, or [source, target]; restore it "
            "from a copy",
            code="file_damaged",
        )
    sized = (sizes[0], sizes[1]) if len(sizes) == 2 else int(sizes[0])
    if version == 1:
        return ModelInfo(sized, *card_languages(directory / CARD))
    languages = [table.get(f"{side}_languages") for side in ("source", "target")]
    for codes in languages:
        if not isinstance(codes, list) or not all(isinstance(code, str) for code in codes):
            raise DamagedError(
                f"{path} has the languages {codes!r}; expected a list of codes; restore it from a copy",
                code="file_damaged",
            )
    return ModelInfo(sized, tuple(languages[0] or ()), tuple(languages[1] or ()), str(table.get("license", "")))
