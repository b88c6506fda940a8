"""C beside the Python that uses it, compiled for the machine at hand on first use, and kept.

Nothing depends on it: without a C compiler `library` gives None, and the caller goes its slower way. What was built is
first tried in a child process, because virtual machines exist that announce instructions and then kill who uses them.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
COMMON: Final = ("-O3", "-std=gnu11", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math", "-pthread")
PLAIN: Final[tuple[str, ...]] = ()
ON_X86: Final = (
    ("-march=native",),
    ("-march=native", "-mno-amx-tile", "-mno-amx-int8", "-mno-amx-bf16"),
    ("-march=x86-64-v3",),  # with AVX2, for a virtual machine that announces more than it has
    PLAIN,
)
# The first set of flags whose library answers is kept. On ARM not every compiler knows -march=native, and what is built
# with plain flags asks the processor itself (neon.h).
TARGETS: Final = (PLAIN,) if platform.machine() in ("aarch64", "arm64") else ON_X86
PATIENCE: Final = 24 * 3600  # seconds until what failed is tried again: there may have been no memory, or no disk
TRIAL: Final = "import ctypes, sys; sys.exit(ctypes.CDLL(sys.argv[1]).self_test())"

_reasons: dict[str, str] = {}


@cache
def library(name: str, *flags: str) -> ctypes.CDLL | None:
    """The library built from `<name>.c`, or None where it cannot be had; `why_not` then says why.

    Its `int self_test(void)` must give 0 once every kind of instruction that it may use has been used and was right.
    `DRAGOMAN_NATIVE=0` turns all of them off; `CC` names another compiler.
    """
    try:
        made = _made(name, flags)
        if isinstance(made, Path):
            return _loaded(made)
    except OSError as error:
        made = f"{error}; set DRAGOMAN_CACHE to a directory of your own"
    _reasons[name] = str(made)
    return None


def why_not(name: str) -> str | None:
    """The reason for which `library(name)` gave None."""
    return _reasons.get(name)


def cache_directory() -> Path:
    """Where built things are kept: `$DRAGOMAN_CACHE`, or the user's cache directory."""
    if os.environ.get("DRAGOMAN_CACHE"):
        return Path(os.environ["DRAGOMAN_CACHE"])
    try:
        above = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a user without a home
        return Path(tempfile.gettempdir()) / f"dragoman-{os.getuid()}"
    return above / "dragoman"


def _made(name: str, flags: tuple[str, ...]) -> Path | str:
    """The file of the library, built if need be; a reason where there is none."""
    if os.environ.get("DRAGOMAN_NATIVE", "1") == "0":
        return "DRAGOMAN_NATIVE=0 says not to use it"
    compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
    found = shutil.which(compiler[0])
    if found is None:
        return f"there is no C compiler {compiler[0]!r} on this machine; install gcc or clang, or set CC"
    source = HERE / f"{name}.c"
    path = cache_directory() / f"{name}-{_key(source, found, compiler[1:], flags)}.so"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    failed = path.with_suffix(".failed")
    for file in (path.parent, path, failed):
        if file.exists() and not _ours(file):
            return f"{file} could be written by others, and holds code; set DRAGOMAN_CACHE to a directory of your own"
    if path.exists() and path.stat().st_size:
        return path
    if failed.exists() and time.time() - failed.stat().st_mtime < PATIENCE:
        return f"{failed.read_text(encoding='utf-8')} (remembered; remove {failed} to have it tried again)"
    made = _build(source, [found, *compiler[1:]], flags, path)
    if isinstance(made, str):
        failed.write_text(made, encoding="utf-8")  # so that the next process does not try the same in vain
    return made


def _ours(path: Path) -> bool:
    """Whether nobody but this user and the administrator can have written it."""
    about = path.stat()
    return about.st_uid in (os.geteuid(), 0) and not about.st_mode & 0o022


def _loaded(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        if not re.search(r"map segment|allocate memory", str(error)):  # there was no memory for it
            path.unlink(missing_ok=True)  # damaged: the next process builds it again
        raise


def _key(source: Path, compiler: str, arguments: list[str], flags: tuple[str, ...]) -> str:
    """What the result depends on: the sources, the compiler, the flags, the processor."""
    about = Path(compiler).resolve().stat()
    digest = hashlib.sha256()
    for file in _included(source):
        digest.update(file.read_bytes())
    digest.update(repr((compiler, about.st_size, about.st_mtime_ns, arguments, COMMON, TARGETS, flags)).encode())
    digest.update(_processor())
    return digest.hexdigest()[:20]


def _included(source: Path) -> list[Path]:
    """A source and the headers of ours that it includes, and those that these include; all branches of an #if."""
    found, waiting = {source}, [source]
    while waiting:
        file = waiting.pop()
        names = re.findall(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', file.read_text(encoding="utf-8"), re.MULTILINE)
        new = {path for name in names if (path := file.parent / name).is_file()} - found  # of others the compiler tells
        found |= new
        waiting += new
    return sorted(found)


def _processor() -> bytes:
    """What tells this processor's abilities from another's."""
    try:
        with Path("/proc/cpuinfo").open("rb") as lines:
            return next(
                (line for line in lines if line.startswith((b"flags", b"Features"))), platform.machine().encode()
            )
    except OSError:  # not Linux: macOS names the processor and, of Intel's, the abilities
        names = ("machdep.cpu.brand_string", "machdep.cpu.features", "machdep.cpu.leaf7_features")
        asked = shutil.which("sysctl") and subprocess.run(["sysctl", "-n", *names], capture_output=True, check=False)
        return platform.machine().encode() + (asked.stdout if asked else platform.processor().encode())


def _first_error(said: str) -> str:
    """The line of what a compiler or its linker said that tells what was wrong."""
    lines = said.strip().splitlines() or ["it did not say why"]
    return next((line for line in lines if re.search(r"error:|ld(\.\w+)?: ", line)), lines[0])[:500]


def _build(source: Path, compiler: list[str], flags: tuple[str, ...], path: Path) -> Path | str:
    """Build, try, and put in place; the reason where no set of flags led to a library that works."""
    import logging

    logging.getLogger("dragoman").warning("building %s for this machine, which takes seconds, once", source.name)
    reasons: list[str] = []
    with tempfile.TemporaryDirectory(dir=path.parent) as beside:
        made = Path(beside) / path.name
        for target in TARGETS:
            words = [*compiler, *COMMON, *target, *flags, str(source), "-o", str(made), "-lm"]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                what = " with ".join((source.name, *flags))
                reasons.append(f"{compiler[0]} could not compile {what}: {_first_error(done.stderr)}")
                continue
            tried = subprocess.run([sys.executable, "-c", TRIAL, str(made)], capture_output=True, check=False)
            if tried.returncode == 0:
                made.chmod(0o700)
                made.replace(path)
                return path
            reasons.append(f"{source.name}, built with {' '.join(target) or 'plain flags'}, failed its own test here")
    return reasons[0]  # of the flags that suit this machine best
