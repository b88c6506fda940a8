"""Locks on open files, on every system; they never wait."""

from __future__ import annotations

import sys
from typing import IO, Any, Final

if sys.platform == "win32":
    import msvcrt
    import os

    FAR_AWAY: Final = 1 << 30  # Windows denies others the bytes that are locked: lock one after the content

    def lock_file(file: IO[Any]) -> None:
        """Lock a file; raise BlockingIOError if another process holds it."""
        position = os.lseek(file.fileno(), 0, os.SEEK_CUR)
        os.lseek(file.fileno(), FAR_AWAY, os.SEEK_SET)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(error.errno, error.strerror) from None
        finally:
            os.lseek(file.fileno(), position, os.SEEK_SET)

    lock_for_process = lock_file
else:
    import fcntl

    def lock_file(file: IO[Any]) -> None:
        """Lock a file; raise BlockingIOError if another process holds it. A child that inherits the file shares it."""
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def lock_for_process(file: IO[Any]) -> None:
        """Lock a file for this process, without its children; raise BlockingIOError if another process holds it."""
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
