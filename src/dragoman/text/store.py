"""Tokenisers as files: the library's own model, and beside it `<name>.json`, which says what it is and confirms it."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, Final

from dragoman.errors import TextError
from dragoman.files import ABOUT, MANIFEST, write_safely
from dragoman.text.normalise import VERSION
from dragoman.text.sentence_piece import SentencePieceTokeniser
from dragoman.text.tokeniser import PieceTokeniser, Tokeniser
from dragoman.text.word_piece import WordPieceTokeniser

FORMAT: Final = 1
NAME: Final = r"[\w-][\w.-]*"
DESCRIBED: Final = {"format": int, "kind": str, "vocabulary_size": int, "normaliser": int, "sha256": str}
KINDS: Final[dict[str, tuple[str, type[PieceTokeniser]]]] = {
    "bpe": (".spm", SentencePieceTokeniser),
    "unigram": (".spm", SentencePieceTokeniser),
    "wordpiece": (".tokenizer.json", WordPieceTokeniser),
}


def from_model(kind: str, model: bytes) -> PieceTokeniser:
    """A tokeniser from its model's bytes."""
    make: Any = KINDS[kind][1]
    tokeniser: PieceTokeniser = make(kind, model)
    return tokeniser


def save(kind: str, model: bytes, vocabulary_size: int, directory: Path, name: str) -> list[Path]:
    """Write the model, then the description: what is half-written is never confirmed."""
    if not re.fullmatch(NAME, name):
        raise TextError(
            f"a tokeniser cannot be saved as {name!r}; use letters, digits, '-', '_' and '.', as in 'shared'"
        )
    directory.mkdir(parents=True, exist_ok=True)
    path, description = directory / (name + KINDS[kind][0]), directory / f"{name}.json"
    about = {
        "format": FORMAT,
        "kind": kind,
        "vocabulary_size": vocabulary_size,
        "normaliser": VERSION,
        "model": path.name,
        "sha256": hashlib.sha256(model).hexdigest(),
    }
    write_safely(path, model)
    write_safely(description, (json.dumps(about, indent=2) + "\n").encode())
    return [path, description]


def load_tokeniser(directory: Path, name: str) -> Tokeniser:
    """The tokeniser that was saved under this name; what its description does not confirm is not loaded."""
    if not re.fullmatch(NAME, name):
        raise TextError(f"{name!r} is no name of a tokeniser; the usual ones are 'shared', or 'source' and 'target'")
    description = Path(directory) / f"{name}.json"
    about = read_description(description)
    kind = about["kind"]
    path = description.with_name(name + KINDS[kind][0])
    model = read(path)
    if hashlib.sha256(model).hexdigest() != about["sha256"]:
        raise TextError(
            f"{path} is not the file that {description.name} describes (its SHA-256 differs): it was changed or "
            "damaged; copy the tokeniser again, or learn it again"
        )
    try:
        tokeniser = from_model(kind, model)
    except TextError as error:
        raise TextError(f"{path} cannot be loaded: {error}") from None
    if tokeniser.vocabulary_size != about["vocabulary_size"]:
        raise TextError(
            f"{path} holds {tokeniser.vocabulary_size} pieces, but {description} says {about['vocabulary_size']}; "
            "copy the tokeniser again, or learn it again"
        )
    return tokeniser


def read_description(path: Path) -> dict[str, Any]:
    """The checked content of a `<name>.json`."""
    content = read(path)
    try:
        about = json.loads(content)
        wrong = [key for key, kind in DESCRIBED.items() if type(about[key]) is not kind]
    except (ValueError, KeyError, TypeError) as error:
        raise TextError(f"{path} does not describe a tokeniser ({type(error).__name__}: {error})") from None
    if wrong:
        raise TextError(f"{path} does not describe a tokeniser: {wrong[0]}={about[wrong[0]]!r}")
    if about["format"] != FORMAT or about["normaliser"] != VERSION or about["kind"] not in KINDS:
        raise TextError(
            f"{path} has format {about['format']}, normaliser {about['normaliser']}, kind {about['kind']!r}; this "
            f"Dragoman reads format {FORMAT}, normaliser {VERSION} and {', '.join(KINDS)}; use the one that wrote it"
        )
    return dict(about)


def read(path: Path) -> bytes:
    """The bytes of a file, or a TextError that says what there is instead."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        others = (MANIFEST, ABOUT)  # of a model directory
        found = (p for p in path.parent.glob("*.json") if p.name not in others and not p.stem.endswith(".tokenizer"))
        there = sorted(p.stem for p in found)
        hint = f"there are: {', '.join(there)}" if there else "there is no tokeniser in that directory"
        raise TextError(f"{path} does not exist; {hint}") from None
    except OSError as error:
        raise TextError(f"{path} cannot be read: {error.strerror}") from None
