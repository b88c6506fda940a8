"""Recipes in sections: frozen dataclasses, read from and written as TOML with one table per section."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self, TypeVar, get_type_hints

from dragoman.config.model import PRESETS, ModelRecipe, preset_for, unused_keys
from dragoman.errors import RecipeError
from dragoman.values import coerce, render_value, suggest

S = TypeVar("S")
Changes = Mapping[str, object] | Sequence[str]
RENAMED_KEYS = {"train.optimiser": "train.optimizer"}  # keys of recipes written by earlier versions
MAX_RECIPE_BYTES = 1 << 20
IMPORTED_ONLY = ("output_bias", "norm_epsilon")  # keys that only imported models change


@dataclass(frozen=True)
class SectionedRecipe:
    """A recipe whose fields are its sections; each is a frozen dataclass."""

    @classmethod
    def load(cls, source: str | Path, changes: Iterable[str] = ()) -> Self:
        """Load a preset or a TOML file, then apply `changes` such as "model.dropout=0.3"; the last one wins."""
        if not isinstance(source, str | Path):
            raise RecipeError(
                f"a recipe must be the name of a preset or the path of a TOML file; got {render_value(source)}",
                code="wrong_type",
            )
        changes = changes if isinstance(changes, str) else list(changes)
        if isinstance(source, str) and source in PRESETS:
            table: dict[str, Any] = {"model": {"preset": source}}
        else:
            table = read_toml(Path(source))
            try:
                cls._check_table(table)
                if not changes:
                    return cls.from_table(table)
            except RecipeError as error:
                raise RecipeError(f"{source}: {error}", code=error.code) from None
        apply_changes(table, changes)
        return cls.from_table(table)

    @classmethod
    def from_changes(cls, changes: Iterable[str]) -> Self:
        """The defaults with `changes` applied."""
        table: dict[str, Any] = {}
        apply_changes(table, changes)
        return cls.from_table(table)

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Self:
        """Build a recipe from nested dictionaries, as `tomllib` returns them."""
        hints = get_type_hints(cls)
        return cls(**{name: build_section(hints[name], values) for name, values in cls._check_table(table).items()})

    @classmethod
    def _check_table(cls, table: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """The values of each section, each checked alone: of a known key, and of its type."""
        if not isinstance(table, Mapping):
            raise RecipeError(
                f"a recipe must be a dictionary with a dictionary for each section; got {render_value(table)}",
                code="wrong_type",
            )
        sections = {f.name: f for f in fields(cls)}
        hints = get_type_hints(cls)
        keys = {key: f"{name}.{key}" for name, kind in hints.items() for key in get_type_hints(kind)}
        checked: dict[str, dict[str, Any]] = {}
        for name, values in table.items():
            if name not in sections:
                raise RecipeError(f"a recipe has no section [{name}]{suggest(str(name), sections)}", code="unknown_key")
            if not isinstance(values, Mapping):
                raise RecipeError(
                    f"{name} is a section, but got {render_value(values)}; write [{name}] with its keys below",
                    code="wrong_type",
                )
            checked[name] = check_section(hints[name], name, rename_old_keys(name, values), keys)
        return checked

    def to_toml(self) -> str:
        """The whole recipe as TOML with every value, so later defaults cannot change an old model.

        Keys without effect on the architecture are left out, as are an empty list of target languages and the defaults
        of keys that only imported models change.
        """
        parts = []
        for name, values in asdict(self).items():
            unused = self._unused_in(name)
            if name == "model":
                unused |= unused_keys(values["architecture"])
                unused |= {key for key in IMPORTED_ONLY if values[key] == getattr(ModelRecipe(), key)}
            written = {key: value for key, value in values.items() if value is not None and key not in unused}
            lines = [f"{key} = {toml_value(value)}" for key, value in written.items()]
            parts.append("\n".join([f"[{name}]", *lines]))
        return "\n\n".join(parts) + "\n"

    def _unused_in(self, section: str) -> set[str]:
        """Keys of a section that this recipe leaves out of its file."""
        return set()

    def _check_sections(self) -> None:
        """Reject sections of the wrong type."""
        for name, kind in get_type_hints(type(self)).items():
            if not isinstance(getattr(self, name), kind):
                raise RecipeError(
                    f"{name} must be a {kind.__name__}; got {render_value(getattr(self, name))}; to pass dictionaries, "
                    f"use {type(self).__name__}.from_table",
                    code="wrong_type",
                )


def rename_old_keys(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A section with old keys renamed to their current names."""
    return {
        RENAMED_KEYS.get(f"{name}.{key}", f"{name}.{key}").partition(".")[2]: value for key, value in values.items()
    }


def check_section(kind: type[S], name: str, values: dict[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    """Check each value of a section against its type, and the name of a preset.

    `keys` are the keys of all sections with their full names, to suggest the right section.
    """
    hints = get_type_hints(kind)
    preset = values.pop("preset", None) if kind is ModelRecipe else None
    if preset is not None and not (isinstance(preset, str) and preset in PRESETS):
        raise RecipeError(
            f"model.preset={render_value(preset)} is not a preset{suggest(render_value(preset), PRESETS)}",
            code="unknown_preset",
        )
    checked = {} if preset is None else {"preset": preset}
    for key, value in values.items():
        if key not in hints:
            advice = f"; did you mean {keys[key]!r}?" if key in keys else suggest(str(key), hints)
            raise RecipeError(f"a recipe has no key {name}.{key}{advice}", code="unknown_key")
        checked[key] = coerce(value, hints[key], f"{name}.{key}")
    return checked


def build_section(kind: type[S], values: dict[str, Any]) -> S:
    """Build a section from its checked values, on top of its preset."""
    preset = values.pop("preset", None)
    if preset is not None:
        of = preset_for(preset, values.get("architecture", PRESETS[preset].architecture))
        return replace(of, **values)  # type: ignore[return-value]  # kind is ModelRecipe here
    return kind(**values)


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_RECIPE_BYTES + 1)
        if len(content) > MAX_RECIPE_BYTES:
            raise ValueError(f"it has more than {MAX_RECIPE_BYTES:,} bytes")
        return tomllib.loads(content.decode("utf-8").replace("\r\n", "\n"))
    except FileNotFoundError:
        raise RecipeError(
            f"{path} is neither a file nor the name of a preset{suggest(str(path), PRESETS)}", code="unknown_preset"
        ) from None
    except IsADirectoryError:
        raise RecipeError(f"{path} is a directory; give a TOML file", code="not_a_recipe") from None
    except RecursionError:
        raise RecipeError(f"{path} is not a recipe: its values are nested too deeply", code="not_a_recipe") from None
    except ValueError as error:  # not TOML, not UTF-8, too long, or a number of thousands of digits
        raise RecipeError(f"{path} is not valid TOML: {error}", code="not_a_recipe") from None


def as_changes(changes: Changes) -> list[str]:
    """Changes to a recipe as texts such as "model.dropout=0.3"."""
    if isinstance(changes, Mapping):
        return [f"{key}={toml_value(value)}" for key, value in changes.items()]
    return [changes] if isinstance(changes, str) else list(changes)


def apply_changes(table: dict[str, Any], changes: Iterable[str]) -> None:
    """Apply changes to the tables, in order."""
    if isinstance(changes, str):
        raise RecipeError(
            f"changes must be a list, such as ['model.dropout=0.3']; got {render_value(changes)}", code="wrong_type"
        )
    for change in changes:
        if not isinstance(change, str):
            raise RecipeError(
                f"a change must be a str, such as 'model.dropout=0.3'; got {render_value(change)}", code="wrong_type"
            )
        apply_change(table, change)


def apply_change(table: dict[str, Any], change: str) -> None:
    """Apply one `section.key=value` to the tables; a value that is not TOML is plain text."""
    key, equals, text = change.partition("=")
    name, dot, entry = key.strip().partition(".")
    if not (equals and dot and name and entry):
        raise RecipeError(
            f"cannot parse the change {render_value(change)}; write section.key=value, such as model.dropout=0.3",
            code="invalid_change",
        )
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        value = text.strip()
    except ValueError:
        raise RecipeError(
            f"{key.strip()} has too many digits ({len(text.strip()):,}); use a smaller number", code="out_of_range"
        ) from None
    if not isinstance(table.setdefault(name, {}), dict):
        raise RecipeError(
            f"{name} is a section of the recipe, not the value {render_value(table[name])}", code="wrong_type"
        )
    table[name][entry] = value


def toml_value(value: object) -> str:
    """One value as TOML; strings, numbers and lists are written as in JSON."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON allows it unescaped
