"""`model.json` and `card.md`: vocabulary sizes, languages, license and training data of a model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from dragoman.errors import DamagedError, SearchError
from dragoman.files import parse_json
from dragoman.modeldir.layout import CARD, INFO
from dragoman.text.languages.codes import normalize_language
from dragoman.text.line_lengths import LineLengths
from dragoman.values import MAX_INT, render_value

MODEL_FORMAT: Final = 2  # format 1 held only the vocabulary, without a format number
COMPRESSED_SUFFIXES: Final = {".gz", ".xz", ".zst", ".bz2"}
UNKNOWN_DATA = "## Data\n\nUnknown; describe it here.\n"


@dataclass(frozen=True)
class ModelInfo:
    """The content of `model.json`; languages and license are empty if unknown."""

    vocabulary: int | tuple[int, int]  # tokens of the shared vocabulary, or of (source, target)
    source_languages: tuple[str, ...] = ()
    target_languages: tuple[str, ...] = ()
    license: str = ""
    line_lengths: LineLengths | None = None  # of the training data; unknown for imported and older models

    @property
    def vocabulary_sizes(self) -> tuple[int, int]:
        """The sizes of the source and target vocabularies."""
        return self.vocabulary if isinstance(self.vocabulary, tuple) else (self.vocabulary, self.vocabulary)

    @property
    def language_pair(self) -> tuple[str, str] | None:
        """Source and target language, if the model has exactly one of each."""
        if len(self.source_languages) == len(self.target_languages) == 1:
            return self.source_languages[0], self.target_languages[0]
        return None

    def to_json(self) -> str:
        """The content of the file."""
        return json.dumps({"format": MODEL_FORMAT, **asdict(self)}, ensure_ascii=False) + "\n"


def read_info(directory: Path) -> ModelInfo:
    """Read and check `model.json`; models of format 1 have their languages in the heading of the card."""
    path = directory / INFO
    try:
        table: dict[str, Any] = parse_json(path.read_bytes())
        vocabulary = table["vocabulary"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{path} cannot be read ({type(error).__name__}: {error}); restore it from a copy") from None
    if not isinstance(table, dict):
        raise DamagedError(f"{path} holds {render_value(table)}; expected a JSON object; restore it from a copy")
    if (version := table.get("format", 1)) not in (1, MODEL_FORMAT):
        raise DamagedError(
            f"{path} has format {render_value(version)}, but this version of Dragoman reads formats 1 and "
            f"{MODEL_FORMAT}; use a newer version",
            code="unsupported_format",
        )
    sizes = vocabulary if isinstance(vocabulary, list) and len(vocabulary) == 2 else [vocabulary]
    if not all(type(size) is int and 0 < size <= MAX_INT for size in sizes):
        raise DamagedError(f"{path} has an invalid vocabulary {render_value(vocabulary)}; restore it from a copy")
    sized = (sizes[0], sizes[1]) if len(sizes) == 2 else int(sizes[0])
    if version == 1:
        return ModelInfo(sized, *card_languages(directory / CARD))
    languages = [table.get(f"{side}_languages") for side in ("source", "target")]
    for codes in languages:
        if not isinstance(codes, list) or not all(isinstance(code, str) for code in codes):
            raise DamagedError(
                f"{path} has the languages {render_value(codes)}; expected a list of codes; restore it from a copy"
            )
    try:
        lengths = None if table.get("line_lengths") is None else LineLengths.from_table(table["line_lengths"])
    except ValueError as error:
        raise DamagedError(f"{path}: {error}; restore it from a copy") from None
    license_name = table.get("license", "")
    if not isinstance(license_name, str):
        raise DamagedError(
            f"{path} has the license {render_value(license_name)}; expected a name; restore it from a copy"
        )
    return ModelInfo(sized, tuple(languages[0] or ()), tuple(languages[1] or ()), license_name, lengths)


def language_codes(names: Iterable[str]) -> tuple[str, ...]:
    """Return the language codes of names such as `train.de.gz` or `de`, without duplicates; empty if any is unknown."""
    with suppress(SearchError):
        return tuple(dict.fromkeys(normalize_language(language_suffix(name)) for name in names))
    return ()


def language_suffix(name: str) -> str:
    """Return the last suffix before any compression suffix, or the bare name: `de` for `train.de.gz` and for `de`."""
    suffixes = [suffix for suffix in Path(name).suffixes if suffix not in COMPRESSED_SUFFIXES]
    return suffixes[-1].removeprefix(".") if suffixes else name


def card_languages(card: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the languages in the heading of a card, `# train.en to train.de`, as written for format 1."""
    with suppress(OSError, UnicodeDecodeError):
        if found := re.match(r"# (.+) to (.+)\n", card.read_text(encoding="utf-8")):
            return language_codes(found[1].split(", ")), language_codes(found[2].split(", "))
    return (), ()


def license_section(info: ModelInfo) -> str:
    """Return the `## License` section; without a license, it says how to record one."""
    if info.license:
        return f"## License\n\n{info.license}\n"
    return """## License

Unknown. It depends on the license of the training data or of the imported model. Write it here, and record it in
model.json with Python (the file is hashed, so do not edit it by hand):

    from dragoman.modeldir.save import set_license
    set_license("path/of/this/model", "CC-BY-4.0")
"""


def data_section(directory: Path) -> str:
    """Return the `## Data` section of a model's card, for the card of a derived model."""
    path = directory / CARD
    card = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    found = re.search(r"^## Data\n.*?(?=^## |\Z)", card, re.DOTALL | re.MULTILINE)
    return found.group().rstrip() + "\n" if found else UNKNOWN_DATA
