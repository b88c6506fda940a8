"""The user's cache directory: code and models that are loaded from it must be the user's own.

Nothing is read from a directory that another user could have written or replaced: every directory above it must belong
to this user or to root, and must not be writable by others, except sticky ones such as /tmp. Links are followed only
where root alone can make them.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path("/")
MAX_LINKS: Final = 40  # as many as Linux follows


class CacheError(OSError):
    """A cache that others could have written, with what to do about it."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path} {problem}; set DRAGOMAN_CACHE to a directory of your own")


def cache_directory() -> Path:
    """The cache directory: `$DRAGOMAN_CACHE`, or one in the user's cache directory."""
    if os.environ.get("DRAGOMAN_CACHE"):
        return Path(os.environ["DRAGOMAN_CACHE"])
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "dragoman"
    try:
        above = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a user without a home; `private_directory` rejects it if another user was first
        return Path(tempfile.gettempdir()) / f"dragoman-{os.getuid()}"
    return above / "dragoman"


def private_directory(path: Path) -> Path:
    """Create a directory of the cache where needed, and return its path without links.

    Raise CacheError if another user could change it. The path is checked from the root down: when a directory is
    checked, everything above it is known to be safe, so nobody can replace it in between. On Windows, the access rights
    of the user's profile are relied on.
    """
    if sys.platform == "win32":
        path.mkdir(parents=True, exist_ok=True)
        return path.resolve()
    here, left, links = ROOT, list(path.absolute().parts[1:]), 0
    check_directory(here, here.lstat())
    while left:
        name = left.pop(0)
        above, here = here, here.parent if name == ".." else here / name
        found = make_directory(here)
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > MAX_LINKS or not (is_system(found) and is_system(above.lstat())):
                raise CacheError(here, f"is a link to {here.readlink()}")
            target = (above / here.readlink()).parts[1:]
            here, left = ROOT, [*target, *left]
        else:
            check_directory(here, found)
    return here


def make_directory(path: Path) -> os.stat_result:
    """Return the status of a path, without following a link; create a private directory if nothing exists."""
    try:
        return path.lstat()
    except FileNotFoundError:
        path.mkdir(mode=0o700, exist_ok=True)
        return path.lstat()


def check_directory(path: Path, found: os.stat_result) -> None:
    """Raise CacheError if other users could change this user's files in a directory."""
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"{path} is not a directory")
    if not found.st_mode & stat.S_ISVTX:
        check_private(path, found)
    elif found.st_uid not in trusted_owners():
        raise CacheError(path, f"belongs to another user ({found.st_uid})")


def check_private(path: Path, found: os.stat_result) -> None:
    """Raise CacheError if anyone but this user and root can write to it."""
    if found.st_uid not in trusted_owners():
        raise CacheError(path, f"belongs to another user ({found.st_uid})")
    shared = 0o002 if found.st_gid == own_group() else 0o022
    if found.st_mode & shared:
        raise CacheError(path, f"is writable by others (mode {stat.S_IMODE(found.st_mode):04o})")


def trusted_owners() -> set[int]:
    """This user and root; in a user namespace, root may have another id, that of the owner of /."""
    return {os.geteuid(), 0, ROOT.lstat().st_uid}


def is_system(found: os.stat_result) -> bool:
    """Whether it belongs to root and nobody else can change it; the mode of a link is ignored."""
    root = found.st_uid in (0, ROOT.lstat().st_uid)
    return root and (stat.S_ISLNK(found.st_mode) or not found.st_mode & 0o022)


@cache
def own_group() -> int | None:
    """The private group of this user, if the system has one for each user."""
    import grp  # not on every system
    import pwd

    try:
        user = pwd.getpwuid(os.geteuid())
        group = grp.getgrgid(user.pw_gid)
    except KeyError:
        return None
    return group.gr_gid if group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name} else None


def read_private(path: Path) -> bytes:
    """Read a file of a private directory; raise CacheError for a link, or a file that others could have changed."""
    if sys.platform == "win32":
        return path.read_bytes()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        if path.is_symlink():
            raise CacheError(path, "is a link") from None
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise CacheError(path, "is not a file")
        check_private(path, found)
        with open(descriptor, "rb", closefd=False) as file:  # what was checked is what is read
            return file.read()
    finally:
        os.close(descriptor)


def write_private(path: Path, content: bytes) -> None:
    """Replace a file of a private directory, completely or not at all."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123  # readable by this user alone from the start
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)
