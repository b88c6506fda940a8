"""The variants of the C libraries: one set of sources, compiled for several instruction sets.

A wheel's library has all variants of its platform, and the best one that this machine can run is chosen when it is
loaded. `DRAGOMAN_INSTRUCTIONS` forces one, to compare or to report a bug.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FORCE: Final = "DRAGOMAN_INSTRUCTIONS"
PORTABLE: Final = "portable"  # the instructions that every processor of the architecture has


@dataclass(frozen=True)
class Variant:
    """One way to compile a library: its name, and the flags of gcc and clang. `systems` limits it to some systems."""

    name: str
    flags: tuple[str, ...] = ()
    tiles: bool = False  # whether it uses Intel's tile registers, which the system may deny to a process
    systems: tuple[str, ...] = ("linux", "darwin", "win32")


V3: Final = ("-march=x86-64-v3",)
VNNI: Final = ("-march=x86-64-v4", "-mavx512vnni")
BF16: Final = (*VNNI, "-mavx512bf16")
AMX: Final = ("-mamx-tile", "-mamx-int8")
BEST_FIRST: Final[dict[tuple[str, str], tuple[Variant, ...]]] = {
    ("translate", "x86_64"): (
        Variant("amx", (*VNNI, *AMX), tiles=True, systems=("linux",)),
        Variant("avx512_vnni", VNNI),
        Variant("avx_vnni", (*V3, "-mavxvnni")),
        Variant("avx2", V3),
        Variant(PORTABLE),
    ),
    ("gemm", "x86_64"): (
        Variant("amx_bf16", (*BF16, "-mamx-tile", "-mamx-bf16"), tiles=True, systems=("linux",)),
        Variant("avx512_bf16", BF16, systems=("linux",)),
    ),
    ("gemm", "aarch64"): (),
}
# On ARM one variant has all three, because compilers do not agree on flags for single functions (int8_neon.c).
ARM_INSTRUCTIONS: Final = ("i8mm", "dotprod", PORTABLE)


def machine() -> str:
    """The architecture of this machine, by the name that Linux gives it."""
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def processor_features() -> bytes:
    """The instruction sets of this processor, as the system lists them."""
    try:
        with Path("/proc/cpuinfo").open("rb") as lines:
            return next(
                (line for line in lines if line.startswith((b"flags", b"Features"))), platform.machine().encode()
            )
    except OSError:  # macOS
        import subprocess

        names = ("machdep.cpu.brand_string", "machdep.cpu.features", "machdep.cpu.leaf7_features")
        listed = shutil.which("sysctl") and subprocess.run(["sysctl", "-n", *names], capture_output=True, check=False)
        return platform.machine().encode() + (listed.stdout if listed else platform.processor().encode())


def variants(name: str, architecture: str, system: str = sys.platform) -> tuple[Variant, ...]:
    """The variants of a library, best first."""
    listed = BEST_FIRST.get((name, architecture), (Variant(PORTABLE),))
    return tuple(variant for variant in listed if system in variant.systems)


def forced_instructions() -> str | None:
    """The instructions that the user asks for, or None; raise ValueError if this architecture has no such variant."""
    asked = os.environ.get(FORCE) or None
    known = known_instructions()
    if asked is not None and asked not in known:
        raise ValueError(f"{FORCE}={asked} is not known on {machine()}; use one of: {', '.join(known)}")
    return asked


def known_instructions() -> list[str]:
    """The instructions that can be forced on this architecture, best first."""
    if machine() == "aarch64":
        return [*ARM_INSTRUCTIONS]
    return [variant.name for variant in variants("translate", machine())]


def candidates(name: str, tiles: bool) -> tuple[Variant, ...]:
    """The variants of a library to try on this machine, best first; without `tiles`, those that need none."""
    listed = [variant for variant in variants(name, machine()) if tiles or not variant.tiles]
    asked = forced_instructions()
    named = [variant for variant in listed if variant.name == asked]  # a library that has no such variant takes any
    return tuple(named or listed)
