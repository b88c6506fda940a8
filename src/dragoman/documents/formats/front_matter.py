"""The front matter of a page, for site generators: YAML or TOML before the text."""

from __future__ import annotations

import re
from typing import Final

from dragoman.documents.formats.strings import yaml
from dragoman.documents.spliced import Slot
from dragoman.errors import DocumentError

YAML: Final = re.compile(r"---[ \t]*(?:\r\n|\r|\n)(.*?)(?:\r\n|\r|\n)(?:---|\.\.\.)[ \t]*(?:\r\n|\r|\n|\Z)", re.DOTALL)
TOML: Final = re.compile(
    r"\+\+\+[ \t]*(?:\r\n|\r|\n)(?:.*?(?:\r\n|\r|\n))?\+\+\+[ \t]*(?:\r\n|\r|\n|\Z)", re.DOTALL
)  # left as it is
KEYS: Final = frozenset(["title", "subtitle", "description", "summary", "excerpt", "abstract", "tagline", "caption"])


def read_front_matter(text: str, name: str) -> tuple[list[Slot], int]:
    """The slots of the front matter of a text, and its end; 0 without one."""
    if toml := TOML.match(text):
        return [], toml.end()
    if front := YAML.match(text):
        try:
            slots = yaml.read_slots(
                text, name, front.start(1), front.end(1), lambda path: path[:1] == [] or path[0] in KEYS
            )
            return [*slots], front.end()
        except DocumentError:  # a line of dashes, not a front matter
            pass
    return [], 0
