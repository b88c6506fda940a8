"""Install a wheel into a fresh environment without extras, and run what it promises there.

    python packaging/try_wheel.py dist --model tests/fixtures/before/trained --text tests/fixtures/before/t \\
        --documents tests/fixtures/documents

Translates, scores, aligns and evaluates with every variant that the processor supports, and translates documents; fails
if a variant translates differently in float32, if a document is left out, if PyTorch is needed, if anything is
compiled, or if the installation is too large.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MAX_MEGABYTES = 120  # of the environment's packages, without pip and setuptools
INSTALLERS = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
NO_DOCUMENTS = (".png", ".py", ".sh")  # what makes the documents of the fixtures
SUPPORTED = """
import ctypes
from dragoman.native import shipped, variants
supports = ctypes.CDLL(str(shipped.LIBRARY)).processor_portable_supports
arm = variants.machine() == "aarch64"
print(*[name for name in variants.known_instructions() if arm or supports(name.encode())])
"""
LOADED = """
import ctypes, importlib.util
from dragoman.engines.native_model import load_code
from dragoman.native import shipped, why_not
assert importlib.util.find_spec("torch") is None
code = load_code()
assert isinstance(code, shipped.ShippedLibrary), why_not("translate")
code.instructions.restype = ctypes.c_char_p
print(code.instructions().decode())
"""


def installed_megabytes(packages: Path) -> float:
    """The size of the installed packages, without the installers."""
    parts = [part for part in packages.iterdir() if not part.name.startswith(INSTALLERS)]
    files = [file for part in parts for file in ([part] if part.is_file() else part.rglob("*")) if file.is_file()]
    return sum(file.stat().st_size for file in files) / 2**20


def files_below(place: Path) -> set[Path]:
    """The files in a folder and its subfolders, relative to it."""
    return {file.relative_to(place) for file in place.rglob("*") if file.is_file()}


def try_wheel(
    wheels: Path, model: Path, text: Path, documents: Path | None, constraints: Path | None, folder: Path
) -> None:
    """Install the wheel of this platform from a directory, and try it."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    binaries = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    python = next(path for path in (binaries / "python.exe", binaries / "python") if path.exists())
    words = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    version = next(wheels.glob("dragoman-*.whl")).name.split("-")[1]
    pins = [] if constraints is None else ["-c", str(constraints)]
    # --only-binary: the wheel of this platform must be there
    only = ["--only-binary", "dragoman", "--find-links", str(wheels)]
    subprocess.run([*words, *pins, *only, f"dragoman=={version}"], check=True)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {"DRAGOMAN_CACHE": str(folder / "cache"), "CC": "no-compiler-must-be-needed", "PYTHONUTF8": "1"}

    def run(*arguments: str, **more: str) -> str:
        command = [str(python), *arguments]
        done = subprocess.run(
            command, env=environment | more, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(arguments)} failed: {done.stderr}")
        return done.stdout

    packages = Path(run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    size = installed_megabytes(packages)
    print(f"installed: {size:.0f} MiB")
    if size > MAX_MEGABYTES:
        raise SystemExit(f"the installation has {size:.0f} MiB; at most {MAX_MEGABYTES} are allowed")
    source, target = (str(text.with_suffix(suffix).resolve()) for suffix in (".en", ".de"))
    here, outputs = str(model.resolve()), {}
    for name in run("-c", SUPPORTED).split():
        used = run("-c", LOADED, DRAGOMAN_INSTRUCTIONS=name).strip()
        words = ["-m", "dragoman", "translate", here, source, "--precision", "float32"]
        outputs[name] = run(*words, DRAGOMAN_INSTRUCTIONS=name)
        print(f"{name}: uses {used}, {len(outputs[name].splitlines())} lines translated")
    if len(set(outputs.values())) != 1 or not all(outputs.values()):
        raise SystemExit("the variants translate differently in float32")
    sides = ["--source", source, "--target", target]
    commands = (
        ["translate", here, source, "--alignments"],
        ["score", here, *sides],
        ["inspect", "alignment", here, *sides],
        ["evaluate", here, "--source", source, "--reference", target],
    )
    for command in commands:
        if not run("-m", "dragoman", *command).strip():
            raise SystemExit(f"{command[0]} printed nothing")
        print(f"dragoman {command[0]}: works")
    if documents is not None:
        run("-m", "dragoman", "translate", here, str(documents.resolve()), "-o", "translated")
        sent, written = (files_below(place) for place in (documents, folder / "translated"))
        expected = {file for file in sent if file.suffix not in NO_DOCUMENTS}
        if missing := sorted(map(str, expected - written)):
            raise SystemExit(f"{len(missing)} of {len(expected)} documents were not translated: {', '.join(missing)}")
        print(f"dragoman translate: {len(expected)} documents")


def main() -> None:
    """Try the wheel of this platform."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", type=Path, help="directory with the wheels")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True, help="files with the suffixes .en and .de, without suffix")
    parser.add_argument("--documents", type=Path, help="folder of documents to translate")
    parser.add_argument("--constraints", type=Path, help="versions to install")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        constraints = None if options.constraints is None else options.constraints.resolve()
        try_wheel(options.wheels.resolve(), options.model, options.text, options.documents, constraints, Path(folder))


if __name__ == "__main__":
    main()
