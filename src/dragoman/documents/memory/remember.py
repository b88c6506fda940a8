"""Add corrected translations to a translation memory."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from dragoman.documents.chunks import open_document
from dragoman.documents.detect import detect, read_translations
from dragoman.documents.formats.localization.xml_tree import DECLARED
from dragoman.documents.markup import escape_attribute, escape_xml
from dragoman.documents.memory.index import normalize
from dragoman.documents.memory.lookup import Memory, find_exact, is_tmx
from dragoman.documents.segment import ReadOptions, TranslationPair
from dragoman.errors import DocumentError, OutputError
from dragoman.files import check_parent, write_output

BLOCK_BYTES: Final = 1 << 20
TAIL_BYTES: Final = 1 << 16  # the end of a memory, where </body> is
HEAD: Final = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n<header creationtool="dragoman" '
    'creationtoolversion="1" segtype="sentence" o-tmf="dragoman" adminlang="en" srclang="{}" datatype="plaintext"/>\n'
    "<body>\n{}</body>\n</tmx>\n"
)


class Remembered(NamedTuple):
    """How many translations were added to a memory, and how many were left out because nobody has reviewed them."""

    added: int
    unreviewed: int


def remember(memory: Path, files: Sequence[Path], source: str, target: str, unreviewed: bool = False) -> Remembered:
    """Add the translations of bilingual files (XLIFF, TMX, PO) to a memory.

    The memory is TMX or TSV, and is created if it does not exist. Nothing in it is changed: a sentence that it has with
    another translation is added again, and the last one counts. What a file marks as an unreviewed machine translation
    or as fuzzy is added only if `unreviewed` is set.
    """
    if memory.suffix.lower() not in (".tmx", ".tsv"):
        raise OutputError(f"{memory} must be a .tmx or a .tsv file", code="unsupported_format")
    check_parent(memory)
    pairs: dict[str, tuple[str, str]] = {}
    left_out = 0
    for path in files:
        for pair in read_pairs_of(path, source, target):
            if pair.unreviewed and not unreviewed:
                left_out += 1
            else:
                pairs[normalize(pair.source)] = (pair.source, pair.target)
    known: dict[str, str] = {}
    if memory.exists() and memory.stat().st_size:
        known = find_exact(Memory([memory], source, target), [one for one, _ in pairs.values()])
    new = [
        (one, other) for one, other in pairs.values() if one not in known or normalize(known[one]) != normalize(other)
    ]
    if new or not memory.exists():
        append(memory, new, source, target)
    return Remembered(len(new), left_out)


def read_pairs_of(path: Path, source: str, target: str) -> Sequence[TranslationPair]:
    """The pairs of a bilingual file, whose languages must be these."""
    with open_document(path) as file:
        data = file.read()
    found = detect(data, str(path))
    if found is None or not found.bilingual:
        raise DocumentError(
            f"{path} has no translations; give files with both languages: XLIFF, TMX or PO", code="unsupported_format"
        )
    return list(read_translations(data, str(path), found, ReadOptions(source, target)))


def append(memory: Path, pairs: Sequence[tuple[str, str]], source: str, target: str) -> None:
    """Add pairs at the end of a memory, which appears complete or not at all."""
    if not is_tmx(memory):
        lines = "".join(f"{' '.join(one.split())}\t{' '.join(other.split())}\n" for one, other in pairs)
        extend(memory, memory.stat().st_size if memory.exists() else 0, lines.encode())
        return
    units = "".join(tmx_unit(one, other, source, target) for one, other in pairs)
    if not memory.exists():
        write_output(memory, HEAD.format(escape_attribute(source), units))
        return
    encoding = tmx_encoding(memory)
    end = "</body>".encode(encoding)
    size = memory.stat().st_size
    with memory.open("rb") as file:
        file.seek(max(0, size - TAIL_BYTES))
        tail = file.read()
    place = tail.rfind(end)
    if place < 0:
        raise DocumentError(f"{memory} does not end with </body></tmx>", code="damaged_document")
    extend(memory, size - len(tail) + place, units.encode(encoding, "xmlcharrefreplace") + tail[place:])


def extend(path: Path, size: int, content: bytes) -> None:
    """Write the first `size` bytes of a file and new content; a large file is copied in blocks."""
    write_output(path, chain(first_blocks(path, size), [content]))


def first_blocks(path: Path, size: int) -> Iterator[bytes]:
    """The first bytes of a file, which need not exist if there are none."""
    if size:
        with path.open("rb") as file:
            while size:
                block = file.read(min(size, BLOCK_BYTES))
                size -= len(block)
                yield block


def tmx_encoding(path: Path) -> str:
    """The encoding of a TMX file, without a byte order mark."""
    with path.open("rb") as file:
        start = file.read(200)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16-le" if start.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
    declared = DECLARED.search(start)
    return declared[1].decode("ascii") if declared else "utf-8"


def tmx_unit(one: str, other: str, source: str, target: str) -> str:
    """A unit of TMX."""
    texts = ((source, one), (target, other))
    variants = "".join(
        f'<tuv xml:lang="{escape_attribute(code)}"><seg>{escape_xml(text)}</seg></tuv>' for code, text in texts
    )
    return f"<tu>{variants}</tu>\n"
