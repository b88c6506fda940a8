"""The size of the code, and the files that a task passes: lines, modules, names that are defined twice, walks.

    python benchmarks/codebase.py [ROOT]
    python benchmarks/codebase.py --walk translate MODEL --text "Good morning!"
    python benchmarks/codebase.py --walk inspect attention MODEL --text "Good morning!" --out attention.html

`--walk` runs a command and lists the files whose functions run, in the order of their first call.
"""

from __future__ import annotations

import ast
import sys
import threading
from collections import Counter, defaultdict
from pathlib import Path
from types import FrameType


def sizes(package: Path) -> None:
    modules = sorted(package.rglob("*.py"))
    folders = Counter(str(path.parent.relative_to(package)) for path in modules)
    names: dict[str, set[Path]] = defaultdict(set)
    for path in modules:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name[0] != "_":
                names[node.name].add(path)
    twice = sorted(name for name, places in names.items() if len(places) > 1)
    print(f"{sum(len(path.read_text(encoding='utf-8').splitlines()) for path in modules):,} lines of Python")
    print(f"{len(modules)} modules; most in a folder: {folders.most_common(4)}")
    print(f"{len(names):,} functions and classes; defined in more than one module: {len(twice)} ({', '.join(twice)})")


def walk(arguments: list[str]) -> None:
    import dragoman
    from dragoman.cli import main

    package, files = f"{Path(dragoman.__file__).parent}/", dict[str, None]()

    def called(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(package) and code.co_flags & 2:  # a function, not a module
            files.setdefault(code.co_filename.removeprefix(package))

    threading.setprofile(called)
    sys.setprofile(called)
    try:
        main(arguments)
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
    print(f"{len(files)} files", *files, sep="\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--walk"]:
        walk(sys.argv[2:])
    else:
        sizes(Path(sys.argv[1] if sys.argv[1:] else Path(__file__).parents[1]) / "src" / "dragoman")
