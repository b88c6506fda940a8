"""Detect which toolkit a model comes from, and read it with the matching importer."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dragoman.conversion.from_fairseq import FAIRSEQ
from dragoman.conversion.from_joeynmt import JOEYNMT
from dragoman.conversion.from_marian import MARIAN
from dragoman.conversion.from_marian_files import MARIAN_FILES
from dragoman.conversion.imported_model import ImportedModel, Importer, ImportOptions
from dragoman.errors import ConversionError
from dragoman.files import format_names
from dragoman.modeldir.locate import is_model
from dragoman.values import suggest_directory

IMPORTERS: Final[tuple[Importer, ...]] = (MARIAN, JOEYNMT, MARIAN_FILES, FAIRSEQ)
EXPECTED: Final = f"expected {' or '.join(importer.expected for importer in IMPORTERS)}"


def read_source_model(path: Path, options: ImportOptions) -> ImportedModel:
    """Read a model of any supported toolkit."""
    if not path.exists():
        hint = suggest_directory(path, lambda other: find_importer(other) is not None) or f"; {EXPECTED}"
        raise ConversionError(f"{path} does not exist{hint}", code="model_not_found")
    if path.is_dir() and is_model(path):
        raise ConversionError(f"{path} is already a Dragoman model; use it directly", code="already_imported")
    importer = find_importer(path)
    if importer is None:
        held = f"it has {format_names(path.iterdir())}" if any(path.iterdir()) else "it is empty"
        raise ConversionError(f"{path} is not a supported model ({held}); {EXPECTED}", code="not_a_model")
    for name, value in vars(options).items():
        if value and name not in importer.options:
            raise ConversionError(
                f"`{name}` has no effect for {importer.toolkit} models; drop it", code="unused_option"
            )
    return importer.read(path, options)


def find_importer(path: Path) -> Importer | None:
    """Return the importer that recognizes the files at a path, if any."""
    return next((importer for importer in IMPORTERS if importer.recognizes(path)), None)
