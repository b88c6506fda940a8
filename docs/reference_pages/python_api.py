"""reference/python-api.md: the public names with their signatures and docstrings."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import dragoman
import dragoman.ray
from reference_pages.markdown import WIDTH, code, paragraphs, wrap

ENTRY = {
    "Whole tasks": [
        "train",
        "plan",
        "finish",
        "prepare",
        "evaluate",
        "average",
        "merge",
        "import_model",
        "export_model",
    ],
    "Translation": ["Translator", "Translation", "Search", "Sampling", "Constraints", "Terms"],
    "Models": ["Transformer", "Recurrent", "Bottleneck", "Convolutional", "AttentionMaps", "Padded", "Packed"],
    "Settings, data and errors": ["Recipe", "Corpus", "SilentReporter", "DragomanError"],
}
SHOWN_SPECIAL = ("__call__", "__iter__", "__len__")


def page() -> list[str]:
    """The title and the blocks of the page."""
    blocks = [
        "Python API",
        wrap(
            "The public names of `dragoman`, with their signatures. Importing `dragoman` costs nothing: each name is "
            "imported when it is first used. Every exception is a `DragomanError` with a stable "
            "[`code`](errors.md). `dragoman.__version__` is the version."
        ),
    ]
    for heading, names in grouped().items():
        blocks.append(f"## {heading}")
        for name in names:
            value = getattr(dragoman, name)
            blocks += _class(name, value) if inspect.isclass(value) else _function(f"### {name}", name, value)
    blocks += ["## On a cluster", wrap("`import dragoman.ray`; see [clusters](../howto/clusters.md).")]
    for name in dragoman.ray.__all__:
        blocks += _function(f"### ray.{name}", f"ray.{name}", getattr(dragoman.ray, name))
    return blocks


def grouped() -> dict[str, list[str]]:
    """The public names by heading; new ones that have none yet come last."""
    listed = [name for names in ENTRY.values() for name in names]
    others = [name for name in dragoman.__all__ if name not in listed and name != "__version__"]
    return ENTRY | ({"Other names": others} if others else {})


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class that Dragoman defines, base classes first."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("dragoman."):
            for name, value in vars(base).items():
                inner = value.__func__ if isinstance(value, classmethod | staticmethod) else value
                if (not name.startswith("_") or name in SHOWN_SPECIAL) and (
                    inspect.isfunction(inner) or isinstance(value, property) or hasattr(value, "func")
                ):
                    found[name] = value
    yield from found.items()


def signature(function: Any, name: str) -> str:
    """The definition's own arguments and result, one to a line if they are long."""
    node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    arguments = node.args
    for first in (arguments.posonlyargs, arguments.args):
        if first and first[0].arg in ("self", "cls"):
            del first[0]
            break
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    parts = list(_arguments(arguments))
    line = f"{name}({', '.join(parts)}){result}"
    if len(line) <= WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){result}"


def _arguments(arguments: ast.arguments) -> Iterator[str]:
    """Each argument as its definition writes it."""
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    for number, (argument, default) in enumerate(zip(positional, defaults, strict=True), 1):
        yield _argument(argument, default)
        if number == len(arguments.posonlyargs):
            yield "/"
    if arguments.vararg is not None:
        yield f"*{_argument(arguments.vararg, None)}"
    elif arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _argument(argument, default)
    if arguments.kwarg is not None:
        yield f"**{_argument(arguments.kwarg, None)}"


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    kind = f": {ast.unparse(argument.annotation)}" if argument.annotation is not None else ""
    return f"{argument.arg}{kind}{f' = {ast.unparse(default)}' if default is not None else ''}"


def _function(heading: str, name: str, function: Any) -> list[str]:
    return [heading, code(signature(function, name), "py"), *paragraphs(function.__doc__)]


def _class(name: str, kind: type) -> list[str]:
    blocks = [f"### {name}", *_constructor(name, kind), *paragraphs(kind.__doc__)]
    for member, value in members(kind):
        heading = f"#### {name}.{member}"
        if isinstance(value, property) or hasattr(value, "func"):
            getter = value.fget if isinstance(value, property) else value.func
            returns = inspect.signature(getter).return_annotation
            blocks += [heading, code(f"{member}: {returns}", "py"), *paragraphs(getter.__doc__)]
        elif isinstance(value, classmethod | staticmethod):
            blocks += _function(heading, f"{name}.{member}", value.__func__)
        else:
            blocks += _function(heading, member, value)
    return blocks


def _constructor(name: str, kind: type) -> list[str]:
    if is_dataclass(kind):
        lines = [f"    {each.name}: {each.type}{_default(each)}," for each in fields(kind) if each.init]
        return [code(f"{name}(\n" + "\n".join(lines) + "\n)", "py")]
    made = vars(kind).get("__init__") or vars(kind).get("__new__")
    if made is None:
        made = next((vars(base)["__init__"] for base in kind.__mro__[:-1] if "__init__" in vars(base)), None)
    if not inspect.isfunction(made) or not made.__module__.startswith("dragoman"):
        return []
    return [code(signature(made, name).removesuffix(" -> None"), "py")]


def _default(each: Any) -> str:
    if each.default is not MISSING:
        return f" = {each.default!r}"
    return " = ..." if each.default_factory is not MISSING else ""
