"""A model directory, found and checked without PyTorch, so that a quick engine can start quickly."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from dragoman.errors import DamagedError, SearchError
from dragoman.files import MANIFEST, NEEDED, RECIPE, is_model, promised, verify_manifest
from dragoman.native.build import cache_directory
from dragoman.text import Tokenizer, load_tokenizer
from dragoman.text.store import KINDS, read_description
from dragoman.values import describe_value, suggest, suggest_directory


def places() -> list[Path]:
    """Where models are looked for by name: `$DRAGOMAN_MODELS`, then the user's data directory."""
    named = [Path(place) for place in os.environ.get("DRAGOMAN_MODELS", "").split(os.pathsep) if place]
    try:
        data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    except RuntimeError:  # a user without a home
        return named
    return [*named, data / "dragoman" / "models"]


def find_model(model: str | Path) -> Path:
    """The directory of a model, given as such or by its name; refused where it holds no finished model."""
    if not isinstance(model, str | os.PathLike):
        raise SearchError(f"a model is the path of a directory, or a name; got {describe_value(model)}")
    path = Path(model)
    if not path.is_dir():
        if path.exists():
            raise DamagedError(f"{path} is a file; a model is a directory: the --out of a finished training")
        if path.is_symlink():
            raise DamagedError(f"{path} is a link to {path.readlink()}, which is not there")
        found = [place / path for place in places() if (place / path).is_dir()]
        if not found:
            near = suggest_directory(path, is_model)
            if near and len(path.parts) > 1:  # a path, and no name
                raise DamagedError(f"there is no directory {path}{near}")
            here = sorted({entry.parent.name for place in places() for entry in place.glob(f"*/{MANIFEST}")})
            there = suggest(path.name, here).removeprefix("; ") if here else "there are none"
            where = " or ".join(map(str, places())) or "$DRAGOMAN_MODELS"
            raise DamagedError(
                f"there is no directory {path}, and no model of that name in {where} ({there})"
                f"{near or '; give the --out of a finished training'}"
            )
        path = found[0]
    if is_model(path):
        return path
    if (path / "training").is_dir():
        raise DamagedError(
            f"{path} holds a training that has not ended: its model is written when it does; if nobody is training it "
            "any more, run the same `dragoman train` again to go on"
        )
    hint = suggest_directory(path, is_model) or "; give the --out of a finished training"
    raise DamagedError(f"{path} is not a model: it has no {RECIPE} with a {MANIFEST} beside it{hint}")


def verify_once(directory: Path) -> None:
    """Verify a model as `verify_manifest` does, but read its files only when they are not those of the last time.

    What was verified is remembered by the manifest's content and by each file's size, time of change and place on the
    disk, in the user's cache directory. That all a model needs is promised is looked at every time.
    """
    files = promised(directory, NEEDED)
    for name in ("shared",) if "shared.json" in files else ("source", "target"):
        if f"{name}.json" not in files or not any(name + ending in files for ending, _ in KINDS.values()):
            raise DamagedError(
                f"{directory / MANIFEST} does not name {name}.json and the tokenizer's model; restore it from a copy"
            )
    try:
        manifest = (directory / MANIFEST).read_bytes()
        stats = [(name, (directory / name).stat()) for name in sorted(files)]
    except (OSError, ValueError):
        verify_manifest(directory)  # which says what is wrong
        return
    seen = [(name, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino, s.st_dev) for name, s in stats]
    known = hashlib.sha256(repr((str(directory.resolve()), manifest, seen)).encode()).hexdigest()
    marker = cache_directory() / "verified" / known
    with suppress(OSError):  # a directory that may not be entered
        if marker.exists():
            return
    verify_manifest(directory)
    with suppress(OSError):  # a cache that cannot be written makes the next start slower, and nothing else
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()


def models_beside(directory: Path, ensemble: str | Path | Iterable[str | Path] | None) -> list[Path]:
    """The models that translate together with a first one: found, verified, and refused where their tokens differ."""
    if ensemble is None or isinstance(ensemble, str | os.PathLike) or not isinstance(ensemble, Iterable):
        ensemble = [] if ensemble is None else [ensemble]
    others = [find_model(other) for other in ensemble]
    for other in others:
        verify_once(other)
        refuse_other_tokens(directory, other)
    return others


def refuse_other_tokens(directory: Path, other: Path) -> None:
    """Refuse a model whose ids mean other tokens than those of the first, by the content of the tokenizers' files."""
    for side in ("source", "target"):
        (ours, *our_content), (theirs, *their_content) = (tokenizer_file(place, side) for place in (directory, other))
        if our_content != their_content:
            raise SearchError(
                f"{other} cannot translate together with {directory}: {theirs} is not what {ours} is, so that the same "
                "number means other tokens; train both on the same prepared data, or one with --from the other"
            )


def tokenizer_file(directory: Path, side: str) -> tuple[Path, str, list[str]]:
    """The file that holds the tokens of a side, in a model that has been verified, its SHA-256 and target languages."""
    files = promised(directory)
    name = "shared" if "shared.json" in files else side
    found = next(name + ending for ending, _ in KINDS.values() if name + ending in files)
    return directory / found, files[found][1], read_description(directory / f"{name}.json").get("targets", [])


def open_tokenizers(directory: Path) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of the source and of the target, one and the same where the vocabulary is shared."""
    if (directory / "shared.json").is_file():
        shared = load_tokenizer(directory, "shared")
        return shared, shared
    return load_tokenizer(directory, "source"), load_tokenizer(directory, "target")
