"""Save and load tokenizers: the library's own model file, and `<name>.json` with its kind and SHA-256."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from dragoman.errors import NotATokenizerError, TextError
from dragoman.files import parse_json, write_atomically
from dragoman.text.normalization import VERSION
from dragoman.text.sentencepiece import SentencePieceTokenizer
from dragoman.text.tokenizer import Tokenizer
from dragoman.values import rename_keys, render_value, suggest, suggest_directory

TOKENIZER_FORMAT: Final = 1
TARGETS_FORMAT: Final = 2  # with tokens for target languages, which older versions cannot read
OLD_KEYS: Final = {"normaliser": "normalizer"}  # written by earlier versions
NAME_PATTERN: Final = r"[\w-][\w.-]*"
DESCRIPTION_TYPES: Final = {"format": int, "kind": str, "vocabulary_size": int, "normalizer": int, "sha256": str}
LEARNED_SUFFIXES: Final = {"bpe": ".spm", "unigram": ".spm", "wordpiece": ".tokenizer.json"}
TOKENIZER_SUFFIXES: Final = {**LEARNED_SUFFIXES, "imported": ".imported.json"}
"""The file suffix of each kind; tokenizers of other toolkits are imported, not learned."""


def make_tokenizer(kind: str, model: bytes, targets: Sequence[str]) -> Tokenizer:
    """Create a tokenizer from its model's bytes."""
    if kind == "imported":
        from dragoman.text.imported.tokenizer import ImportedTokenizer  # rare, and takes time to import

        return ImportedTokenizer(kind, model, targets)
    if kind == "wordpiece":
        from dragoman.text.wordpiece import WordPieceTokenizer

        return WordPieceTokenizer(kind, model, targets)
    return SentencePieceTokenizer(kind, model, targets)


def check_name(name: str) -> None:
    """Reject names that are not valid for a tokenizer's files."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise TextError(
            f"{name!r} is not a tokenizer name; use letters, digits, '-', '_' and '.', such as 'shared' or 'source'",
            code="invalid_name",
        )


def save_tokenizer(
    kind: str, model: bytes, vocabulary_size: int, directory: str | Path, name: str, targets: Sequence[str] = ()
) -> list[Path]:
    """Write the model, then its description, so that a half-written model never has one."""
    check_name(name)
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    path, description = directory / (name + TOKENIZER_SUFFIXES[kind]), directory / f"{name}.json"
    about = {
        "format": TARGETS_FORMAT if targets else TOKENIZER_FORMAT,
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
    """Load a tokenizer by name; its model must match its description."""
    check_name(name)
    description = Path(directory) / f"{name}.json"
    if not description.exists():
        raise TextError(explain_missing(Path(directory), name), code="tokenizer_not_found")
    about = read_description(description)
    kind = about["kind"]
    path = description.with_name(name + TOKENIZER_SUFFIXES[kind])
    model = read_file(path)
    if hashlib.sha256(model).hexdigest() != about["sha256"]:
        raise TextError(
            f"{path} is not the file that {description.name} describes (its SHA-256 differs): it was changed or "
            "damaged; copy the tokenizer again, or learn it again",
            code="file_damaged",
        )
    try:
        tokenizer = make_tokenizer(kind, model, about.get("targets", ()))
    except TextError as error:
        raise NotATokenizerError(f"{path} cannot be loaded: {error}") from None
    if tokenizer.vocabulary_size != about["vocabulary_size"]:
        raise TextError(
            f"{path} has {tokenizer.vocabulary_size} tokens, but {description} lists {about['vocabulary_size']}; "
            "copy the tokenizer again, or learn it again",
            code="file_damaged",
        )
    return tokenizer


def read_description(path: Path) -> dict[str, Any]:
    """Read and check a `<name>.json`."""
    content = read_file(path)
    try:
        about = rename_keys(parse_json(content), OLD_KEYS)
        wrong = [key for key, kind in DESCRIPTION_TYPES.items() if type(about[key]) is not kind]
    except (ValueError, KeyError, TypeError) as error:
        raise NotATokenizerError(f"{path} does not describe a tokenizer ({type(error).__name__}: {error})") from None
    if wrong:
        raise NotATokenizerError(f"{path} does not describe a tokenizer: {wrong[0]}={render_value(about[wrong[0]])}")
    targets = about.get("targets", [])
    if not isinstance(targets, list) or not all(isinstance(code, str) for code in targets):
        raise NotATokenizerError(f"{path} does not describe a tokenizer: targets={render_value(targets)}")
    known = about["format"] == (TARGETS_FORMAT if "targets" in about else TOKENIZER_FORMAT)
    if not known or about["normalizer"] != VERSION or about["kind"] not in TOKENIZER_SUFFIXES:
        raise TextError(
            f"{path} has format {render_value(about['format'])}, normalizer {render_value(about['normalizer'])}, kind "
            f"{render_value(about['kind'])}; this version reads format {TOKENIZER_FORMAT} ({TARGETS_FORMAT} with "
            f"target languages), normalizer {VERSION} and {', '.join(TOKENIZER_SUFFIXES)}; use the version that wrote "
            "it",
            code="unsupported_format",
        )
    return dict(about)


def read_file(path: Path) -> bytes:
    """The bytes of a file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise TextError(f"{path} does not exist; copy or learn the tokenizer again", code="file_missing") from None
    except OSError as error:
        raise TextError(f"{path} cannot be read: {error.strerror}", code="file_unreadable") from None


def explain_missing(directory: Path, name: str) -> str:
    """The reason why there is no such tokenizer, with a suggestion."""
    if there := list_tokenizers(directory):
        return f"{directory} has no tokenizer with name={name!r}{suggest(name, there)}"
    lacking = f"{directory} does not exist; expected a directory with a tokenizer"
    if directory.is_dir():
        lacking = f"{directory} has no tokenizer"
    elif directory.exists():
        lacking = f"{directory} is a file; expected a directory with a tokenizer"
    hint = suggest_directory(directory, lambda path: bool(list_tokenizers(path)))
    endings = " or ".join(dict.fromkeys(name + ending for ending in LEARNED_SUFFIXES.values()))
    return (
        f"{lacking} ({name}.json and {endings}); give a model directory, or the tokenizers of prepared data{hint or ''}"
    )


def list_tokenizers(directory: Path) -> list[str]:
    """The names of the tokenizers in a directory."""
    endings = {*TOKENIZER_SUFFIXES.values()}
    return sorted(
        path.stem
        for path in directory.glob("*.json")
        if any(path.with_name(path.stem + ending).is_file() for ending in endings)
    )
