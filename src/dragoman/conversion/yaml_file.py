"""Read YAML of bounded size and depth: an alias of an alias makes a small file a large value."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from dragoman.conversion.source_checkpoint import DamagedSourceError, read_bytes
from dragoman.errors import MissingExtraError
from dragoman.values import render_value

MAX_YAML_BYTES: Final = 256 << 10  # the settings of JoeyNMT take about 5 kB
MAX_YAML_DEPTH: Final = 32
MAX_YAML_NODES: Final = 20_000  # with aliases written out
MAX_SCALAR: Final = 10_000  # characters


def read_yaml(path: Path) -> dict[str, Any]:
    """The table in a YAML file, by names."""
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("PyYAML", "joeynmt", "reading a model of JoeyNMT") from None
    content = read_bytes(path)
    if len(content) > MAX_YAML_BYTES:
        raise DamagedSourceError(path, f"has {len(content):,} bytes; settings have at most {MAX_YAML_BYTES:,}")
    try:
        check_events(yaml.parse(content, Loader=yaml.SafeLoader))
        found = yaml.safe_load(content)
    except TooLargeError as error:
        raise DamagedSourceError(path, str(error)) from None
    except (yaml.YAMLError, ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
        # A scalar that does not fit its tag, such as `!!bool maybe`, is a KeyError, and so on.
        reason = (str(error).splitlines() or [""])[0]
        raise DamagedSourceError(path, f"is not YAML ({type(error).__name__}: {reason[:100]})") from None
    if not isinstance(found, dict):
        raise DamagedSourceError(path, f"has {render_value(found, 40)}, not the settings of JoeyNMT")
    return found


class TooLargeError(Exception):
    """YAML that holds more than settings do."""


def check_events(events: Iterable[Any]) -> None:
    """Count what the parser finds, before anything is built: depth, and nodes with aliases written out."""
    from yaml.events import (  # type: ignore[import-untyped]
        AliasEvent,
        CollectionEndEvent,
        CollectionStartEvent,
        ScalarEvent,
    )

    sizes: dict[str, int] = {}  # of what an anchor stands for
    opened: list[tuple[str | None, int]] = []  # anchors of the open collections, and how many nodes came before
    nodes = 0
    for event in events:
        if isinstance(event, AliasEvent):
            if event.anchor not in sizes:
                raise TooLargeError(f"has the alias {render_value(event.anchor)} of something that contains it")
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
