"""Which package may import which; imports inside functions count too."""

from __future__ import annotations

import ast
from pathlib import Path

import dragoman

ROOT = Path(dragoman.__file__).parent

BASE = {"errors", "arrays", "cpu", "randomness", "values", "config", "files", "file_locks", "progress"}
LOADS = BASE | {"native", "text", "modeldir"}
MAY_IMPORT = {
    "errors": set(),
    "arrays": set(),
    "cpu": set(),
    "randomness": set(),
    "progress": set(),
    "child_process": set(),
    "parent_process": set(),
    "values": {"errors"},
    "config": {"errors", "values"},
    "file_locks": set(),
    "files": {"errors", "values", "file_locks"},
    "native": set(),  # C and how it is built
    "text": BASE | {"native"},
    "data": BASE | {"native", "text"},
    "modeldir": BASE | {"native", "text"},  # the directory that is a model; no torch
    "nn": {"errors", "native"},  # sees no recipe, no file, no rank
    "models": LOADS | {"nn"},
    "training": LOADS | {"data", "nn", "models", "parent_process"},  # is handed what evaluates, so it needs no engine
    "search": BASE | {"text", "nn", "models"},
    "engines": LOADS | {"child_process", "nn", "models", "search"},
    "translation": LOADS | {"models", "search", "engines"},
    "evaluation": LOADS | {"data", "nn", "models", "search", "engines", "translation"},
    "inspect": LOADS | {"nn", "models", "search", "engines", "translation"},
    "documents": LOADS | {"data", "search", "engines", "translation"},  # no torch
    "serve": LOADS | {"child_process", "models", "search", "engines", "translation", "documents"},
    "conversion": LOADS | {"nn", "models", "search", "engines", "translation"},  # exports are verified by translating
    "distillation": LOADS | {"data", "models", "search", "engines", "training", "translation"},
    "forecast": LOADS | {"data", "nn", "models", "training", "engines", "inspect"},
    "api": LOADS
    | {"data", "models", "search", "engines", "training", "translation", "evaluation", "conversion", "distillation"}
    | {"cluster"},
    "cluster": LOADS
    | {
        "data",
        "search",
        "engines",
        "training",
        "translation",
        "documents",
        "distillation",
        "parent_process",
    },  # alone imports Ray
    "ray": LOADS | {"cluster", "search", "translation", "documents"},  # the public functions of cluster
    "demo": BASE | {"text", "models", "modeldir", "inspect", "translation", "api"},
    "cli": None,  # everything
    "__init__": None,  # the public names
    "__main__": {"cli", "parent_process"},
}


def part(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imported_parts(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where things come from"
            modules = [node.module or ""]
            if node.module == "dragoman":
                modules = [f"dragoman.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            continue
        for module in modules:
            names = module.split(".")
            if names[0] == "dragoman" and len(names) > 1 and names[1] != "__version__":
                found.add(names[1])
    return found


def test_every_part_has_a_rule() -> None:
    assert {part(path) for path in ROOT.rglob("*.py")} <= set(MAY_IMPORT)


def test_imports_point_one_way() -> None:
    wrong = []
    for path in ROOT.rglob("*.py"):
        allowed = MAY_IMPORT[part(path)]
        if allowed is not None:
            extra = imported_parts(path) - allowed - {part(path)}
            wrong += [f"{path.relative_to(ROOT)} imports dragoman.{name}" for name in sorted(extra)]
    assert not wrong


def test_nn_knows_no_file() -> None:
    for path in (ROOT / "nn").rglob("*.py"):
        found = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").partition(".")[0])
        assert not found & {"pathlib", "json", "fcntl", "io", "tempfile", "shutil"}, path


def test_the_rules_themselves_have_no_circle() -> None:
    order: list[str] = []
    waiting = {name: set(allowed) for name, allowed in MAY_IMPORT.items() if allowed is not None and name != "__main__"}
    while waiting:
        free = [name for name, needs in waiting.items() if needs <= set(order)]
        assert free, f"a circle among {sorted(waiting)}"
        order += free
        waiting = {name: needs for name, needs in waiting.items() if name not in free}


def test_the_walk_sees_an_import_inside_a_function(tmp_path: Path) -> None:
    sly = tmp_path / "sly.py"
    sly.write_text("def f():\n    from dragoman.models import Transformer\n    import dragoman.cli\n")
    assert imported_parts(sly) == {"models", "cli"}
