"""The inputs of prepared data, recorded for later comparison: files with their hashes, and settings."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import groupby
from pathlib import Path
from typing import Any

from dragoman.data.corpora.compression import check_file
from dragoman.data.corpora.corpus import Corpus
from dragoman.data.prepared import DEPTHS, LINKS, OLD_NAMES, PICTURE, SIDES, TOKENIZERS, Prepared, read_manifest
from dragoman.errors import DataError
from dragoman.files import MANIFEST, format_names, sha256
from dragoman.values import plural, rename_keys

# Every name that `prepare` writes.
WRITTEN = {
    *(MANIFEST, TOKENIZERS, *OLD_NAMES, PICTURE),
    *(
        f"{split}.{of}.{what}"
        for split in ("train", "valid")
        for of in (*SIDES, DEPTHS, LINKS)
        for what in ("ids", "offsets")
    ),
}


class OtherInputsError(DataError):
    """Prepared data whose inputs differ from those given now."""

    default_code = "run_mismatch"

    def __init__(self, out: Path, changed: Sequence[str]) -> None:
        self.changed = "\n  ".join(changed)
        super().__init__(
            f"{out} was prepared from other inputs:\n  {self.changed}\nChoose another directory, or replace this one "
            "(--overwrite on the command line, overwrite=True in Python)"
        )


class InputHashes:
    """SHA-256 of input files, computed while they are read; `advance` is called with the number of new bytes."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self.advance = advance
        self.digests: dict[Path, str] = {}

    def open(self, path: Path) -> HashedFile:
        """Open a file that will be read to its end."""
        return HashedFile(path, self)

    def of(self, path: Path) -> str:
        """The digest of a file; reads the file unless that has been done already."""
        if path not in self.digests:
            self.digests[path] = sha256(path)
        return self.digests[path]


class HashedFile(io.FileIO):
    """A file whose digest is available once it has been read from beginning to end."""

    def __init__(self, path: Path, hashes: InputHashes) -> None:
        super().__init__(path)
        self.path, self.hashes = path, hashes
        self.sha, self.position, self.furthest = hashlib.sha256(), 0, 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to `size` bytes."""
        data = super().read(-1 if size is None else size)
        self.sha.update(data)
        self.position += len(data)
        if self.position > self.furthest:
            self.hashes.advance(self.position - self.furthest)
            self.furthest = self.position
        if not data and size:
            self.hashes.digests[self.path] = self.sha.hexdigest()
        return data

    def seek(self, position: int, whence: int = 0, /) -> int:
        """Return to the beginning; other positions are not supported."""
        assert position == whence == 0
        self.sha, self.position = hashlib.sha256(), 0
        return super().seek(0)


def check_inputs(corpora: Sequence[Corpus], valid: Sequence[Corpus], hashes: InputHashes) -> None:
    """Reject files that cannot be read, and files that are given twice, under any name.

    `valid` marks the corpora of the validation set. Corpora that name their target languages may share files: the
    same sentences may be translated into several languages. Only files of equal size are read here.
    """
    held_out = {id(corpus) for corpus in valid}
    files = [(path, corpus) for corpus in corpora for path in corpus.files]
    seen: dict[tuple[int, int], tuple[Path, Corpus]] = {}
    for path, corpus in files:
        check_file(path)
        status = path.stat()
        if not status.st_size:
            holds = "trees in CoNLL-U" if path == corpus.source_trees else "a sentence per line"
            raise DataError(f"{path} is empty; expected {holds}", code="file_empty")
        first = seen.get((status.st_dev, status.st_ino))
        seen[status.st_dev, status.st_ino] = path, corpus
        if first is not None and not may_share(first[1], corpus, held_out):
            other = "" if first[0] == path else f" (also as {first[0]})"
            if id(corpus) in held_out and id(first[1]) not in held_out:
                raise DataError(
                    f"{path} is also a training file{other}; scores on training data are meaningless: give other "
                    "sentences, or omit the validation set to hold out some pairs",
                    code="validation_in_training",
                )
            advice = duplicate_advice(first[1], corpus)
            raise DataError(
                f"{path} is given twice{other}; give a different file for each side of each corpus, and {advice}",
                code="duplicate_file",
            )
    for _, alike in groupby(sorted(files, key=file_size), file_size):
        check_contents_differ([*alike], held_out, hashes)


def file_size(file: tuple[Path, Corpus]) -> int:
    """The size of a file in bytes."""
    return file[0].stat().st_size


def check_contents_differ(files: Sequence[tuple[Path, Corpus]], held_out: Set[int], hashes: InputHashes) -> None:
    """Reject files with the same content, among files of the same size."""
    contents: dict[str, tuple[Path, Corpus]] = {}
    for path, corpus in files if len(files) > 1 else ():
        same = contents.get(hashes.of(path))
        contents[hashes.of(path)] = path, corpus
        if same is not None and not may_share(same[1], corpus, held_out):
            raise DataError(
                f"{path.name} and {same[0].name} have the same content; give a different file for each side, and "
                f"{duplicate_advice(same[1], corpus)}",
                code="duplicate_file",
            )


def duplicate_advice(one: Corpus, other: Corpus) -> str:
    """What to do about a file of two corpora: other targets are another language, equal ones a repetition."""
    if one.target != other.target and not (one.names_target and other.names_target):
        return "name the language of each target with --to (`to` in Python) to train a multilingual model"
    return "use a weight to repeat a corpus"


def may_share(one: Corpus, other: Corpus, held_out: Set[int]) -> bool:
    """Whether two corpora may share a file: both name their target languages, and they are not the same corpus."""
    apart = (id(one) in held_out) != (id(other) in held_out)
    same = (one.files, one.keys) == (other.files, other.keys)  # also one corpus whose two sides are the same file
    return one.names_target and other.names_target and not apart and not same


def describe_inputs(corpora: Iterable[Corpus], hashes: InputHashes) -> list[dict[str, Any]]:
    """How each corpus is read, and the size and SHA-256 of its files."""
    return [
        {
            **{key: getattr(corpus, key) for key in ("to", "to_key") if getattr(corpus, key)},
            "form": corpus.form,
            "source_key": corpus.source_key,
            "target_key": corpus.target_key,
            "files": [{"name": p.name, "bytes": p.stat().st_size, "sha256": hashes.of(p)} for p in corpus.files],
        }
        for corpus in corpora
    ]


def file_states(corpora: Sequence[Corpus]) -> list[tuple[Path, int, int]]:
    """Size and modification time of every file, to notice a change while reading."""
    return [(path, path.stat().st_size, path.stat().st_mtime_ns) for corpus in corpora for path in corpus.files]


def check_unchanged(corpora: Sequence[Corpus], before: Sequence[tuple[Path, int, int]]) -> None:
    """Raise if a file has changed since `before`, its state when reading began."""
    for now, then in zip(file_states(corpora), before, strict=True):
        if now != then:
            raise DataError(
                f"{now[0]} changed while it was being read; prepare again when it is complete", code="file_changed"
            )


def find_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The differences between two sets of inputs, with both values."""
    found = []
    for kind in ("corpora", "valid"):
        before, now = file_rows(old[kind]), file_rows(new[kind])
        if len(before) != len(now):
            found.append(f"{kind}: {plural(len(before), 'file')} before, {len(now)} now")
            continue
        for was, is_now in zip(before, now, strict=True):
            name = is_now["name"] if was["name"] == is_now["name"] else f"{is_now['name']} instead of {was['name']}"
            for key in dict.fromkeys([*is_now, *was]):
                if key != "name" and was.get(key) != is_now.get(key):  # a file may be renamed
                    found.append(f"{name}: {key} was {shorten_hash(was.get(key))}, is {shorten_hash(is_now.get(key))}")
    settings = rename_keys(old["settings"], OLD_NAMES)
    for key in sorted({*settings, *new["settings"]}):
        was, is_now = settings.get(key), new["settings"].get(key)
        if was != is_now:
            found.append(f"{key} was {shorten_hash(was)}, is {shorten_hash(is_now)}")
    return found


def file_rows(corpora: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each file, with how it is read."""
    return [{**{k: v for k, v in c.items() if k != "files"}, **file} for c in corpora for file in c["files"]]


def shorten_hash(value: object) -> str:
    """A value for a message; hashes are shortened to their first digits."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {shorten_hash(each)}" for key, each in value.items())
    text = str(value)
    return f"{text[:12]}..." if len(text) == 64 else repr(value)


def is_prepared(directory: Path) -> bool:
    """Whether a manifest describes prepared data."""
    try:
        read_manifest(directory)
    except DataError:
        return False
    return True


def find_prepared(out: Path, anew: bool) -> dict[str, Any] | None:
    """The manifest of the data already in `out`, if any; raise if `out` contains something else.

    With `anew`, damaged data are ignored.
    """
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    if not out.is_dir():
        raise DataError(f"{out} is a file; choose another name for the directory", code="not_a_directory")
    others = format_names(path for path in out.iterdir() if path.name not in WRITTEN)
    if not (out / MANIFEST).exists() or (others and not is_prepared(out)):
        contents = others or format_names(out.iterdir())
        raise DataError(
            f"{out} is not prepared data: it contains {contents}; choose another directory", code="output_exists"
        )
    if others and anew:
        raise DataError(
            f"{out} also contains {others}, which would be removed; move it elsewhere, or choose another directory",
            code="output_exists",
        )
    try:
        return read_manifest(out)
    except DataError:
        if anew:
            return None
        raise


def is_up_to_date(out: Path, old: Mapping[str, Any], new: Mapping[str, Any], anew: bool) -> bool:
    """Whether the data in `out` were prepared from these inputs; without `anew`, raise if they were not."""
    changed = find_differences(old, new)
    if changed and not anew:
        raise OtherInputsError(out, changed)
    if not changed:
        try:
            Prepared.open(out)
        except DataError:
            if anew:
                return False
            raise
    return not changed
