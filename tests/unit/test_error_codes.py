"""docs/reference/errors.md lists every error code of the source, and no others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import dragoman
from dragoman import errors

SOURCE = Path(dragoman.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")


@cache
def found() -> tuple[set[str], list[tuple[Path, ast.Raise]]]:
    """The codes and the `raise`s of the source. Its half a million nodes are not kept: they would slow down every
    garbage collection of the tests that follow."""
    codes, raises = set(), []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            codes.update(codes_of(node))
            if isinstance(node, ast.Raise):
                raises.append((path.relative_to(SOURCE), node))
    return codes, raises


def strings(node: ast.expr | None) -> Iterator[str]:
    """The strings that an expression may be: a constant, a choice of two, the values of a table, a default."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp():
            yield from (*strings(node.body), *strings(node.orelse))
        case ast.Dict():
            yield from (text for value in node.values for text in strings(value))
        case ast.Call(func=ast.Attribute(attr="get")):
            yield from (text for value in node.args for text in strings(value))


def codes_of(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Call(func=ast.Name(id="RequestError" | "fail"), args=[_, code, *_]):
            yield from strings(code)
        case ast.Call():
            yield from (text for keyword in node.keywords if keyword.arg == "code" for text in strings(keyword.value))
        case ast.Assign(targets=[ast.Name(id="code" | "default_code")]):
            yield from strings(node.value)
        case ast.AnnAssign(target=ast.Name(id="default_code" | "HTTP_CODES")):
            yield from strings(node.value)


def test_the_page_lists_every_code_once_and_no_others() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == found()[0]


def test_tables_are_sorted_and_codes_are_snake_case() -> None:
    for section in PAGE.split("\n## ")[1:]:
        listed = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
        assert listed == sorted(listed)
        assert all(re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", code) for code in listed)


def test_every_raise_has_a_code_that_says_something() -> None:
    for path, node in found()[1]:
        if isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
            kind = getattr(errors, node.exc.func.id, None)
            if isinstance(kind, type) and issubclass(kind, errors.DragomanError) and kind.default_code == "error":
                assert any(keyword.arg == "code" for keyword in node.exc.keywords), f"{path}, line {node.lineno}"
