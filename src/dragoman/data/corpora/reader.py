"""Read sentence pairs: plain parallel files, TSV, JSON lines and TMX, optionally compressed as .gz, .xz or .zst."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dragoman.data.corpora.compression import OpenFile, open_binary
from dragoman.data.corpora.corpus import Corpus
from dragoman.data.corpora.lines import read_line_blocks
from dragoman.data.corpora.tmx import read_tmx
from dragoman.errors import DataError
from dragoman.values import plural, render_value

if TYPE_CHECKING:
    from dragoman.text.trees.constituency import Bracketing
    from dragoman.text.trees.dependency import Tree

T = TypeVar("T")


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
