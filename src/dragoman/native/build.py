"""Load the C libraries: from the file that a wheel brings, or compiled for this machine on first use, and cached.

All of them are optional: without a wheel's file and a C compiler `library` returns None, and the caller uses its slower
path. A new library is tested in a child process first, because some virtual machines advertise instructions and then
kill processes that use them. A file of the cache ends with the SHA-256 of its library: what does not match is never
loaded, but built again.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shlex
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from itertools import count, takewhile
from pathlib import Path
from typing import Final

from dragoman.native.cache import CacheError, cache_directory, private_directory, read_private, write_private
from dragoman.native.shipped import ShippedLibrary, has_shipped_library, load_shipped
from dragoman.native.variants import candidates, forced_instructions, machine, processor_features

HERE: Final = Path(__file__).parent
EXPORT: Final = '-DEXPORT=__attribute__((visibility("default")))'  # the functions that Python calls
COMMON: Final = (
    *("-O3", "-std=gnu11", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math", "-pthread"),
    *("-fvisibility=hidden", EXPORT),
)
# Subword sampling needs the numbers of Python, which has no fused multiply-add.
OWN_FLAGS: Final = {"gemm": ("-ldl",), "subword_sampling": ("-ffp-contract=off",)}
PLAIN: Final[tuple[str, ...]] = ()
ON_X86: Final = (
    ("-march=native",),
    ("-march=native", "-mno-amx-tile", "-mno-amx-int8", "-mno-amx-bf16"),
    ("-march=x86-64-v3",),  # with AVX2, for a virtual machine that advertises more than it has
    PLAIN,
)
# The first set of flags whose library passes its self-test is used. On ARM not every compiler supports -march=native,
# and the library itself detects the processor's instructions (int8_neon.c).
TARGETS: Final = (PLAIN,) if machine() == "aarch64" else ON_X86
RETRY_SECONDS: Final = 24 * 3600  # before a failed build is retried: memory or disk may have been short
DIGEST_BYTES: Final = 32  # of SHA-256
SELF_TEST: Final = "import ctypes, sys; sys.exit(ctypes.CDLL(sys.argv[1]).self_test())"

_reasons: dict[str, str] = {}
Structures = tuple[type[ctypes.Structure], ...]
Targets = tuple[tuple[str, ...], ...]


@cache
def library(name: str, *flags: str, structures: Structures = (), tiles: bool = True) -> ctypes.CDLL | None:
    """The library built from the folder `name`, or None if it is not available; `why_not` then returns the reason.

    Its `int self_test(void)` must use every kind of instruction of the library, and return 0 if the results are right.
    `structures` mirror structures of the library; if a layout differs, the library is unavailable. Without `tiles`, the
    library uses no tile registers. With `flags`, it is always compiled here. `DRAGOMAN_NATIVE=0` disables all
    libraries; `DRAGOMAN_INSTRUCTIONS` forces a variant; `CC` selects another compiler.
    """
    try:
        built = _find(name, flags, tiles)
        if not isinstance(built, str):
            code = _load(name, built) if isinstance(built, bytes) else built
            wrong = layout_mismatch(code, structures)
            if wrong is None:
                return code
            built = f"{wrong}; the C and Python files of this installation do not match: reinstall dragoman"
    except CacheError as error:
        built = str(error)
    except ValueError as error:  # unknown instructions
        built = str(error)
    except OSError as error:
        built = f"{error}; set DRAGOMAN_CACHE to a directory of your own"
    _reasons[name] = built
    return None


def why_not(name: str) -> str | None:
    """The reason why `library(name)` returned None."""
    return _reasons.get(name)


def _find(name: str, flags: tuple[str, ...], tiles: bool) -> ShippedLibrary | bytes | str:
    """The shipped library, or the content of one that is built here, or the reason why neither is available."""
    if os.environ.get("DRAGOMAN_NATIVE", "1") == "0":
        return "disabled by DRAGOMAN_NATIVE=0"
    if has_shipped_library() and not flags:
        return load_shipped(name, tiles)
    return _find_or_build(name, (*OWN_FLAGS.get(name, ()), *flags), _targets(name, tiles))


def _targets(name: str, tiles: bool) -> Targets:
    """The sets of flags to try, best first; those of one variant if the user forces it."""
    if forced_instructions() is not None and machine() != "aarch64":
        return tuple(variant.flags for variant in candidates(name, tiles))
    return TARGETS if tiles or len(TARGETS) == 1 else TARGETS[1:]


def _find_or_build(name: str, flags: tuple[str, ...], targets: Targets) -> bytes | str:
    """The content of the library, or the reason why it could not be built."""
    compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
    found = shutil.which(compiler[0])
    if found is None:
        return f"C compiler {compiler[0]!r} not found; install gcc or clang, or set CC"
    key = _key(HERE / name, found, compiler[1:], flags, targets)
    path = private_directory(cache_directory()) / f"{name}-{key}.so"
    with suppress(FileNotFoundError):
        stored = read_private(path)
        content, digest = stored[:-DIGEST_BYTES], stored[-DIGEST_BYTES:]
        if hashlib.sha256(content).digest() == digest:
            return content
    failed = path.with_suffix(".failed")
    with suppress(FileNotFoundError):
        reason = read_private(failed).decode(errors="replace")
        if time.time() - failed.stat().st_mtime < RETRY_SECONDS:
            return f"{reason} (cached result; remove {failed} to try again)"
    built = _build(HERE / name, [found, *compiler[1:]], flags, targets, path)
    if isinstance(built, str):
        write_private(failed, built.encode())  # so that the next process does not retry
    return built


def _load(name: str, content: bytes) -> ctypes.CDLL:
    """Load a library from a private copy, so that changes to the cached file no longer matter."""
    if sys.platform == "linux":
        with suppress(OSError):  # the system may forbid code in memory
            return _load_from_memory(name, content)
    with tempfile.NamedTemporaryFile(dir=private_directory(cache_directory()), suffix=".so") as copy:
        copy.write(content)
        copy.flush()
        return ctypes.CDLL(copy.name)


def _load_from_memory(name: str, content: bytes) -> ctypes.CDLL:
    import fcntl  # not on every system

    with open(os.memfd_create(name), "wb") as memory:  # noqa: PTH123  # it has no path
        memory.write(content)
        memory.flush()
        # It stays open: the loader knows libraries by name, and would take the next one of this number for this one.
        # Numbers below 3 belong to the standard streams, even where they are closed.
        descriptor = fcntl.fcntl(memory, fcntl.F_DUPFD_CLOEXEC, 3)
    try:
        return ctypes.CDLL(f"/proc/self/fd/{descriptor}")
    except OSError:
        os.close(descriptor)
        raise


def _key(folder: Path, compiler: str, arguments: list[str], flags: tuple[str, ...], targets: Targets) -> str:
    """A digest of everything the library depends on: sources and headers, compiler, flags, processor."""
    about = Path(compiler).resolve().stat()
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.[ch]")):
        digest.update(f"{file.relative_to(folder)}\0{file.stat().st_size}\0".encode() + file.read_bytes())
    digest.update(repr((compiler, about.st_size, about.st_mtime_ns, arguments, COMMON, targets, flags)).encode())
    digest.update(processor_features())
    return digest.hexdigest()[:20]


def _first_error(output: str) -> str:
    """The first error in the output of a compiler or linker."""
    lines = output.strip().splitlines() or ["no message"]
    return next((line for line in lines if re.search(r"error:|ld(\.\w+)?: ", line)), lines[0])[:500]


def _build(folder: Path, compiler: list[str], flags: tuple[str, ...], targets: Targets, path: Path) -> bytes | str:
    """Compile, test and store the library; return the reason if no set of flags works."""
    import logging
    import subprocess

    logging.getLogger("dragoman").warning("building the C library %s for this machine, once (seconds)", folder.name)
    reasons: list[str] = []
    sources = [str(file) for file in sorted(folder.rglob("*.c"))]
    with tempfile.TemporaryDirectory(dir=path.parent) as temporary:
        built = Path(temporary) / path.name
        for target in targets:
            command = [*compiler, *COMMON, *target, *flags, *sources, "-o", str(built), "-lm"]
            compiled = subprocess.run(command, capture_output=True, text=True, check=False)
            if compiled.returncode:
                what = " with ".join((folder.name, *flags))
                reasons.append(f"{compiler[0]} could not compile {what}: {_first_error(compiled.stderr)}")
                continue
            tested = subprocess.run([sys.executable, "-c", SELF_TEST, str(built)], capture_output=True, check=False)
            if tested.returncode == 0:
                content = built.read_bytes()
                write_private(path, content + hashlib.sha256(content).digest())
                return content
            reasons.append(f"{folder.name}, built with {' '.join(target) or 'plain flags'}, failed its self-test")
    return reasons[0]  # of the flags that best suit this machine


class _Layout(ctypes.Structure):
    """A row of `structure_layouts`: a structure or one of its fields; the last row has no name."""

    _fields_ = (("name", ctypes.c_char_p), ("offset", ctypes.c_size_t), ("size", ctypes.c_size_t))


def layout_mismatch(code: ctypes.CDLL, structures: Structures) -> str | None:
    """The first structure or field that Python and C lay out differently, or None."""
    expected = {structure.__name__: (0, ctypes.sizeof(structure)) for structure in structures}
    for structure in structures:
        for name, *_ in structure._fields_:
            field = getattr(structure, name)
            expected[f"{structure.__name__}.{name}"] = (field.offset, field.size)
    found = _reported_layouts(code) if structures else {}
    for name in [*expected, *found]:
        if expected.get(name) != found.get(name):
            return f"{name} has (offset, size) {found.get(name)} in C, but {expected.get(name)} in Python"
    return None


def _reported_layouts(code: ctypes.CDLL) -> dict[str, tuple[int, int]]:
    try:
        prefix = code.prefix if isinstance(code, ShippedLibrary) else ""
        rows = ctypes.pointer(_Layout.in_dll(code, f"{prefix}structure_layouts"))
    except ValueError:  # the library has no layouts to report
        return {}
    found = takewhile(lambda row: row.name is not None, map(rows.__getitem__, count()))
    return {row.name.decode(): (row.offset, row.size) for row in found}
