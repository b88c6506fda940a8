"""Translated files that wait for their download: in memory, for a short time, and of a bounded size."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

FILE_SECONDS: Final = 600.0
OVERHEAD: Final = 1_000  # bytes per file
KeepFile = Callable[[str, bytes, str], Awaitable[str]]  # name, content, client -> key


@dataclass(frozen=True)
class StoredFile:
    """A file, who it is for, and until when it is kept."""

    name: str
    content: bytes
    client: str
    end: float

    @property
    def size(self) -> int:
        """The memory that it takes, approximately."""
        return len(self.content) + OVERHEAD


class FileStore:
    """Files by keys that cannot be guessed; if they take too much memory, the client with the most loses its oldest."""

    def __init__(
        self, max_bytes: int, seconds: float = FILE_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.max_bytes, self.seconds, self.clock = max_bytes, seconds, clock
        self.files: dict[str, StoredFile] = {}  # the oldest first

    def add(self, name: str, content: bytes, client: str) -> str:
        """Store a file, and return its key."""
        self.purge()
        key = secrets.token_hex(16)
        self.files[key] = StoredFile(name, content, client, self.clock() + self.seconds)
        sizes = Counter[str]()
        for file in self.files.values():
            sizes[file.client] += file.size
        while sizes.total() > self.max_bytes and len(self.files) > 1:
            others = [self.files[one].client for one in self.files if one != key]
            largest = max(others, key=sizes.__getitem__)
            oldest = next(one for one, file in self.files.items() if file.client == largest and one != key)
            sizes[largest] -= self.files.pop(oldest).size
        return key

    async def keep(self, name: str, content: bytes, client: str) -> str:
        """Store a file, return its key, and free its memory when its time is over."""
        asyncio.get_running_loop().call_later(self.seconds + 1, self.purge)
        return self.add(name, content, client)

    def get(self, key: str) -> StoredFile | None:
        """The file with that key; None if there is no such file any more."""
        self.purge()
        return self.files.get(key)

    def purge(self) -> None:
        """Remove files whose time is over."""
        now = self.clock()
        self.files = {key: file for key, file in self.files.items() if file.end > now}
