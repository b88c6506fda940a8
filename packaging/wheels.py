"""Build the wheels of a release, one per platform, on any machine: zig cross-compiles the C libraries.

python packaging/wheels.py --out dist
python packaging/wheels.py --out dist --only win_amd64
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from shared_library import PLATFORMS, ROOT, Platform, build_library

MAX_BYTES = 3_000_000  # of a wheel


def build_wheel(platform: Platform, out: Path) -> Path:
    """Build the wheel of a platform, and return its path."""
    with tempfile.TemporaryDirectory() as folder:
        library = build_library(platform, Path(folder))
        environment = {"DRAGOMAN_WHEEL_LIBRARY": str(library), "DRAGOMAN_WHEEL_TAG": platform.tag}
        words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out.resolve())]
        subprocess.run(words, cwd=ROOT, env={**os.environ, **environment}, check=True, stdout=subprocess.DEVNULL)
        print(f"{platform.tag}: library {library.stat().st_size:,} bytes", end="", flush=True)
    (wheel,) = out.glob(f"*-{platform.tag}.whl")
    print(f", wheel {wheel.stat().st_size:,} bytes: {wheel}")
    if wheel.stat().st_size > MAX_BYTES:
        raise SystemExit(f"{wheel} has {wheel.stat().st_size:,} bytes; at most {MAX_BYTES:,} are allowed")
    return wheel


def main() -> None:
    """Build the wheels that the command line asks for."""
    parser = argparse.ArgumentParser(description="Build the wheels of a release, one per platform.")
    parser.add_argument("--out", type=Path, default=Path("dist"), help="directory for the wheels")
    parser.add_argument("--only", action="append", choices=[each.tag for each in PLATFORMS], help="one platform's tag")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    for platform in PLATFORMS:
        if chosen.only is None or platform.tag in chosen.only:
            build_wheel(platform, chosen.out)


if __name__ == "__main__":
    main()
