"""A file with the fastest cuBLASLt algorithm of each product, shared by all runs of a user."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock

from dragoman.native.cache import cache_directory, private_directory, read_private, write_private

_writing = Lock()


class AlgorithmFile:
    """Algorithms by machine and problem: those in the file when it was opened, and those added since."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or cache_directory() / "products.json"
        self._known = {
            machine: {problem: algorithm for problem, text in found.items() if (algorithm := _from_hex(text))}
            for machine, found in self._read().items()
        }

    def get(self, machine: str, problem: str) -> bytes | None:
        """The stored algorithm for a problem, if any."""
        return self._known.get(machine, {}).get(problem)

    def add(
        self, machine: str, problem: str, algorithm: bytes | None, accepts: Callable[[bytes], bool] = bool
    ) -> bytes | None:
        """Store an algorithm, unless another run was first with one that `accepts` allows; return the stored one.

        Runs that start at the same time then compute the same sums, now and after a resume. If the file cannot be
        written, later runs have to search again.
        """
        known = self._known.setdefault(machine, {})
        with self._locked():
            stored = self._read()
            others = stored.get(machine, {})
            earlier = _from_hex(others.pop(problem, ""))
            chosen = earlier if earlier and accepts(earlier) else algorithm
            known.pop(problem, None)
            if chosen is not None:
                known[problem] = chosen
            found = {problem: algorithm.hex() for problem, algorithm in known.items()}
            content = json.dumps({**stored, machine: found | others}, indent=1).encode()
            with suppress(OSError):  # no room, or a directory that others can write
                write_private(private_directory(self.path.parent) / self.path.name, content)
        return chosen

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock out other threads and, where the system supports it, other processes, so that no result is lost."""
        with _writing, ExitStack() as held:
            with suppress(OSError):
                lock = private_directory(self.path.parent) / self.path.with_suffix(".lock").name
                fcntl.lockf(held.enter_context(lock.open("a")), fcntl.LOCK_EX)
            yield

    def _read(self) -> dict[str, dict[str, str]]:
        """The valid part of the file, for all machines; nothing of a file that others could have written."""
        try:
            found = json.loads(read_private(private_directory(self.path.parent) / self.path.name))
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(found, dict):
            return {}
        machines = ((name, stored) for name, stored in found.items() if isinstance(stored, dict))
        return {name: {key: text for key, text in stored.items() if isinstance(text, str)} for name, stored in machines}


def _from_hex(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None
