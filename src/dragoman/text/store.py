"""Tokenizers as files: the library's own model, and beside it `<name>.json`, which says what it is and confirms it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from dragoman.errors import TextError
from dragoman.files import write_atomically
from dragoman.text.imported.tokenizer import KIND as IMPORTED
from dragoman.text.imported.tokenizer import ImportedTokenizer
from dragoman.text.normalization import VERSION
from dragoman.text.sentencepiece import SentencePieceTokenizer
from dragoman.text.tokenizer import SubwordTokenizer, Tokenizer
from dragoman.text.wordpiece import WordPieceTokenizer
from dragoman.values import rename_keys, suggest, suggest_directory

FORMAT: Final = 1
WITH_TARGETS: Final = 2  # the format of those with tokens for target languages, which older versions do not know
BEFORE: Final = {"normaliser": "normalizer"}  # keys as they were written before
NAME: Final = r"[\w-][\w.-]*"
DESCRIBED: Final = {"format": int, "kind": str, "vocabulary_size": int, "normalizer": int, "sha256": str}
LEARNED: Final[dict[str, tuple[str, type[SubwordTokenizer]]]] = {
    "bpe": (".spm", SentencePieceTokenizer),
    "unigram": (".spm", SentencePieceTokenizer),
    "wordpiece": (".tokenizer.json", WordPieceTokenizer),
}
KINDS: Final[dict[str, tuple[str, type[SubwordTokenizer | ImportedTokenizer]]]] = {
    **LEARNED,
    IMPORTED: (".imported.json", ImportedTokenizer),
}
"""Each kind with the ending of its file; those of other toolkits are not learned, but imported."""


def from_model(kind: str, model: bytes, targets: Sequence[str] = ()) -> SubwordTokenizer:
    """A tokenizer that was learned here, from its model's bytes."""
    make: Any = LEARNED[kind][1]
    tokenizer: SubwordTokenizer = make(kind, model, targets)
    return tokenizer


def save(
    kind: str, model: bytes, vocabulary_size: int, directory: Path, name: str, targets: Sequence[str] = ()
) -> list[Path]:
    """Write the model, then the description: what is half-written is never confirmed."""
    if not re.fullmatch(NAME, name):
        raise TextError(
            f"a tokenizer cannot be saved as {name!r}; use letters, digits, '-', '_' and '.', as in 'shared'",
            code="invalid_name",
        )
    directory.mkdir(parents=True, exist_ok=True)
    path, description = directory / (name + KINDS[kind][0]), directory / f"{name}.json"
    about = {
        "format": WITH_TARGETS if targets else FORMAT,
        "kind": kind,
        "vocabulary_size": vocabulary_size,
        "normalizer": VERSION,
        "model": path.name,
        "sha256": hashlib.sha256(model).hexdigest(),
        **({"targets": list(targets)} if targets else {}),
    }
    write_atomically(path, model)
    write_atomically(description, (json.dumps(about, indent=2) + "\n").encode())
    return [path, description]


def load_tokenizer(directory: Path, name: str) -> Tokenizer:
    """The tokenizer that was saved under this name; what its description does not confirm is not loaded."""
    if not re.fullmatch(NAME, name):
        raise TextError(
            f"{name!r} is no name of a tokenizer; the usual ones are 'shared', or 'source' and 'target'",
            code="invalid_name",
        )
    description = Path(directory) / f"{name}.json"
    if not description.exists():
        raise TextError(why_none(Path(directory), name), code="tokenizer_not_found")
    about = read_description(description)
    kind = about["kind"]
    path = description.with_name(name + KINDS[kind][0])
    model = read(path)
    if hashlib.sha256(model).hexdigest() != about["sha256"]:
        raise TextError(
            f"{path} is not the file that {description.name} describes (its SHA-256 differs): it was changed or "
            "damaged; copy the tokenizer again, or learn it again",
            code="file_damaged",
        )
    try:
        make: Any = KINDS[kind][1]
        tokenizer: Tokenizer = make(kind, model, about.get("targets", ()))
    except TextError as error:
        raise TextError(f"{path} cannot be loaded: {error}", code="not_a_tokenizer") from None
    if tokenizer.vocabulary_size != about["vocabulary_size"]:
        raise TextError(
            f"{path} holds {tokenizer.vocabulary_size} tokens, but {description} says {about['vocabulary_size']}; "
            "copy the tokenizer again, or learn it again",
            code="file_damaged",
        )
    return tokenizer


def read_description(path: Path) -> dict[str, Any]:
    """The checked content of a `<name>.json`."""
    content = read(path)
    try:
        about = rename_keys(json.loads(content), BEFORE)
        wrong = [key for key, kind in DESCRIBED.items() if type(about[key]) is not kind]
    except (ValueError, KeyError, TypeError) as error:
        raise TextError(
            f"{path} does not describe a tokenizer ({type(error).__name__}: {error})", code="not_a_tokenizer"
        ) from None
    if wrong:
        raise TextError(f"{path} does not describe a tokenizer: {wrong[0]}={about[wrong[0]]!r}", code="not_a_tokenizer")
    if not isinstance(about.get("targets", []), list):
        raise TextError(f"{path} does not describe a tokenizer: targets={about['targets']!r}", code="not_a_tokenizer")
    known = about["format"] == (WITH_TARGETS if "targets" in about else FORMAT)
    if not known or about["normalizer"] != VERSION or about["kind"] not in KINDS:
        raise TextError(
            f"{path} has format {about['format']}, normalizer {about['normalizer']}, kind {about['kind']!r}; this "
            f"Dragoman reads format {FORMAT} (with target languages {WITH_TARGETS}), normalizer {VERSION} and "
            f"{', '.join(KINDS)}; use the one that wrote it",
            code="unknown_format",
        )
    return dict(about)


def read(path: Path) -> bytes:
    """The bytes of a file, or a TextError that says what is wrong with it."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise TextError(
            f"{path} does not exist; copy the tokenizer again, or learn it again", code="file_missing"
        ) from None
    except OSError as error:
        raise TextError(f"{path} cannot be read: {error.strerror}", code="file_unreadable") from None


def why_none(directory: Path, name: str) -> str:
    """What there is in the place of a tokenizer, and what was perhaps meant."""
    if there := names_in(directory):
        return f"{directory} has no tokenizer of the name (--name) {name!r}{suggest(name, there)}"
    lacking = f"there is no directory {directory}"
    if directory.is_dir():
        lacking = f"{directory} has no tokenizer"
    elif directory.exists():
        lacking = f"{directory} is a file, and no directory with a tokenizer"
    meant = suggest_directory(directory, lambda place: bool(names_in(place)))
    endings = " or ".join(dict.fromkeys(name + ending for ending, _ in LEARNED.values()))
    return (
        f"{lacking}; a tokenizer is {name}.json and {endings} beside it, in a model or where `dragoman prepare` puts "
        f"them{meant or '; give such a directory'}"
    )


def names_in(directory: Path) -> list[str]:
    """The names of the tokenizers in a directory."""
    endings = {ending for ending, _ in KINDS.values()}
    return sorted(
        path.stem
        for path in directory.glob("*.json")
        if any(path.with_name(path.stem + ending).is_file() for ending in endings)
    )
