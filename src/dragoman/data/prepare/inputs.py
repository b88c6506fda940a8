"""What goes into a preparation, as facts that can be compared later: files with their hashes, and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from dragoman.data.corpora.compression import check_file
from dragoman.data.corpora.corpus import Corpus
from dragoman.data.prepared import BEFORE, DEPTHS, MANIFEST, PICTURE, SIDES, TOKENIZERS, Prepared, read_manifest
from dragoman.errors import DataError
from dragoman.files import format_names, sha256
from dragoman.values import rename_keys

# Every name that a preparation writes.
WRITTEN = {
    *(MANIFEST, TOKENIZERS, *BEFORE, PICTURE),
    *(f"{split}.{of}.{what}" for split in ("train", "valid") for of in (*SIDES, DEPTHS) for what in ("ids", "offsets")),
}


class OtherInputsError(DataError):
    """Data that were prepared from other inputs than those that are given now."""

    def __init__(self, out: Path, changed: Sequence[str]) -> None:
        self.changed = "\n  ".join(changed)
        super().__init__(
            f"{out} was prepared from other inputs:\n  {self.changed}\nChoose another place, or prepare it anew with "
            "--anew"
        )


def describe(corpora: Sequence[Corpus], valid: Sequence[Corpus] = ()) -> list[dict[str, Any]]:
    """Each corpus with the size and SHA-256 of its files; refuses a file that is given twice, under whatever name.

    `valid` says which of them are the validation set: who gives it from the training files needs other advice. Corpora
    that say their target languages may share files, as the same sentences are translated into several.
    """
    held_out = {id(corpus) for corpus in valid}
    seen: dict[tuple[int, int], tuple[Path, Corpus]] = {}
    described: list[dict[str, Any]] = []
    for corpus in corpora:
        for path in corpus.files:
            check_file(path)
            status = path.stat()
            if not status.st_size:
                holds = "trees in CoNLL-U" if path == corpus.source_trees else "a sentence per line"
                raise DataError(f"{path} is empty; expected {holds}")
            first = seen.get((status.st_dev, status.st_ino))
            seen[status.st_dev, status.st_ino] = path, corpus
            if first is not None and not may_share(first[1], corpus, held_out):
                other = "" if first[0] == path else f", the other time as {first[0]}"
                if id(corpus) in held_out and id(first[1]) not in held_out:
                    raise DataError(
                        f"{path} is among the training files too{other}; what a model was trained on does not show how "
                        "good it is: give other sentences, or leave --valid-... out, and some are held out"
                    )
                raise DataError(
                    f"{path} is given twice{other}; each side of each corpus is a file of its own, and to see a corpus "
                    "more often, give it a weight"
                )
        files = [{"name": p.name, "bytes": p.stat().st_size, "sha256": sha256(p)} for p in corpus.files]
        entry: dict[str, Any] = {
            "form": corpus.form,
            "source_key": corpus.source_key,
            "target_key": corpus.target_key,
            "files": files,
        }
        language = {key: getattr(corpus, key) for key in ("to", "to_key") if getattr(corpus, key)}
        described.append({**language, **entry})
    contents: dict[str, tuple[str, Corpus]] = {}
    for corpus, entry in zip(corpora, described, strict=True):
        for file in entry["files"]:
            same = contents.get(file["sha256"])
            contents[file["sha256"]] = file["name"], corpus
            if same is not None and not may_share(same[1], corpus, held_out):
                raise DataError(
                    f"{file['name']} and {same[0]} hold the same {file['bytes']:,} bytes; a corpus needs two "
                    "languages, and to see a corpus more often, give it a weight"
                )
    return described


def may_share(one: Corpus, other: Corpus, held_out: Set[int]) -> bool:
    """Whether two corpora may have a file in common: both say their languages, and neither pair is the other's."""
    apart = (id(one) in held_out) != (id(other) in held_out)
    same = (one.files, one.keys) == (other.files, other.keys)  # a corpus whose sides are one file, too
    return one.addressed and other.addressed and not apart and not same


def states(corpora: Sequence[Corpus]) -> list[tuple[Path, int, int]]:
    """Size and time of change of every file, by which a change while reading is noticed."""
    return [(path, path.stat().st_size, path.stat().st_mtime_ns) for corpus in corpora for path in corpus.files]


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between the inputs of two preparations, both values named."""
    found = []
    for kind in ("corpora", "valid"):
        before, now = flatten(old[kind]), flatten(new[kind])
        if len(before) != len(now):
            found.append(f"{kind}: {len(before)} files before, {len(now)} now")
            continue
        for was, is_now in zip(before, now, strict=True):
            name = (
                is_now["name"] if was["name"] == is_now["name"] else f"{is_now['name']} in the place of {was['name']}"
            )
            for what in dict.fromkeys([*is_now, *was]):
                if what == "name":  # a file may be renamed
                    continue
                before_it, at_present = was.get(what), is_now.get(what)
                if before_it != at_present:
                    found.append(f"{name}: {what} was {short(before_it)}, is {short(at_present)}")
    settings = rename_keys(old["settings"], BEFORE)
    for key in sorted({*settings, *new["settings"]}):
        was, is_now = settings.get(key), new["settings"].get(key)
        if was != is_now:
            found.append(f"{key} was {short(was)}, is {short(is_now)}")
    return found


def flatten(corpora: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each file, with how it is read."""
    return [{**{k: v for k, v in c.items() if k != "files"}, **file} for c in corpora for file in c["files"]]


def short(value: object) -> str:
    """A hash as people compare it: by its first figures."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {short(each)}" for key, each in value.items())
    text = str(value)
    return f"{text[:12]}..." if len(text) == 64 else repr(value)


def is_prepared(directory: Path) -> bool:
    """Whether the manifest is one of prepared data."""
    try:
        read_manifest(directory)
    except DataError:
        return False
    return True


def standing(out: Path, inputs: Mapping[str, Any], anew: bool) -> bool:
    """Whether `out` already holds these inputs prepared; raises where it holds something that may not be replaced."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return False
    if not out.is_dir():
        raise DataError(f"{out} is a file, but prepared data are a directory; choose another name")
    foreign = format_names(path for path in out.iterdir() if path.name not in WRITTEN)
    if not (out / MANIFEST).exists() or (foreign and not is_prepared(out)):
        held = foreign or format_names(out.iterdir())
        raise DataError(f"{out} holds {held}, and is no prepared data; it is left alone, so choose another place")
    if foreign and anew:
        raise DataError(
            f"{out} also holds {foreign}, which preparing it anew would remove; move that elsewhere, or choose another "
            "place"
        )
    try:
        old = read_manifest(out)
    except DataError:
        if anew:
            return False
        raise
    found = differences(old["inputs"], inputs)
    if found and not anew:
        raise OtherInputsError(out, found)
    if not found:
        try:
            Prepared.open(out)
        except DataError:
            if anew:
                return False
            raise
    return not found
