"""The library that a wheel brings: compiled ahead for its platform, with every variant of every C library.

Symbols are `<library>_<variant>_<function>`. Like the package itself, the file is trusted. The chosen variant is tested
in a child process once, because some virtual machines advertise instructions and then kill processes that use them.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from dragoman.native.cache import cache_directory, private_directory, read_private, write_private
from dragoman.native.variants import Variant, candidates, processor_features

SUFFIXES: Final = {"darwin": ".dylib", "win32": ".dll"}
LIBRARY: Final = Path(__file__).with_name(f"dragoman_native{SUFFIXES.get(sys.platform, '.so')}")
WORKS: Final = b"works"
SELF_TEST: Final = "import ctypes, sys; sys.exit(ctypes.CDLL(sys.argv[1])[sys.argv[2]]())"


class ShippedLibrary(ctypes.CDLL):
    """One variant of a C library inside the shipped file: functions are found by their plain names."""

    def __init__(self, path: Path, prefix: str) -> None:
        super().__init__(str(path))
        self.prefix = prefix

    def __getitem__(self, name_or_ordinal: Any) -> Any:
        return super().__getitem__(f"{self.prefix}{name_or_ordinal}")


def has_shipped_library() -> bool:
    """Whether this installation came with a compiled library."""
    return LIBRARY.is_file()


def load_shipped(name: str, tiles: bool) -> ShippedLibrary | str:
    """The best variant of a library that works on this machine, or the reason why no variant works."""
    try:
        processor = ctypes.CDLL(str(LIBRARY)).processor_portable_supports
    except (OSError, AttributeError) as error:
        return f"{LIBRARY.name} cannot be loaded: {error}"
    listed = candidates(name, tiles)
    able = [variant for variant in listed if processor(variant.name.encode())]
    if not able:
        names = " or ".join(variant.name for variant in listed) or "any"
        return f"{name} is not available on this processor: it has no variant {names} that can run here"
    for variant in able:
        if _works(name, variant):
            return ShippedLibrary(LIBRARY, f"{name}_{variant.name}_")
    return f"{name} failed its self-test with {', '.join(variant.name for variant in able)}"


def _works(name: str, variant: Variant) -> bool:
    """Whether a variant passes its self-test; the result is cached for this file and this processor."""
    marker = None
    with suppress(OSError):  # not tested yet, or the cache is not usable
        marker = private_directory(cache_directory()) / f"{name}-{variant.name}-{_key()}.tested"
        return read_private(marker) == WORKS
    try:
        works = _passes_self_test(f"{name}_{variant.name}_self_test")
    except OSError:  # no child process can be started: nothing is known against the variant
        return True
    if marker is not None:
        with suppress(OSError):
            write_private(marker, WORKS if works else b"fails")
    return works


def _passes_self_test(function: str) -> bool:
    import subprocess

    if not sys.executable:
        raise OSError("Python is embedded in another program, so there is no interpreter to test with")
    words = [sys.executable, "-I", "-S", "-c", SELF_TEST, str(LIBRARY), function]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@cache
def _key() -> str:
    """A digest of the file and the processor."""
    about = LIBRARY.stat()
    known = repr((str(LIBRARY), about.st_size, about.st_mtime_ns, processor_features()))
    return hashlib.sha256(known.encode()).hexdigest()[:20]
