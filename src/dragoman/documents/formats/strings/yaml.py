"""String files in YAML: every string that is a value is translated, keys are not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from dragoman.documents.encoding import decode
from dragoman.documents.formats.strings.messages import string_slots, unescape
from dragoman.documents.segment import Segment
from dragoman.documents.spliced import Slot, SplicedText
from dragoman.errors import DocumentError

NOT_TEXT: Final = re.compile(
    r"(?:true|false|yes|no|on|off|y|n|null|~|[-+]?\.(?:inf|nan)|[-+.\d][\d_.,:eExXa-fA-F+-]*)?", re.IGNORECASE
)
UNSAFE_PLAIN: Final = re.compile(r"""^[-?:,\[\]{}#&*!|>'"%@`\s]|:(?:\s|$)|\s#|\s$|[\n\t]""")
UNSAFE_IN_FLOW: Final = re.compile(r"[\[\]{},]")
PROPERTIES: Final = re.compile(r"(?:[&!]\S*\s+)*")  # the anchor and the tag before a value
FOLD: Final = r"(?:(?<![ \t])[ \t]+)?\r?\n(?:[ \t]*\r?\n)*[ \t]*"
ESCAPES: Final = {
    "": re.compile(FOLD),
    "'": re.compile(rf"{FOLD}|''"),
    '"': re.compile(rf"\\\r?\n[ \t]*|{FOLD}|\\(?:x[0-9a-fA-F]{{2}}|u[0-9a-fA-F]{{4}}|U[0-9a-fA-F]{{8}}|.)"),
}
BACKTICK: Final = re.compile("(?<!`)`(?!`)")
LETTERS: Final = dict(zip("0abtnvfreN_LP", "\0\a\b\t\n\v\f\r\x1b\x85\xa0\u2028\u2029", strict=True))
Path = list[str | int]


def read(data: bytes, name: str) -> SplicedText:
    """Read a YAML file; comments, anchors, tags and the style of strings stay as they are."""
    text, encoding = decode(data, name)
    return SplicedText(text, read_slots(text, name), encoding)


def read_slots(
    text: str, name: str, start: int = 0, end: int | None = None, chosen: Callable[[Path], bool] = lambda path: True
) -> list[Slot]:
    """The slots of a YAML text, or of a part of it, such as a front matter; `chosen` selects values by their path."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    part = text[start:end]
    slots: list[Slot] = []
    try:
        for event, path, in_flow in scalars(YAML(typ="safe", pure=True).parse(part)):
            if chosen(path):
                slots += scalar_slots(text, start, event, ".".join(map(str, path)), in_flow)
    except YAMLError as error:
        mark = error.problem_mark if isinstance(error, MarkedYAMLError) else None
        line = text.count("\n", 0, start) + (mark.line if mark is not None else 0) + 1
        raise DocumentError(f"{name} is not valid YAML near line {line}; correct it there") from None
    return slots


def scalars(events: Any) -> Iterator[tuple[Any, Path, bool]]:
    """The strings of a stream of events that are values, with their paths, and whether they are in [] or {}."""
    from ruamel.yaml.events import (
        AliasEvent,
        MappingEndEvent,
        MappingStartEvent,
        ScalarEvent,
        SequenceEndEvent,
        SequenceStartEvent,
    )

    path: Path = []
    flows: list[bool] = []
    kinds: list[tuple[str, bool]] = []  # of each open container, and whether its next node is a key

    def done(key: str) -> bool:
        """Count a node; whether it is a key."""
        if not kinds:
            return False
        kind, is_key = kinds[-1]
        if kind == "list":
            last = path[-1]
            path[-1] = last + 1 if isinstance(last, int) else 0
            return False
        kinds[-1] = (kind, not is_key)
        if is_key:
            path[-1] = key
        return is_key

    for event in events:
        if isinstance(event, ScalarEvent):
            here = list(path)
            if not done(str(event.value)) and (event.tag is None or event.tag.endswith(":str")):
                yield event, here, any(flows)
        elif isinstance(event, AliasEvent):
            done(f"*{event.anchor}")
        elif isinstance(event, MappingStartEvent):
            flows.append(bool(event.flow_style))
            kinds.append(("map", True))
            path.append("")
        elif isinstance(event, SequenceStartEvent):
            flows.append(bool(event.flow_style))
            kinds.append(("list", False))
            path.append(0)
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            flows.pop()
            kinds.pop()
            path.pop()
            done("...")


def scalar_slots(text: str, offset: int, event: Any, key: str, in_flow: bool) -> list[Slot]:
    """The slots of a scalar."""
    start, end = offset + event.start_mark.index, offset + event.end_mark.index
    style = event.style or ""
    if style in ("|", ">"):
        return block_slots(text, start, end, style, key)
    if not style and NOT_TEXT.fullmatch(event.value):
        return []
    if event.anchor or event.tag:
        properties = PROPERTIES.match(text, start, end)
        start = properties.end() if properties else start
    start, end = start + len(style), end - len(style)
    value, places = unescape(text[start:end], start, ESCAPES[style], unescape_one)
    if value != event.value:  # such as a tab that was normalized
        return [Slot(start, end, Segment(event.value, key=key, translate=False))]
    if not style:
        write = partial(write_plain, in_flow=in_flow)
        return string_slots(value, places, key, escape_plain, original=text, wrap=write)
    escape = partial(escape_single, raw=text[start:end]) if style == "'" else escape_double
    return string_slots(value, places, key, escape, original=text)


def unescape_one(found: re.Match[str]) -> str:
    """What an escape, or a line break inside a string, stands for."""
    escape = found[0]
    if escape == "''":
        return "'"
    if escape[0] != "\\":
        return "\n" * (escape.count("\n") - 1) or " "
    if escape[1:2] in ("x", "u", "U") and len(escape) > 2:
        return chr(int(escape[2:], 16))
    return "" if escape[1] in "\r\n" else LETTERS.get(escape[1], escape[1])


def block_slots(text: str, start: int, end: int, style: str, key: str) -> list[Slot]:
    """A slot for each line of a block scalar, or for each paragraph of a folded one; lines that divide code are one."""
    slots: list[Slot] = []
    place = text.find("\n", start, end) + 1
    paragraph: list[tuple[int, int]] = []
    indent: int | None = None  # of the first line; lines with another one are not folded
    in_code = False

    def flush() -> None:
        if paragraph:
            words = " ".join(text[low:high] for low, high in paragraph)
            places = [place for low, high in paragraph for place in range(low, high + 1)]
            slots.extend(string_slots(words, places, key, str, original=text, wrap=str.strip))  # the indent stays
            paragraph.clear()

    while 0 < place < end:
        line_end = text.find("\n", place, end)
        line_end = end if line_end < 0 else line_end
        line = text[place:line_end]
        content = line.strip()
        if not content:
            flush()
        else:
            first = place + line.index(content)
            indent = first - place if indent is None else indent
            is_line = style == "|" or first - place != indent
            if is_line and not in_code:
                flush()
            paragraph.append((first, first + len(content)))
            in_code = is_line and divides_code(text, paragraph[0][0], line_end, end)
            if is_line and not in_code:
                flush()
        place = line_end + 1
    flush()
    return slots


def divides_code(text: str, start: int, line_break: int, end: int) -> bool:
    """Whether a line break divides code: a backtick opens between `start` and it, and closes in the line after it."""
    if len(BACKTICK.findall(text, start, line_break)) % 2 == 0:
        return False
    last = text.find("\n", line_break + 1, end)
    return len(BACKTICK.findall(text, line_break + 1, end if last < 0 else last)) % 2 == 1


def escape_plain(text: str) -> str:
    """Text without quotes."""
    return text.replace("\n", "\n\n")


def write_plain(raw: str, in_flow: bool) -> str:
    """A plain scalar, quoted if the text would mean something else."""
    text = ESCAPES[""].sub(unescape_one, raw)  # line breaks in the markup of the original
    unsafe = UNSAFE_PLAIN.search(text) or NOT_TEXT.fullmatch(text) or (in_flow and UNSAFE_IN_FLOW.search(text))
    return f'"{escape_double(text)}"' if unsafe else text


def escape_single(text: str, raw: str) -> str:
    """Text in single quotes; lines break as in the original, `raw`: after an empty line."""
    text = text.replace("'", "''")
    if "\n" not in text or (fold := ESCAPES[""].search(raw)) is None:
        return text
    newline, indent = "\r\n" if "\r\n" in raw else "\n", fold[0].rpartition("\n")[2]
    return re.sub(r"\n+", lambda run: newline * (len(run[0]) + 1) + indent, text)


def escape_double(text: str) -> str:
    """Text in double quotes."""
    return json.dumps(text, ensure_ascii=False)[1:-1]
