"""An index of translation pairs: exact matches by text, and candidates for similar ones by words.

It is a temporary SQLite database, which SQLite keeps in memory while it is small and on disk when it grows, so that a
memory of any size is read once and takes a bounded amount of RAM.

Two texts are compared if they share at least half of their words. Then they also share one of the first half (and one
more) of their words in any fixed order. Only those are stored, longest first, because long words are rare, and at most
eight; texts that differ in all of them are not found. Of these, the rarest words of a text choose the candidates.
"""

from __future__ import annotations

import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import islice
from threading import Lock
from typing import Final
from zlib import crc32

CACHE_KIB: Final = 32 << 10
BLOCK: Final = 10_000  # pairs that are stored at a time
MIN_LENGTH_RATIO: Final = 0.6  # of two texts that can be 75 % alike
MAX_FEATURES: Final = 8  # of a text that are stored
MAX_ROWS: Final = 5_000  # of the words of a text, rarest first, that are looked at
MAX_CANDIDATES: Final = 500  # of a text; those that share most words come first
Pair = tuple[str, str]


def normalize(text: str) -> str:
    """Text as it is compared: composed characters, single spaces, no unpaired surrogates."""
    found = " ".join(unicodedata.normalize("NFC", text).split())
    return found if found.isascii() else found.encode("utf-8", "replace").decode()


def features(text: str) -> set[str]:
    """The words of a text; pairs of characters if it has hardly any spaces."""
    words = set(text.casefold().split())
    return words if len(words) > 2 else {text[i : i + 2].casefold() for i in range(max(1, len(text) - 1))}


def rare_features(text: str) -> list[int]:
    """Hashes of the features of which two similar texts share at least one."""
    ordered = sorted(features(text), key=lambda word: (-len(word), word))
    return [crc32(word.encode()) for word in ordered[: min(len(ordered) // 2 + 1, MAX_FEATURES)]]


class MemoryIndex:
    """Pairs of source and target, the last target of each source; `similar` also indexes words."""

    def __init__(self, pairs: Iterable[Pair], similar: bool) -> None:
        self.lock = Lock()  # one connection for all threads
        self.database = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        for statement in (
            f"PRAGMA cache_size = -{CACHE_KIB}",
            "PRAGMA journal_mode = OFF",
            "PRAGMA synchronous = OFF",
            "CREATE TABLE pair (id INTEGER PRIMARY KEY, text TEXT UNIQUE, source TEXT, target TEXT)",
            "CREATE TABLE word (hash INTEGER, length INTEGER, pair INTEGER)",
            "BEGIN",
        ):
            self.database.execute(statement)
        self.last = 0  # id whose words are stored
        found = ((normalize(one), one, other) for one, other in pairs if one and other)
        while block := [*islice(found, BLOCK)]:
            self._add(block, similar)
        self.database.execute("COMMIT")
        self.database.execute("CREATE INDEX words ON word (hash, length, pair)")
        self.database.execute("CREATE TABLE frequency (hash INTEGER PRIMARY KEY, count INTEGER)")
        self.database.execute("INSERT INTO frequency SELECT hash, count(*) FROM word GROUP BY hash")

    def _add(self, block: list[tuple[str, str, str]], similar: bool) -> None:
        self.database.executemany(
            "INSERT INTO pair (text, source, target) VALUES (?, ?, ?) "
            "ON CONFLICT (text) DO UPDATE SET source = excluded.source, target = excluded.target",
            block,
        )
        if similar:
            rows = self.database.execute("SELECT id, text FROM pair WHERE id > ? ORDER BY id", (self.last,)).fetchall()
            self.last = rows[-1][0] if rows else self.last
            self.database.executemany(
                "INSERT INTO word VALUES (?, ?, ?)",
                [(word, len(text), row) for row, text in rows for word in rare_features(text)],
            )

    def find(self, text: str) -> Pair | None:
        """The pair of a normalized text."""
        with self.lock:
            found: Pair | None = self.database.execute(
                "SELECT source, target FROM pair WHERE text = ?", (text,)
            ).fetchone()
        return found

    def candidates(self, text: str) -> Iterator[tuple[str, str, str]]:
        """Texts that may be similar to a normalized one, each with its pair."""
        limits = int(MIN_LENGTH_RATIO * len(text)), int(len(text) / MIN_LENGTH_RATIO) + 1
        with self.lock:
            words = self._rarest(rare_features(text))
            query = (
                "SELECT pair.text, pair.source, pair.target FROM (SELECT pair AS number, count(*) AS shared FROM word "
                f"WHERE hash IN ({marks(words)}) AND length BETWEEN ? AND ? GROUP BY pair "
                f"ORDER BY shared DESC, pair DESC LIMIT {MAX_CANDIDATES}) "
                "JOIN pair ON pair.id = number ORDER BY pair.id"
            )
            yield from self.database.execute(query, (*words, *limits)).fetchall()

    def _rarest(self, words: list[int]) -> list[int]:
        """The rarest of these words that the memory has: at least one, and as many as do not exceed `MAX_ROWS`."""
        query = f"SELECT hash, count FROM frequency WHERE hash IN ({marks(words)}) ORDER BY count"
        found, total = list[int](), 0
        for word, count in self.database.execute(query, words):
            total += count
            if found and total > MAX_ROWS:
                break
            found.append(word)
        return found


def marks(values: list[int]) -> str:
    """Marks for the variables of a query."""
    return ", ".join("?" * len(values))
