"""reference/recipe.md: every recipe key with its type, default, meaning and section of the paper."""

from __future__ import annotations

import ast
import inspect
import re
import types
from dataclasses import fields
from itertools import pairwise
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from dragoman.config import PRESETS, ModelRecipe, Recipe, toml_value
from dragoman.config.forecast import ForecastRecipe
from dragoman.config.model import USED_WITH
from reference_pages.markdown import table, wrap

SECTION = re.compile(r" \(sections? ([\d.]+(?: and [\d.]+)?)\)\.$")


def page() -> list[str]:
    """The title and the blocks of the page."""
    blocks = [
        "Recipe keys",
        wrap(
            "A recipe holds every setting of a run, in four sections. Write it as a TOML file, or change single keys "
            "with `--set SECTION.KEY=VALUE`; `dragoman recipe` prints one in full. Most defaults are the paper's, "
            "and the last column is the section of the paper that describes a setting."
        ),
        "    dragoman recipe base --set model.norm_order=pre --set train.steps=20000",
    ]
    for section, kind in get_type_hints(Recipe).items():
        summary = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0]
        blocks += [f"## `[{section}]`", wrap(" ".join(summary.split()))]
        blocks.append(table(["key", "meaning", "type", "default", "paper"], _rows(section, kind)))
    blocks += [
        "## Presets",
        wrap(
            "A preset is a set of model sizes. Keys that are not listed have their defaults. In a file, "
            '`[model] preset = "small"` starts from a preset, and the other keys change it.'
        ),
        _presets(),
        "## `[forecast]`",
        wrap(
            "A [forecaster](../howto/forecasting.md) has the sections `[model]`, `[forecast]` and `[train]`. "
            "`model.tie`, `model.output_bias`, `train.label_smoothing`, `train.r_drop` and `train.stop_on` have no "
            "effect on it. Defaults of the other sections are chosen for the data by `dragoman forecast train`."
        ),
        wrap(" ".join(inspect.cleandoc(ForecastRecipe.__doc__ or "").split("\n\n")[1].split())),
        table(["key", "meaning", "type", "default", "paper"], _rows("forecast", ForecastRecipe)),
    ]
    return blocks


def meanings(kind: type) -> dict[str, str]:
    """The string below each field of a dataclass."""
    tree = ast.parse(inspect.cleandoc(inspect.getsource(kind)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    found = {}
    for statement, following in pairwise(body):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = text
    return found


def _rows(section: str, kind: type) -> list[list[str]]:
    told, hints, rows = meanings(kind), get_type_hints(kind), []
    for each in fields(kind):
        meaning = told[each.name]
        where = SECTION.search(meaning)
        meaning = SECTION.sub(".", meaning)
        if kind is ModelRecipe and each.name in USED_WITH:
            key, values = USED_WITH[each.name]
            meaning += f" Only with `{key}` {' or '.join(f'`{value}`' for value in values)}."
        default = "" if each.default is None else f"`{toml_value(each.default).strip(chr(34))}`"
        kind_name, paper = type_name(hints[each.name]), where[1] if where else ""
        rows.append([f"`{section}.{each.name}`", meaning, kind_name, default, paper])
    return rows


def type_name(hint: Any) -> str:
    """A type as users write its values."""
    if get_origin(hint) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(hint))
    if get_origin(hint) in (Union, types.UnionType):
        return ", ".join(type_name(part) for part in get_args(hint) if part is not type(None))
    if get_origin(hint) is tuple:
        return f"list of {type_name(get_args(hint)[0])}"
    return {int: "integer", float: "number", bool: "`true`, `false`", str: "text"}[hint]


def _presets() -> str:
    default = ModelRecipe()
    changed = [
        each.name
        for each in fields(ModelRecipe)
        if any(getattr(preset, each.name) != getattr(default, each.name) for preset in PRESETS.values())
    ]
    rows = [[f"`model.{key}`", *(str(getattr(preset, key)) for preset in PRESETS.values())] for key in changed]
    return table(["key", *(f"`{name}`" for name in PRESETS)], rows)
