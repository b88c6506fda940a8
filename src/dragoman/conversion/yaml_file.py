"""Read YAML of bounded size and depth; nested aliases can expand a small file into a huge value."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from dragoman.conversion.source_checkpoint import DamagedSourceError, read_bytes
from dragoman.errors import MissingExtraError
from dragoman.values import render_value

MAX_YAML_BYTES: Final = 256 << 10  # a JoeyNMT config has about 5 kB
MAX_YAML_DEPTH: Final = 32
MAX_YAML_NODES: Final = 20_000  # with aliases expanded
MAX_SCALAR: Final = 10_000  # characters


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file that holds a mapping."""
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("PyYAML", "joeynmt", "importing a JoeyNMT model") from None
    content = read_bytes(path)
    if len(content) > MAX_YAML_BYTES:
        raise DamagedSourceError(path, f"has {len(content):,} bytes; a JoeyNMT config has at most {MAX_YAML_BYTES:,}")
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
        raise DamagedSourceError(path, f"holds {render_value(found, 40)}; expected the settings of a JoeyNMT model")
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
