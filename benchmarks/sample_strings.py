"""Draw a random sample of user-visible strings and of docstrings, to judge how they read.

    python benchmarks/sample_strings.py [--seed 1] [--count 60] [PATH ...]

User-visible strings are arguments of `raise`, `note`, `warn`, `echo` and the like, `help=` of options, docstrings of
click commands, and assignments that look like parts of messages. The same seed and source give the same sample. Every
entry has its place, so that an odd sentence can be fixed.
"""

from __future__ import annotations

import argparse
import ast
import random
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[1] / "src" / "dragoman"
SHOWING = {"note", "warn", "echo", "say", "print", "print_error", "UsageError", "BadParameter", "option", "argument"}
MIN_WORDS = 3


class Found(NamedTuple):
    """A string with its place."""

    place: str
    text: str


def as_text(node: ast.expr) -> str:
    """The words of a string; the values of an f-string as `{expression}`, without their format."""
    if isinstance(node, ast.JoinedStr):
        return "".join(as_text(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return "{" + ast.unparse(node.value) + "}"
    return str(node.value) if isinstance(node, ast.Constant) else ""


def strings_in(node: ast.AST) -> Iterator[ast.expr]:
    """The outermost strings inside a node."""
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        yield node
        return
    for child in ast.iter_child_nodes(node):
        yield from strings_in(child)


def is_shown(node: ast.AST) -> bool:
    """Whether the strings inside a node are for users."""
    if isinstance(node, ast.Raise):
        return True
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2] in SHOWING
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id in {"message", "advice", "reason", "problem", "why", "hint"}
        for target in node.targets
    )


def is_command(node: ast.AST) -> bool:
    """Whether this is a click command, whose docstring is its help."""
    return isinstance(node, ast.FunctionDef) and any("command" in ast.unparse(each) for each in node.decorator_list)


def collect(paths: list[Path]) -> tuple[list[Found], list[Found]]:
    """All user-visible strings and all docstrings of some Python files."""
    shown: dict[tuple[Path, int], str] = {}
    documented: dict[tuple[Path, int], str] = {}
    for path in sorted(paths):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                if text := ast.get_docstring(node):
                    (shown if is_command(node) else documented)[path, node.body[0].lineno] = text
            elif is_shown(node):
                for each in strings_in(node):
                    if len(as_text(each).split()) >= MIN_WORDS:
                        shown[path, each.lineno] = as_text(each)
    return in_order(shown), in_order(documented)


def in_order(found: dict[tuple[Path, int], str]) -> list[Found]:
    return [Found(f"{path.relative_to(SOURCE.parent)}:{line}", text) for (path, line), text in sorted(found.items())]


def show(title: str, found: list[Found], count: int, seed: int) -> None:
    """Print a sample."""
    print(f"# {title}: {min(count, len(found))} of {len(found):,}, seed {seed}\n")
    for each in random.Random(seed).sample(found, min(count, len(found))):
        print(f"{each.place}\n{textwrap.indent(each.text, '    ')}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="files or folders (default: src/dragoman)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    given = parser.parse_args()
    files = [file for path in given.paths or [SOURCE] for file in (path.rglob("*.py") if path.is_dir() else [path])]
    shown, documented = collect([file.resolve() for file in files])
    show("User-visible strings", shown, given.count, given.seed)
    show("Docstrings", documented, given.count, given.seed)


if __name__ == "__main__":
    main()
