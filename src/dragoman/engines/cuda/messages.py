"""Messages between this process and an engine in a child process, over a socket pair.

A message is pickled, but its arrays travel as they are, after it. Pickle is safe here: each end is this program's own,
and nobody else can write to the pair.
"""

from __future__ import annotations

import pickle
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from dragoman.arrays import FloatArray, Int32Array, IntArray
from dragoman.errors import DragomanError
from dragoman.search.hypotheses import HypothesisTable
from dragoman.search.types import RecordedHead, Search

COUNT: Final = struct.Struct("=Q")
ALIGNMENT: Final = 8  # bytes: of every array in a message
Rows = tuple[Int32Array, Int32Array]  # ids, and the length of each row


@dataclass(frozen=True)
class EngineOptions:
    """What the child loads; `round_weights` as the PyTorch engine does if the user asks for bfloat16."""

    directory: Path
    device: str
    precision: str
    round_weights: bool = False
    adapter: Path | None = None


class Request(NamedTuple):
    """One call of `Engine.search`."""

    number: int
    sources: Rows
    search: Search
    prefixes: Rows | None
    record: tuple[RecordedHead, ...]


class Cancel(NamedTuple):
    """Nobody waits for this request any more."""

    number: int


class Ready(NamedTuple):
    """The engine is loaded."""

    max_beam: int
    vocabulary: int


class Failure(NamedTuple):
    """An error in the child; any error that is not ours is a RuntimeError or a MemoryError here."""

    kind: type[Exception]
    message: str
    code: str | None
    traceback: str

    def to_error(self) -> Exception:
        """The same error, with the child's traceback as a note."""
        if issubclass(self.kind, DragomanError):
            error: Exception = self.kind.__new__(self.kind, self.message)
            DragomanError.__init__(error, self.message, code=self.code)  # type: ignore[arg-type]
        else:
            error = self.kind(self.message)
        error.add_note(f"In the engine process:\n{self.traceback}")
        return error


class PackedTable(NamedTuple):
    """A `HypothesisTable` with its recorded maps in one array."""

    counts: IntArray
    lengths: IntArray
    ids: IntArray
    scores: FloatArray
    log_probabilities: FloatArray
    truncated: IntArray
    shapes: IntArray | None = None  # of the maps, one row for each
    weights: FloatArray | None = None

    @classmethod
    def of(cls, table: HypothesisTable) -> PackedTable:
        """Pack a table; either all of its hypotheses have maps, or none."""
        columns = table.counts, table.lengths, table.ids, table.scores, table.log_probabilities, table.truncated
        if not table.maps:
            return cls(*columns)
        shapes = np.array([one.shape for one in table.maps], np.int64)
        return cls(*columns, shapes, np.concatenate([one.ravel() for one in table.maps]))

    def table(self) -> HypothesisTable:
        """The table."""
        columns, maps = self[:6], None
        if self.shapes is not None and self.weights is not None:
            ends = np.cumsum(self.shapes.prod(1))
            parts = np.split(self.weights, ends[:-1])
            maps = [one.reshape(shape) for one, shape in zip(parts, self.shapes, strict=True)]
        return HypothesisTable(*columns, maps)


class Answer(NamedTuple):
    """What was found for a request, or why nothing."""

    number: int
    found: PackedTable | Failure


def send(end: socket.socket, message: Any) -> None:
    """Send a message; one thread at a time."""
    buffers: list[pickle.PickleBuffer] = []
    parts: list[Any] = [pickle.dumps(message, 5, buffer_callback=buffers.append), *(one.raw() for one in buffers)]
    sizes = np.array([len(part) for part in parts], np.uint64)
    padded = (piece for part in parts for piece in (part, bytes(-len(part) % ALIGNMENT)))
    end.sendall(b"".join((COUNT.pack(len(parts)), sizes.tobytes(), *padded)))


def receive(end: socket.socket) -> Any:
    """The next message; None if the other end is closed."""
    try:
        (count,) = COUNT.unpack(_read(end, COUNT.size))
        sizes = np.frombuffer(_read(end, count * 8), np.uint64).astype(np.int64)
        starts = np.cumsum(-(-sizes // ALIGNMENT) * ALIGNMENT)
        body = memoryview(_read(end, int(starts[-1])))
    except (EOFError, OSError):
        return None
    firsts = [0, *starts.tolist()]
    parts = [body[first : first + size] for first, size in zip(firsts, sizes.tolist(), strict=False)]
    return pickle.loads(parts[0], buffers=parts[1:])


def _read(end: socket.socket, size: int) -> bytearray:
    """Exactly `size` bytes; raise EOFError if the other end is closed first."""
    found = bytearray(size)
    rest = memoryview(found)
    while rest:
        count = end.recv_into(rest)
        if not count:
            raise EOFError
        rest = rest[count:]
    return found
