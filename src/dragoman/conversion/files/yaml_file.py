"""Read YAML of bounded size and depth; nested aliases can expand a small file into a huge value.

JoeyNMT and Marian store settings in YAML, and Marian vocabularies too.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from dragoman.conversion.source_checkpoint import DamagedSourceError, read_bytes
from dragoman.errors import MissingExtraError
from dragoman.values import render_value

MAX_YAML_BYTES: Final = 256 << 10  # the settings of a model have about 5 kB
MAX_TOKENS: Final = 1 << 20  # of a vocabulary
MAX_YAML_DEPTH: Final = 32
MAX_YAML_NODES: Final = 20_000  # with aliases expanded
MAX_SCALAR: Final = 10_000  # characters


def import_yaml(toolkit: str) -> Any:
    """The package PyYAML, or an error that names the extra of the toolkit."""
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("PyYAML", toolkit.lower(), f"importing a {toolkit} model") from None
    return yaml


def read_yaml(path: Path, toolkit: str = "JoeyNMT") -> dict[str, Any]:
    """Read a YAML file that holds a mapping."""
    return parse_yaml(read_bytes(path), path, toolkit)


def parse_yaml(content: bytes, path: Path | str, toolkit: str) -> dict[str, Any]:
    """Parse settings in YAML; `path` is where they are from."""
    yaml = import_yaml(toolkit)
    if len(content) > MAX_YAML_BYTES:
        raise DamagedSourceError(path, f"has {len(content):,} bytes; settings have at most {MAX_YAML_BYTES:,}")
    try:
        check_events(yaml.parse(content, Loader=yaml.SafeLoader))
        found = yaml.safe_load(content)
    except TooLargeError as error:
        raise DamagedSourceError(path, str(error)) from None
    except (yaml.YAMLError, ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
        # PyYAML raises KeyError and others for a scalar that does not fit its tag, such as `!!bool maybe`.
        reason = (str(error).splitlines() or [""])[0]
        raise DamagedSourceError(path, f"is not YAML ({type(error).__name__}: {reason[:100]})") from None
    if not isinstance(found, dict):
        raise DamagedSourceError(path, f"holds {render_value(found, 40)}; expected the settings of a {toolkit} model")
    return found


def read_token_ids(path: Path) -> dict[str, int]:
    """Read a vocabulary in YAML or JSON: a flat mapping from tokens to ids, all of them plain text."""
    yaml, content = import_yaml("Marian"), read_bytes(path)
    found: dict[str, int] = {}
    key: str | None = None
    depth = 0
    try:
        loader = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader
        for event in yaml.parse(content, Loader=loader):
            depth += isinstance(event, yaml.MappingStartEvent)
            if isinstance(event, yaml.AliasEvent | yaml.SequenceStartEvent) or depth > 1 or len(found) > MAX_TOKENS:
                raise DamagedSourceError(path, "is not a flat mapping from tokens to ids")
            if not isinstance(event, yaml.ScalarEvent):
                continue
            if depth == 0 or len(event.value) > MAX_SCALAR:
                raise DamagedSourceError(path, f"holds {render_value(event.value, 40)}; expected tokens with their ids")
            if key is None:
                key = event.value
                continue
            if not (event.value.isascii() and event.value.isdecimal() and len(event.value) < 10):
                raise DamagedSourceError(path, f"has the id {render_value(event.value, 40)}; expected a number")
            found[key], key = int(event.value), None
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, DamagedSourceError):
            raise
        reason = (str(error).splitlines() or [""])[0]
        raise DamagedSourceError(path, f"is not YAML ({type(error).__name__}: {reason[:100]})") from None
    return found


class TooLargeError(Exception):
    """YAML that is too large or too deep for a config."""


def check_events(events: Iterable[Any]) -> None:
    """Limit depth and number of nodes, with aliases expanded, before anything is built."""
    from yaml.events import (  # type: ignore[import-untyped]
        AliasEvent,
        CollectionEndEvent,
        CollectionStartEvent,
        ScalarEvent,
    )

    sizes: dict[str, int] = {}  # nodes of each anchor
    opened: list[tuple[str | None, int]] = []  # anchor of each open collection, and the number of nodes before it
    nodes = 0
    for event in events:
        if isinstance(event, AliasEvent):
            if event.anchor not in sizes:
                raise TooLargeError(f"has an alias {render_value(event.anchor)} that contains itself")
            nodes += sizes[event.anchor]
        elif isinstance(event, ScalarEvent):
            if len(event.value) > MAX_SCALAR:
                raise TooLargeError(f"has a value of {len(event.value):,} characters")
            nodes += 1
            if event.anchor:
                sizes[event.anchor] = 1
        elif isinstance(event, CollectionStartEvent):
            opened.append((event.anchor, nodes))
            nodes += 1
        elif isinstance(event, CollectionEndEvent):
            anchor, before = opened.pop()
            if anchor:
                sizes[anchor] = nodes - before
        if len(opened) > MAX_YAML_DEPTH:
            raise TooLargeError(f"is nested more than {MAX_YAML_DEPTH} levels deep")
        if nodes > MAX_YAML_NODES:
            raise TooLargeError(f"holds more than {MAX_YAML_NODES:,} values")
