"""The files of a model directory: their names, the tokenizers, and verification by SHA-256.

    my-model/           model.safetensors, recipe.toml, model.json, the tokenizers, card.md, manifest.json
                        (a forecaster has no tokenizers; `kind` in model.json tells the two apart)
                        (an adapter has adapter.safetensors and adapter.json instead of weights and tokenizers)
    my-model/training/  the training run: metrics, checkpoints, prepared data; not needed to translate

The manifest has the SHA-256 of every file that is loaded. The card is not hashed, so users may edit it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from dragoman.errors import DamagedError, SearchError
from dragoman.files import MANIFEST, manifest_entries, parse_json, verify_manifest
from dragoman.native.cache import cache_directory, private_directory, read_private
from dragoman.text import Tokenizer, load_tokenizer
from dragoman.text.store import TOKENIZER_SUFFIXES, read_description

WEIGHTS: Final = "model.safetensors"
RECIPE: Final = "recipe.toml"
INFO: Final = "model.json"
CARD: Final = "card.md"
TRAINING: Final = "training"
ADAPTER_WEIGHTS: Final = "adapter.safetensors"
ADAPTER_INFO: Final = "adapter.json"
REQUIRED: Final = (WEIGHTS, RECIPE, INFO)  # besides the tokenizer files and the manifest
ADAPTER_REQUIRED: Final = (ADAPTER_WEIGHTS, ADAPTER_INFO, RECIPE, INFO)
EDITABLE: Final = (CARD,)
Kind = Literal["translation", "forecast", "adapter"]


def model_kind(directory: Path) -> Kind:
    """What the model in a directory is for; a `model.json` that cannot be read is reported by whoever loads it."""
    if (directory / ADAPTER_INFO).is_file():
        return "adapter"
    with suppress(OSError, ValueError, AttributeError):
        if parse_json((directory / INFO).read_bytes()).get("kind") == "forecast":
            return "forecast"
    return "translation"


def tokenizer_names(files: Container[str]) -> tuple[str, ...]:
    """Return the tokenizer names that the files of a directory imply."""
    return ("shared",) if "shared.json" in files else ("source", "target")


def load_tokenizers(directory: Path) -> tuple[Tokenizer, Tokenizer]:
    """Load the tokenizers of source and target; a shared tokenizer is returned twice."""
    names = tokenizer_names({path.name for path in directory.glob("*.json")})
    loaded = [load_tokenizer(directory, name) for name in names]
    return loaded[0], loaded[-1]


def save_tokenizers(directory: Path, source: Tokenizer, target: Tokenizer) -> None:
    """Write the tokenizer files; a shared tokenizer is written once, as `shared`."""
    named = {"shared": source} if source is target else {"source": source, "target": target}
    for name, tokenizer in named.items():
        tokenizer.save(directory, name)


def check_same_tokens(directory: Path, other: Path) -> None:
    """Raise SearchError if the vocabularies of two verified models differ, by the hashes of their tokenizers."""
    for side in (0, -1):
        (path, digest, targets), (other_path, *others) = (tokenizer_file(place, side) for place in (directory, other))
        if [digest, targets] != others:
            what = f"{other_path} differs from {path}" if digest != others[0] else "their target languages differ"
            raise SearchError(
                f"{other} cannot form an ensemble with {directory}: {what}, so their token ids do not match; "
                "train both on the same prepared data, or fine-tune one from the other",
                code="vocabulary_mismatch",
            )


def tokenizer_file(directory: Path, side: int) -> tuple[Path, str, list[str]]:
    """Return the tokenizer file of source (0) or target (-1), its SHA-256, and its target languages."""
    files = manifest_entries(directory)
    name = tokenizer_names(files)[side]
    found = next(name + suffix for suffix in TOKENIZER_SUFFIXES.values() if name + suffix in files)
    return directory / found, files[found][1], read_description(directory / f"{name}.json").get("targets", [])


def hashed_files(directory: Path) -> dict[str, tuple[int, str]]:
    """Return size and SHA-256 of each file from the manifest, which must list every file that a model needs."""
    kind = model_kind(directory)
    files = manifest_entries(directory, ADAPTER_REQUIRED if kind == "adapter" else REQUIRED, EDITABLE)
    for name in tokenizer_names(files) if kind == "translation" else ():
        if f"{name}.json" not in files or not any(name + suffix in files for suffix in TOKENIZER_SUFFIXES.values()):
            message = f"{directory / MANIFEST} does not list {name}.json and its tokenizer; restore it from a copy"
            raise DamagedError(message, code="manifest_incomplete")
    return files


def verify_model(directory: Path) -> None:
    """Raise DamagedError if a file is missing or has changed; the card may be edited or removed."""
    hashed_files(directory)
    verify_manifest(directory, ignored=EDITABLE)


def verify_model_cached(directory: Path) -> None:
    """Verify a model, but hash its files only if they changed since the last time.

    Verified models are recorded in the user's cache directory, keyed by the manifest and by size, times and inode of
    each file. A cache directory that other users can write to is ignored. Whether the manifest is complete is checked
    every time.
    """
    files = hashed_files(directory)
    try:
        manifest = (directory / MANIFEST).read_bytes()
        stats = [(name, (directory / name).stat()) for name in sorted(files)]
    except (OSError, ValueError):
        verify_model(directory)  # raises the error that describes the problem
        return
    state = [(name, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino, s.st_dev) for name, s in stats]
    key = hashlib.sha256(repr((str(directory.resolve()), manifest, state)).encode()).hexdigest()
    with suppress(OSError):  # not verified yet, or not a private cache
        read_private(private_directory(cache_directory() / "verified") / key)
        return
    verify_model(directory)
    with suppress(OSError):  # without a cache, the next start is slower
        (private_directory(cache_directory() / "verified") / key).touch(mode=0o600)
