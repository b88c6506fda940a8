"""Compile one shared library for a platform: every variant of every C library, with zig as the cross-compiler.

Each variant is compiled from the same sources with its own flags. The functions that its files share get the prefix
`<library>_<variant>_`, so that the variants can be linked together.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from dragoman.native.build import COMMON, HERE, OWN_FLAGS  # noqa: E402
from dragoman.native.shipped import SUFFIXES  # noqa: E402
from dragoman.native.variants import variants  # noqa: E402

LIBRARIES: Final = ("processor", "translate", "subword_sampling", "word_alignment", "gemm")
ZIG_CPUS: Final = {"-march=x86-64-v3": "x86_64_v3", "-march=x86-64-v4": "x86_64_v4"}  # zig has its own names
DECLARATION: Final = re.compile(
    r"^(?!static\b|ALWAYS\b|typedef\b|extern\b|return\b)(?:[A-Za-z_]\w*[\s*]+)+(\w+)\([^;{}]*\);", re.MULTILINE
)
VARIABLE: Final = re.compile(r"^extern [\w\s*]*?(\w+);", re.MULTILINE)
EXPORTED: Final = re.compile(r"^EXPORT [\w\s*]*?(\w+)\s*(?:\(|\[)", re.MULTILINE)


@dataclass(frozen=True)
class Platform:
    """A platform that a wheel is built for: its tag, zig's target, and Python's names of architecture and system."""

    tag: str
    target: str
    architecture: str
    system: str

    @property
    def file_name(self) -> str:
        """The name of the library in the package."""
        return f"dragoman_native{SUFFIXES.get(self.system, '.so')}"


PLATFORMS: Final = (
    Platform("manylinux_2_17_x86_64", "x86_64-linux-gnu.2.17", "x86_64", "linux"),
    Platform("manylinux_2_17_aarch64", "aarch64-linux-gnu.2.17", "aarch64", "linux"),
    Platform("macosx_11_0_x86_64", "x86_64-macos.11.0", "x86_64", "darwin"),
    Platform("macosx_11_0_arm64", "aarch64-macos.11.0", "aarch64", "darwin"),
    Platform("win_amd64", "x86_64-windows-gnu", "x86_64", "win32"),
)


def shared_names(folder: Path) -> list[str]:
    """The functions and variables that the files of a library share, or that Python calls."""
    found: set[str] = set()
    for file in folder.rglob("*.[ch]"):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
        found.update(EXPORTED.findall(text))
        if file.suffix == ".h":
            found.update(DECLARATION.findall(text), VARIABLE.findall(text))
    return sorted(found)


def zig_flags(flags: tuple[str, ...]) -> list[str]:
    """The flags of a variant, in zig's words."""
    cpus = [ZIG_CPUS[flag] for flag in flags if flag in ZIG_CPUS]
    features = [flag.removeprefix("-m").replace("-", "_") for flag in flags if flag not in ZIG_CPUS]
    return [f"-mcpu={'+'.join([*cpus, *features])}"] if cpus else []


def compile_commands(platform: Platform, folder: Path) -> Iterator[list[str]]:
    """The compiler's words for every file of every variant; each ends with its object file."""
    common = [flag for flag in COMMON if flag not in ("-shared", *(("-fPIC",) if platform.system == "win32" else ()))]
    where = (platform.architecture, platform.system)
    parts = [(library, variant) for library in LIBRARIES for variant in variants(library, *where)]
    for name, variant in parts:
        prefix = f"{name}_{variant.name}_"
        header = folder / f"{prefix}names.h"
        header.write_text("".join(f"#define {each} {prefix}{each}\n" for each in shared_names(HERE / name)))
        own = [flag for flag in OWN_FLAGS.get(name, ()) if not flag.startswith("-l")]
        flags = [*common, *zig_flags(variant.flags), *own, "-include", str(header), "-g0"]
        for source in sorted((HERE / name).rglob("*.c")):
            built = folder / f"{prefix}{source.stem}.o"
            yield [*flags, "-c", str(source), "-o", str(built)]


def build_library(platform: Platform, folder: Path) -> Path:
    """Compile and link the library of a platform into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    commands, zig = list(compile_commands(platform, folder)), [sys.executable, "-m", "ziglang", "cc", "-target"]

    def call(words: list[str]) -> None:
        done = subprocess.run([*zig, platform.target, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{platform.tag}: {' '.join(words)}\n{done.stderr}")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(call, commands))
    library = folder / platform.file_name
    libraries = {"linux": ["-lm", "-pthread", "-ldl"], "darwin": ["-lm", "-pthread"], "win32": []}[platform.system]
    call(["-shared", "-s", "-o", str(library), *(words[-1] for words in commands), *libraries])
    return library
