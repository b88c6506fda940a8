"""Lexical constraints for the native engine: the tables of a batch as C structures."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from dragoman.arrays import IntArray
from dragoman.engines.native_layout import (
    AvoidedAutomaton,
    PhraseTrie,
    RequiredAutomaton,
    SentenceConstraints,
    VocabularySpelling,
)
from dragoman.search.constraints.aho_corasick import Transitions
from dragoman.search.constraints.tables import AvoidedTables, BatchConstraints, RequiredTables
from dragoman.search.constraints.token_bytes import Spelling


class BatchAutomata:
    """The constraints of a batch for C; keep it as long as C reads its addresses."""

    def __init__(self, tables: BatchConstraints) -> None:
        self.arrays: list[IntArray] = []
        self.structures: dict[int, ctypes.Structure] = {}  # by the identity of their tables
        spelling = next(one.spelling for one in tables if one is not None)
        self.spelling = self._spelling(spelling)
        self.sentences = (SentenceConstraints * len(tables))(
            *[
                SentenceConstraints()
                if one is None
                else SentenceConstraints(
                    None if one.required is None else self._address(one.required),
                    None if one.avoided is None else self._address(one.avoided),
                )
                for one in tables
            ]
        )

    @property
    def addresses(self) -> tuple[int, int]:
        """The addresses of the spelling and of the constraints of all sentences."""
        return ctypes.addressof(self.spelling), ctypes.addressof(self.sentences)

    def _address(self, tables: RequiredTables | AvoidedTables) -> int:
        """The address of a structure; sentences with the same tables share it."""
        if id(tables) not in self.structures:
            build: Any = self._required if isinstance(tables, RequiredTables) else self._avoided
            self.structures[id(tables)] = build(tables)
        return ctypes.addressof(self.structures[id(tables)])

    def _pointer(self, values: Any, dtype: type[np.generic]) -> int:
        """The address of an array in C's layout, kept alive here."""
        array: IntArray = np.ascontiguousarray(values, dtype)
        self.arrays.append(array)
        return int(array.ctypes.data)

    def _spelling(self, spelling: Spelling) -> VocabularySpelling:
        kinds = (self._pointer(table, np.int8) for table in (spelling.first, spelling.last))
        return VocabularySpelling(spelling.stream.shape[1], self._pointer(spelling.stream, np.int16), *kinds)

    def _avoided(self, tables: AvoidedTables) -> AvoidedAutomaton:
        return AvoidedAutomaton(self._trie(tables.transitions), self._pointer(tables.full, np.uint8))

    def _trie(self, of: Transitions) -> PhraseTrie:
        return PhraseTrie(*(self._pointer(array, np.int32) for array in (of.begins, of.edges, of.shorter)))

    def _required(self, tables: RequiredTables) -> RequiredAutomaton:
        arrays = (
            *(tables.length, tables.credit, tables.needed, tables.min_tokens, tables.saved, tables.nested),
            *(tables.first_follow, tables.follows, tables.starts),
        )
        return RequiredAutomaton(
            len(tables.needed),
            len(tables.starts),
            int(np.diff(tables.first_follow).max()),
            self._trie(tables.transitions),
            self._pointer(tables.length.any(1), np.uint8),
            *(self._pointer(array, np.int32) for array in arrays),
        )
