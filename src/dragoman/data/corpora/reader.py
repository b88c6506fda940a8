"""Read sentence pairs: plain parallel files, TSV, JSON lines and TMX, optionally compressed as .gz, .xz or .zst.

A line ends only at `\\n`, so U+2028 and the like stay inside their sentence; a `\\r` before it is dropped. Unreadable
lines are never skipped, because a corpus that is off by one line ruins the model: a DataError names the file and line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dragoman.data.corpora.compression import OpenFile, open_binary, read_blocks
from dragoman.data.corpora.corpus import Corpus
from dragoman.data.corpora.tmx import read_tmx
from dragoman.errors import DataError
from dragoman.values import plural, render_value

if TYPE_CHECKING:
    from dragoman.text.trees.constituency import Bracketing
    from dragoman.text.trees.dependency import Tree

T = TypeVar("T")

MAX_LINE_BYTES = 1 << 26


def read_pairs(corpus: Corpus, size: int, open_file: OpenFile = open_binary) -> Iterator[tuple[list[str], list[str]]]:
    """The pairs in order, as two lists of at most `size` sentences each."""
    for sources, targets, _ in read_pairs_with_languages(corpus, size, open_file):
        yield sources, targets


def read_pairs_with_languages(
    corpus: Corpus, size: int, open_file: OpenFile = open_binary
) -> Iterator[tuple[list[str], list[str], list[str]]]:
    """`read_pairs` with the target language of each pair; empty for a blank line, or if the corpus names none."""
    if corpus.target is not None:
        for sources, targets in read_parallel(corpus.source, corpus.target, size, open_file):
            yield sources, targets, [corpus.to] * len(sources)
        return
    if corpus.form == "tmx":
        pairs = read_tmx(corpus.source, corpus.source_key, corpus.target_key, open_file)
        while chunk_of_pairs := list(islice(pairs, size)):
            sources, targets = (list(side) for side in zip(*chunk_of_pairs, strict=True))
            yield sources, targets, [corpus.to] * len(sources)
        return
    parse = parse_tsv_line if corpus.form == "tsv" else parse_json_line
    number = 0
    for chunk in rechunk(read_line_blocks(corpus.source, open_file), size):
        rows = [parse(corpus, line, number + i) for i, line in enumerate(chunk, 1)]
        number += len(chunk)
        own = [row[2].strip() for row in rows] if corpus.to_key else [corpus.to] * len(rows)
        yield [row[0] for row in rows], [row[1] for row in rows], own


def read_parallel(source: Path, target: Path, size: int, open_file: OpenFile) -> Iterator[tuple[list[str], list[str]]]:
    """Pair line i of one file with line i of the other; both must have the same number of lines."""
    counts = [0, 0]
    both: Iterator[tuple[list[str], list[str]]] = zip_longest(
        rechunk(read_line_blocks(source, open_file), size),
        rechunk(read_line_blocks(target, open_file), size),
        fillvalue=[],
    )
    for sources, targets in both:
        counts = [counts[0] + len(sources), counts[1] + len(targets)]
        if len(sources) == len(targets):
            yield sources, targets
            continue
        for more_sources, more_targets in both:  # read to the end, for the counts in the message
            counts = [counts[0] + len(more_sources), counts[1] + len(more_targets)]
        raise DataError(
            f"{source} has {plural(counts[0], 'line')} but {target} has {counts[1]:,}; line i of one must be the "
            "translation of line i of the other",
            code="count_mismatch",
        )


def read_trees_file(path: str | Path, open_file: OpenFile = open_binary) -> Iterator[Tree]:
    """The trees of a CoNLL-U file, compressed or not, in order."""
    from dragoman.text.trees.dependency import read_trees

    blocks = read_line_blocks(Path(path), open_file, "trees in CoNLL-U")
    return read_trees(chain.from_iterable(blocks), str(path))


def read_brackets_file(path: str | Path) -> Iterator[Bracketing]:
    """The constituency trees of a file in Penn Treebank brackets, compressed or not, cleaned and in order."""
    from dragoman.text.trees.constituency import read_brackets

    return read_brackets(chain.from_iterable(read_line_blocks(Path(path), holds="trees in brackets")), str(path))


def parse_tsv_line(corpus: Corpus, line: str, number: int) -> list[str]:
    """The two sentences of a TSV line, and its language; empty for a blank line, which cleaning counts."""
    if not line.strip():
        return [""] * len(corpus.keys)
    cells = line.split("\t")
    if not corpus.keys[0]:
        if len(cells) != 2:
            message = (
                f"{corpus.source}, line {number}: {plural(len(cells), 'column')}, but expected source, tab, target"
            )
            if len(cells) > 2:
                message += "; select two of several columns with a source key and a target key, such as 1 and 2"
            raise DataError(message, code="wrong_columns")
        return cells
    columns = [int(key) for key in corpus.keys]
    if len(cells) < max(columns):
        wanted = f"{', '.join(corpus.keys[:-1])} and {corpus.keys[-1]}"
        raise DataError(
            f"{corpus.source}, line {number}: {plural(len(cells), 'column')}, but columns {wanted} are needed",
            code="wrong_columns",
        )
    return [cells[column - 1] for column in columns]


def parse_json_line(corpus: Corpus, line: str, number: int) -> list[str]:
    """The two sentences of one JSON line, inside "translation" or not, and its language."""
    if not line.strip():
        return [""] * len(corpus.keys)
    where = f"{corpus.source}, line {number}"
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:  # not JSON, a number with thousands of digits, or nested too deeply
        raise DataError(
            f"{where}: not valid JSON ({error}); each line must be one JSON object", code="invalid_json"
        ) from None
    if isinstance(entry, dict) and isinstance(entry.get("translation"), dict):
        outside = {corpus.to_key: entry[corpus.to_key]} if corpus.to_key in entry else {}
        entry = {**entry["translation"], **outside}
    if not isinstance(entry, dict):
        raise DataError(
            f"{where}: {type(entry).__name__} instead of an object such as " + '{"en": ..., "de": ...}',
            code="wrong_type",
        )
    found = []
    for key in corpus.keys:
        if key not in entry:
            keys = ", ".join(map(repr, list(entry)[:8])) or "none"
            raise DataError(f"{where}: no key {key!r}; the keys are {keys}", code="missing_key")
        text = entry[key]
        if not isinstance(text, str):
            raise DataError(f"{where}: {key!r} is {render_value(text, 40)}, not a string", code="wrong_type")
        if "\0" in text:
            raise DataError(f"{where}: {key!r} has a NUL character; remove it", code="invalid_character")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            half = f"U+{ord(text[error.start]):04X}"
            raise DataError(
                f"{where}: {key!r} has a lone surrogate ({half}), which is not a character; remove it",
                code="invalid_character",
            ) from None
        found.append(text)
    return found


def read_line_blocks(
    path: Path, open_file: OpenFile = open_binary, holds: str = "a sentence per line"
) -> Iterator[list[str]]:
    """The lines of a file, decompressed and decoded, a block of them at a time."""
    number = 0
    for found in split_lines(path, read_blocks(path, open_file)):
        number += len(found)
        yield found
    if not number:
        raise DataError(f"{path} is empty; expected {holds}", code="file_empty")


def split_lines(path: Path, blocks: Iterable[bytes]) -> Iterator[list[str]]:
    """The lines in blocks of bytes, yielded as each block arrives; `path` is for messages.

    All lines before an unreadable one are yielded before the error. An empty block is passed on as an empty list.
    """
    number, rest = 0, b""
    for block in blocks:
        if not block:
            yield []
            continue
        cut = block.rfind(b"\n") + 1
        if not cut:
            rest += block
            if len(rest) > MAX_LINE_BYTES:
                raise DataError(
                    f"{path}, line {number + 1}: more than {MAX_LINE_BYTES >> 20} MiB without a line break; expected "
                    "text with a sentence per line",
                    code="line_too_long",
                )
            continue
        found, wrong = decode(path, rest + block[: cut - 1], number)
        number += len(found)
        rest = block[cut:]
        if found:
            yield found
        if wrong is not None:
            raise wrong
    if rest:
        found, wrong = decode(path, rest, number)
        if wrong is not None:
            raise wrong
        yield found


def decode(path: Path, block: bytes, before: int) -> tuple[list[str], DataError | None]:
    """Decode UTF-8 lines up to the first that cannot be decoded; return them with its error.

    `before` is the number of earlier lines of the file.
    """
    wrong = None
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError as error:
        start = block.rfind(b"\n", 0, error.start) + 1
        line = before + block.count(b"\n", 0, start) + 1
        bad = " ".join(f"{byte:02x}" for byte in block[error.start : error.start + 4])
        place = f"{path}, line {line}, byte {error.start - start + 1}: not UTF-8 ({bad}: {error.reason})"
        if b"\0" in block:
            advice = "it has NUL bytes, so it is a binary file, or UTF-16; give a text file in UTF-8"
        else:
            advice = "convert the file, for example with: iconv -f LATIN1 -t UTF-8"
        wrong = DataError(f"{place}; {advice}", code="not_utf8")
        text = block[:start].decode("utf-8")
    if "\0" in text:
        start = text.rfind("\n", 0, text.index("\0")) + 1
        line = before + text.count("\n", 0, start) + 1
        wrong = DataError(
            f"{path}, line {line}: NUL byte; expected UTF-8 text, but this may be UTF-16 or a binary file",
            code="invalid_character",
        )
        text = text[:start]
    if not before and text.startswith("\ufeff"):
        text = text[1:]
    found = text.split("\n")
    if wrong is not None:
        found.pop()  # the empty remainder after the last valid line
    return [line.removesuffix("\r") for line in found] if "\r" in text else found, wrong


def rechunk(parts: Iterable[list[T]], size: int) -> Iterator[list[T]]:
    """The same items in lists of exactly `size`, except the last."""
    pending: list[T] = []
    for part in parts:
        pending += part
        start = 0
        while len(pending) - start >= size:
            yield pending[start : start + size]
            start += size
        pending = pending[start:]
    if pending:
        yield pending
