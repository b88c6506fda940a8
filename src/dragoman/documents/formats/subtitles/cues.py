"""Subtitles: sentences that run over several cues are translated at once, and divided over the cues again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from dragoman.documents.edits import Edit, apply_edits
from dragoman.documents.encoding import Encoding, decode
from dragoman.documents.formats.subtitles.division import divide, slice_target, text_width, wrap_lines
from dragoman.documents.segment import Segment, SegmentBuilder, Target, render
from dragoman.documents.transfer.masks import LETTER
from dragoman.errors import DocumentError

LINE_WIDTH: Final = 42  # of subtitles by convention, unless the file has longer lines
MAX_PAUSE: Final = 3.0  # seconds; no sentence goes on after a longer one
MAX_CUES: Final = 6  # of a sentence
MAX_CHARACTERS: Final = 500  # of a cue that is joined with others; longer ones are not spoken text
MIN_ENDED: Final = 0.2  # files with fewer cues that end a sentence have no punctuation; their cues stay alone
DASH: Final = re.compile(r"[-–—‐]\s*(?=\S)")
TAIL: Final = re.compile(r"(?:^|\w)(\W*+)$")
SENTENCE_MARKS: Final = frozenset(".!?:…。！？؟।♪♫♬")
BRACKETED: Final = re.compile(r"[(\[（].*[)\]）]$")
CONTINUES: Final = re.compile(r"\W*[^\W\d_A-Z]")

TagKind = Literal["open", "close", "point"]


@dataclass(frozen=True)
class Syntax:
    """How a format writes the text of cues.

    `markup` matches tags and line breaks (group "line"); `tag` says what a tag is, and its name.
    """

    markup: re.Pattern[str]
    tag: Callable[[str], tuple[TagKind, str]]
    line_break: str
    escape: Callable[[str], str] = str
    unescape: Callable[[str], str] = str


@dataclass(frozen=True)
class Cue:
    """A text of a cue: `start` to `end` is its place in the file, without tags around all of it.

    `number` is that of the cue in the file. Texts with the same `voice` may be parts of one sentence; those that are
    not `joined` are separate sentences.
    """

    number: str
    start: int
    end: int
    begins: float
    ends: float
    voice: str = ""
    joined: bool = True


@dataclass(frozen=True)
class SubtitleDocument:
    """A file of subtitles; each group of cues is a segment."""

    text: str
    encoding: Encoding
    syntax: Syntax
    groups: Sequence[Sequence[Cue]]
    segments: Sequence[Segment]
    width: int  # of lines; 0 if lines are not broken

    def write(self, targets: Sequence[Target | None]) -> bytes:
        """The file with translations, divided over the cues of each group and broken into lines."""
        if all(target is None for target in targets):
            return self.encoding.encode(self.text)
        edits: list[Edit] = []
        for group, segment, target in zip(self.groups, self.segments, targets, strict=True):
            if target is not None:
                edits += self._edits(group, segment, target)
        return self.encoding.encode(apply_edits(self.text, edits))

    def _edits(self, group: Sequence[Cue], segment: Segment, target: Target) -> Iterator[Edit]:
        boundaries = [i for i, span in enumerate(segment.spans) if span.name == "cue"]
        places = [segment.spans[i].start for i in boundaries]
        sizes = [b - a for a, b in zip([0, *places], [*places, len(segment.text)], strict=True)]
        target = sort_timestamps(target)
        cuts = divide(target.text, sizes, [target.spans[i].start for i in boundaries], 2 * self.width)
        for cue, (start, end) in zip(group, cuts, strict=True):
            part = slice_target(target, start, end)
            if self.width:
                part = wrap_lines(part, self.width, self._max_lines(cue))
            yield cue.start, cue.end, render(part, self._escape) or "…"

    def _max_lines(self, cue: Cue) -> int:
        """As many lines as a text has, and at least two, unless it shares its cue."""
        own = sum(1 for found in self.syntax.markup.finditer(self.text, cue.start, cue.end) if found["line"]) + 1
        return max(2, own) if cue.joined else own

    def _escape(self, text: str) -> str:
        return self.syntax.line_break.join(map(self.syntax.escape, text.split("\n")))


def decode_subtitles(data: bytes, name: str) -> tuple[str, Encoding]:
    """The text of a file; raise if its lines end as on old Macs, which readers of subtitles do not know."""
    text, encoding = decode(data, name)
    if "\r" in text and "\n" not in text:
        raise DocumentError(f"the lines of {name} end in CR alone; convert them to LF", code="damaged_document")
    return text, encoding


def make_document(text: str, encoding: Encoding, syntax: Syntax, cues: Sequence[Cue], wraps: bool) -> SubtitleDocument:
    """Group the cues and build their segments; with `wraps`, lines are broken as the file does."""
    shown = [plain(text[cue.start : cue.end], syntax) for cue in cues]
    groups = list(group_cues(cues, shown))
    segments = [group_segment(text, group, syntax, f"cue {group[0].number}") for group in groups]
    width = max([LINE_WIDTH, *(text_width(line) for one in shown for line in one.split("\n"))]) if wraps else 0
    kept = [(group, segment) for group, segment in zip(groups, segments, strict=True) if LETTER.search(segment.text)]
    return SubtitleDocument(text, encoding, syntax, [one for one, _ in kept], [one for _, one in kept], width)


def plain(raw: str, syntax: Syntax) -> str:
    """The text of a cue without tags; line breaks are \\n."""
    pieces, place = [], 0
    for found in syntax.markup.finditer(raw):
        pieces.append(syntax.unescape(raw[place : found.start()]))
        pieces.append("\n" if found["line"] else "")
        place = found.end()
    return "".join([*pieces, syntax.unescape(raw[place:])])


def group_cues(cues: Sequence[Cue], shown: Sequence[str]) -> Iterator[list[Cue]]:
    """Cues that are parts of one sentence."""
    texts = [" ".join(one.split()) for one in shown]
    joined = [i for i, cue in enumerate(cues) if cue.joined and texts[i]]
    ended = sum(ends_sentence(texts[i]) for i in joined)
    punctuated = ended >= MIN_ENDED * len(joined)
    group: list[Cue] = []
    for i, cue in enumerate(cues):
        group = [*group, cue]
        following = cues[i + 1] if i + 1 < len(cues) else None
        goes_on = (
            following is not None
            and punctuated
            and cue.joined
            and following.joined
            and cue.voice == following.voice
            and following.begins - cue.begins >= 0
            and following.begins - cue.ends <= MAX_PAUSE
            and len(group) < MAX_CUES
            and max(len(texts[i]), len(texts[i + 1])) <= MAX_CHARACTERS
            and continues(texts[i], texts[i + 1])
        )
        if not goes_on:
            yield group
            group = []


def continues(text: str, following: str) -> bool:
    """Whether the sentence at the end of a text goes on in the following one."""
    if not text or not following or (ends_sentence(following) and following[0] in "([（"):
        return False
    if "..." in tail(text) or "…" in tail(text):
        return CONTINUES.match(following) is not None
    return not ends_sentence(text) and following[0] not in "♪♫♬"


def tail(text: str) -> str:
    """What follows the last word of a text."""
    found = TAIL.search(text)
    return found[1] if found else ""


def ends_sentence(text: str) -> bool:
    """Whether a sentence ends at the end of a text."""
    return not SENTENCE_MARKS.isdisjoint(tail(text)) or BRACKETED.match(text) is not None


def group_segment(text: str, group: Sequence[Cue], syntax: Syntax, key: str) -> Segment:
    """The segment of a group: the texts of its cues, with a point at the beginning of each but the first."""
    builder = SegmentBuilder(collapse=True)
    for number, cue in enumerate(group):
        raw = text[cue.start : cue.end]
        starts = line_starts(plain(raw, syntax))
        if number:
            add_space(builder, next(starts))
            builder.add_point("", name="cue")
        else:
            next(starts)
        place = 0
        for found in syntax.markup.finditer(raw):
            builder.add_text(syntax.unescape(raw[place : found.start()]))
            place = found.end()
            if found["line"]:
                add_space(builder, next(starts))
                continue
            kind, name = syntax.tag(found[0])
            if kind == "open":
                builder.open_pair(found[0], name=name)
            elif kind == "close":
                builder.close_pair(found[0], name)
            else:
                builder.add_point(found[0], name=name)
        builder.add_text(syntax.unescape(raw[place:]))
    return builder.build(key)


def line_starts(shown: str) -> Iterator[str]:
    """The first character of each line, or of the next one with text; empty at the end."""
    found, first = list[str](), ""
    for line in reversed(shown.split("\n")):
        first = line.lstrip()[:1] or first
        found.append(first)
    return reversed(found)


def add_space(builder: SegmentBuilder, first: str) -> None:
    """A space between two lines, unless their script is written without spaces; the second one begins with `first`."""
    last = builder.text[-1:]
    if not (is_ideographic(last) and is_ideographic(first)):
        builder.add_text(" ")


def is_ideographic(character: str) -> bool:
    """Whether a character is Chinese or Japanese, which are written without spaces."""
    return "\u2e80" <= character <= "\u9fff" or "\uff00" <= character <= "\uff65" or character >= "\U00020000"


def sort_timestamps(target: Target) -> Target:
    """Put time stamps inside a cue in order again; players reject others."""
    own = [i for i, span in enumerate(target.spans) if span.name == "timestamp"]
    spans = list(target.spans)
    places = sorted((spans[i].start, spans[i].parent is not None, spans[i].parent or 0) for i in own)
    for i, (place, has_parent, parent) in zip(own, places, strict=True):
        spans[i] = replace(spans[i], start=place, end=place, parent=parent if has_parent else None)
    return replace(target, spans=tuple(spans))


def trim_cue(cue: Cue, text: str, syntax: Syntax) -> Cue:
    """The cue without white space, and without tags around all of its text."""
    start, end = cue.start, cue.end
    while True:
        raw = text[start:end]
        start += len(raw) - len(raw.lstrip())
        end = start + len(raw.strip())
        tags = [found for found in syntax.markup.finditer(text, start, end) if not found["line"]]
        if not tags:
            break
        first, last = tags[0], tags[-1]
        closing = matching_tag(tags, syntax)
        if first.start() == start and (closing is None or closing.end() == end):
            start, end = first.end(), end if closing is None else closing.start()
        elif last.end() == end and syntax.tag(last[0])[0] == "point":
            end = last.start()
        else:
            break
    return replace(cue, start=start, end=max(start, end))


def matching_tag(tags: Sequence[re.Match[str]], syntax: Syntax) -> re.Match[str] | None:
    """The tag that closes the first one; None if that opens nothing, or is not closed."""
    kind, name = syntax.tag(tags[0][0])
    depth = 0
    for found in tags if kind == "open" else ():
        other, own = syntax.tag(found[0])
        if own == name:
            depth += {"open": 1, "close": -1, "point": 0}[other]
        if depth == 0:
            return found
    return None


def dialogue_lines(cue: Cue, text: str, syntax: Syntax) -> list[Cue]:
    """The cue, or if speakers take turns in it ("- Hello. - Hi."), a part for each of them, after its dash."""
    breaks = [found for found in syntax.markup.finditer(text, cue.start, cue.end) if found["line"]]
    lines = list(zip([cue.start, *(one.end() for one in breaks)], [*(one.start() for one in breaks), cue.end],
                     strict=True))  # fmt: skip
    dashes = [DASH.match(plain(text[start:end], syntax).lstrip()) for start, end in lines]
    if len(lines) < 2 or not any(dashes[1:]):
        return [cue]
    parts: list[tuple[int, int]] = []
    for (start, end), dash in zip(lines, dashes, strict=True):
        if dash is None and parts:
            parts[-1] = (parts[-1][0], end)
        else:
            found = DASH.match(text, start, end)
            parts.append((found.end() if found else start, end))
    return [trim_cue(replace(cue, start=start, end=end, joined=False), text, syntax) for start, end in parts]
