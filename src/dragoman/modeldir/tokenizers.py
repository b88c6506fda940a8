"""The tokenizers of a model directory: one shared, or one for each side."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from dragoman.errors import SearchError
from dragoman.files import manifest_entries
from dragoman.text import Tokenizer, load_tokenizer
from dragoman.text.store import TOKENIZER_KINDS, read_description


def tokenizer_names(files: Container[str]) -> tuple[str, ...]:
    """The names of the tokenizers among the files of a directory."""
    return ("shared",) if "shared.json" in files else ("source", "target")


def load_tokenizers(directory: Path) -> tuple[Tokenizer, Tokenizer]:
    """Load the tokenizers of source and target; a shared one is the same object twice."""
    names = tokenizer_names({path.name for path in directory.glob("*.json")})
    loaded = [load_tokenizer(directory, name) for name in names]
    return loaded[0], loaded[-1]


def save_tokenizers(directory: Path, source: Tokenizer, target: Tokenizer) -> None:
    """Write the tokenizers' files; one that serves both sides is written once, as `shared`."""
    named = {"shared": source} if source is target else {"source": source, "target": target}
    for name, tokenizer in named.items():
        tokenizer.save(directory, name)


def check_same_tokens(directory: Path, other: Path) -> None:
    """Raise SearchError if the ids of two verified models mean different tokens, by the hashes of their tokenizers."""
    for side in (0, -1):
        (path, digest, targets), (other_path, *others) = (tokenizer_file(place, side) for place in (directory, other))
        if [digest, targets] != others:
            what = f"{other_path} differs from {path}" if digest != others[0] else "their target languages differ"
            raise SearchError(
                f"{other} cannot be in an ensemble with {directory}: {what}, so the same id means different tokens; "
                "train both on the same prepared data, or one with --from the other",
                code="different_tokenizers",
            )


def tokenizer_file(directory: Path, side: int) -> tuple[Path, str, list[str]]:
    """The file with the tokens of the source (0) or target (-1), its SHA-256, and its target languages."""
    files = manifest_entries(directory)
    name = tokenizer_names(files)[side]
    found = next(name + suffix for suffix, _ in TOKENIZER_KINDS.values() if name + suffix in files)
    return directory / found, files[found][1], read_description(directory / f"{name}.json").get("targets", [])
