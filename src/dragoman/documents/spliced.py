"""Documents that are one text: translations are spliced into the original, and everything else stays as it is."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from dragoman.documents.edits import Edit, apply_edits
from dragoman.documents.encoding import Encoding
from dragoman.documents.segment import Segment, Span, Target, render

UTF8: Final = Encoding()


@dataclass(frozen=True)
class Slot:
    """A place in the original, `text[start:end]`, that is replaced by the translation of a segment.

    `escape` writes text in the syntax of the format. `wrap` gets the result, for example to add quotes or an element
    that the original lacks. A slot may be inside another, within the markup of one of its spans (see `Span.at`).
    """

    start: int
    end: int
    segment: Segment
    escape: Callable[[str], str] = str
    wrap: Callable[[str], str] = str

    def render(self, target: Target, markup: Callable[[Span], str]) -> str:
        """The target in the syntax of the format; `markup` writes what opens a span, or is a point."""
        return render(target, self.escape, markup)


@dataclass(frozen=True)
class SplicedText:
    """A text with slots, in order. It is a `Document`, and a part of documents that have several (zip archives)."""

    text: str
    slots: Sequence[Slot]
    encoding: Encoding = UTF8
    errors: str = "strict"  # how characters that the encoding lacks are written
    edits: Sequence[Edit] = ()  # of declared languages and the like, outside of slots; made if something is translated
    relabel: Callable[[str], str] = str  # writes tags around words with the language of the translation

    @property
    def segments(self) -> list[Segment]:
        """The segments of all slots."""
        return [slot.segment for slot in self.slots]

    def write(self, targets: Sequence[Target | None]) -> bytes:
        """The original with the targets in their slots; a slot without a target keeps its bytes."""
        if all(target is None for target in targets):
            return self.encoding.encode(self.text, self.errors)
        return self.encoding.encode(self.splice(targets), self.errors)

    def write_edits(self) -> bytes:
        """The original with its edits, and nothing translated."""
        return self.encoding.encode(apply_edits(self.text, self.edits), self.errors)

    def splice(self, targets: Sequence[Target | None]) -> str:
        """The text with the targets in their slots."""
        pairs = sorted(zip(self.slots, targets, strict=True), key=lambda pair: (pair[0].start, -pair[0].end))
        filled, end = list[tuple[Slot, Target]](), len(self.text)  # from the last to the first
        for slot, target in reversed(pairs):
            if target is None and slot.wrap is not str and end < slot.end:  # what is inside may need the quotes around
                target = Target(slot.segment.text, slot.segment.spans)
            if target is not None:
                filled.append((slot, target))
                end = slot.start
        return self._copy(0, len(self.text), filled[::-1], sorted(self.edits, key=lambda edit: edit[:2]))

    def _copy(self, start: int, end: int, filled: Sequence[tuple[Slot, Target]], edits: Sequence[Edit] = ()) -> str:
        """`text[start:end]` with the targets of the outermost of these slots, which are inside it."""
        pieces = []
        i = 0
        while i < len(filled):
            slot, target = filled[i]
            inner = i + 1
            while inner < len(filled) and filled[inner][0].end <= slot.end:
                inner += 1
            pieces.append(self._edited(start, slot.start, edits))
            pieces.append(slot.wrap(self._render(slot, target, filled[i + 1 : inner])))
            start, i = slot.end, inner
        return "".join([*pieces, self._edited(start, end, edits)])

    def _edited(self, start: int, end: int, edits: Sequence[Edit]) -> str:
        """`text[start:end]` with those of the edits, which are sorted, that are inside it."""
        first = bisect_left(edits, start, key=lambda edit: edit[0])
        last = bisect_right(edits, end, key=lambda edit: edit[1])
        inside = [(low - start, high - start, new) for low, high, new in edits[first:last]]
        return apply_edits(self.text[start:end], inside) if inside else self.text[start:end]

    def _render(self, slot: Slot, target: Target, inner: Sequence[tuple[Slot, Target]]) -> str:
        """A target, with translations inside the markup of its spans."""

        def markup(span: Span) -> str:
            if span.kind == "pair" and self.relabel is not str and (changed := self.relabel(span.open)) != span.open:
                return changed
            if span.at is None:
                return span.open
            before = ""
            if not self.text.startswith(span.open, span.at):  # it begins with the space before it
                before = self.text[span.at - 1] if self.text[span.at - 1].isspace() else " "
            last = span.at + len(span.open) - len(before)
            first = bisect_left(inner, span.at, key=lambda pair: pair[0].start)
            own = inner[first : bisect_left(inner, last, first, key=lambda pair: pair[0].start)]
            return before + self._copy(span.at, last, own) if own else span.open

        return slot.render(target, markup)
