"""Move the spans of a segment to the words of its translation that are aligned with theirs.

Spans stay nested: the children of a span are inside it, and neighbors do not overlap. A pair encloses the contiguous
words that are aligned best with its own, so a stray link does not stretch it over half a sentence.
benchmarks/markup_transfer.py measures it on alignments made by hand.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import replace

from dragoman.documents.segment import Segment, Span, Target
from dragoman.documents.transfer.aligned_text import AlignedText, separators
from dragoman.documents.transfer.masks import LETTER
from dragoman.documents.transfer.notes import is_script
from dragoman.documents.transfer.pair_ranges import MIN_SHARE, THRESHOLD, PairRanges
from dragoman.documents.transfer.ranges import Range, RangeSet, outside, overlap


def project(segment: Segment, aligned: AlignedText, protected: dict[int, Range]) -> tuple[Target, list[str]] | None:
    """The target with the spans of the segment, and the names of pairs that no word was clearly aligned with.

    `protected` has the place of each protected span in the target. None if the spans cannot be nested as in the source:
    a protected word is far from the pair that encloses it.
    """
    projection = _Projection(segment.spans, aligned, protected)
    projection.place_children(None, 0, len(aligned.target.parts))
    spans = tuple(
        replace(span, start=start, end=end, parent=projection.parents.get(i, span.parent))
        for i, (span, (start, end)) in enumerate(zip(segment.spans, projection.places, strict=True))
    )
    target = Target(aligned.target.text, spans)
    return (target, projection.unaligned) if is_nested(target) else None


def is_nested(target: Target) -> bool:
    """Whether every span is inside its parent and beside its neighbors."""
    ends: dict[int | None, int] = {}
    for i in sorted(range(len(target.spans)), key=lambda i: (target.spans[i].start, target.spans[i].end, i)):
        span = target.spans[i]
        around = None if span.parent is None else target.spans[span.parent]
        low, high = (0, len(target.text)) if around is None else (around.start, around.end)
        if not max(low, ends.get(span.parent, 0)) <= span.start <= span.end <= high:
            return False
        ends[span.parent] = span.end
    return True


class _Projection:
    """The places of spans, found from the outermost to the innermost."""

    def __init__(self, spans: Sequence[Span], aligned: AlignedText, protected: dict[int, Range]) -> None:
        self.spans, self.aligned, self.protected = spans, aligned, protected
        self.places: list[Range] = [protected.get(i, (0, 0)) for i in range(len(spans))]
        self.unaligned: list[str] = []
        self.parents: dict[int, int] = {}  # of pairs that are nested in a neighbor
        self.attending: dict[int, list[int]] = {}  # what `_attending` found
        self.children: dict[int | None, list[int]] = {}
        for index, span in enumerate(spans):
            self.children.setdefault(span.parent, []).append(index)
        self.inside = [self._source_parts(span) for span in spans]
        self.has_words = [LETTER.search(aligned.source.text, span.start, span.end) is not None for span in spans]
        self.holds = {index: self._target_parts(place) for index, place in protected.items()}
        self.held = sorted(self.holds.values())
        self.holder = {t: index for index, parts in self.holds.items() for t in range(*parts)}
        self.held_inside: dict[int, list[int]] = {}  # the parts of protected text inside each pair
        for t, index in self.holder.items():
            parent = spans[index].parent
            while parent is not None:
                self.held_inside.setdefault(parent, []).append(t)
                parent = spans[parent].parent
        self.ranges = PairRanges(aligned, self.inside, self.has_words, self.holder, self.held_inside)
        self.separators = separators(aligned)

    def place_children(self, parent: int | None, first: int, last: int) -> None:
        """Place the spans inside a parent that encloses the target parts from `first` to before `last`."""
        children = self.children.get(parent, [])
        pairs = [i for i in children if self.spans[i].kind == "pair"]
        ranges = self._place_pairs(pairs, first, last)
        disjoint = sorted(ranges.values())
        for index, (low, high) in ranges.items():
            blank = None if self.inside[index] or self.children.get(index) else self._blank(index, disjoint)
            if low == high and self._is_last(index, low):
                blank = len(self.aligned.target.text), len(self.aligned.target.text)
            self.places[index] = blank or self._characters(low, high, first, last)
            if low < high:
                self.place_children(index, low, high)
            else:
                self._collapse(index)
        closed = sorted([*disjoint, *(self.holds[i] for i in children if i in self.holds)])
        for index in children:
            if self.spans[index].kind == "point":
                place = self._point(index, first, last, closed)
                self.places[index] = (place, place)
        halves = [i for i in children if self.spans[i].half]
        for index, own in zip(halves, sorted(self.places[i] for i in halves), strict=True):
            self.places[index] = own

    def _collapse(self, parent: int) -> None:
        """Place everything inside a pair that encloses nothing."""
        for index in self.children.get(parent, ()):
            if index not in self.protected or not self.spans[index].open:  # else its text would be written twice
                self.places[index] = self.places[parent]
            self._collapse(index)

    def _place_pairs(self, pairs: Sequence[int], first: int, last: int) -> dict[int, Range]:
        """Disjoint ranges of target parts for neighboring pairs; the best aligned pair chooses first."""
        found: dict[int, Range] = {}
        taken = RangeSet()
        choices = {i: self.ranges.best(i, first, last, taken) for i in pairs if self.inside[i]}
        for index in sorted(choices, key=lambda i: (-choices[i][0], i)):
            score, low, high = choices[index]
            if taken.overlaps(low, high):
                shared, (score, low, high) = choices[index], self.ranges.best(index, first, last, taken)
                if score <= MIN_SHARE < shared[0]:
                    score = 0.0  # a neighbor has its words: other words would be wrong
                    if (around := self._sharing(index, shared[1:], found)) is not None:
                        self.children.setdefault(around, []).append(index)
                        self.parents[index] = around
                        continue
            if score > 0:
                found[index] = (low, high)
                taken.add(low, high)
                if score <= MIN_SHARE and self.has_words[index]:  # a guess, which is right half of the time
                    self.unaligned.append(self.spans[index].name)
        closed = sorted(found.values())
        for index in pairs:
            if index not in found and index not in self.parents:
                if self.inside[index]:
                    self.unaligned.append(self.spans[index].name)
                low, high = found[index] = self._neighbor(index, first, last, closed, taken)
                insort(closed, (low, high))
                if low < high:
                    taken.add(low, high)
        return found

    def _sharing(self, index: int, place: Range, found: dict[int, Range]) -> int | None:
        """The neighbor that has the words of a pair, if the pair can be nested in it.

        A compound translates the words of both. Links are not nested in links, nor are the runs of Office files.
        """
        own = self.spans[index]
        if not own.open or index in self.held_inside:
            return None
        around = (i for i, (low, high) in found.items() if low < place[1] and place[0] < high)
        return next((i for i in around if self.spans[i].open and self.spans[i].name != own.name), None)

    def _neighbor(self, index: int, first: int, last: int, closed: Sequence[Range], taken: RangeSet) -> Range:
        """A range for a pair without aligned words: a free word next to its place, or nothing."""
        gap = self._gap(index, first, last) if self.inside[index] else self._empty_gap(index, first, last)
        for t in (gap, gap - 1) if self.inside[index] else ():
            free = first <= t < last and t not in self.holder and taken.next_free(t) == t
            free = free and not (self.has_words[index] and t in self.aligned.target.marks)
            if free and not self.aligned.sources_of(t):
                return t, t + 1
        gap = outside(outside(gap, self.held), closed)
        return gap, gap

    def _gap(self, index: int, first: int, last: int) -> int:
        """The gap between target parts that corresponds to the start of a span."""
        place, text, parts = self.spans[index].start, self.aligned.source.text, self.aligned.source.parts
        n_before = bisect_right(parts, place, key=lambda part: part[1])
        following = bisect_left(parts, place, key=lambda part: part[0])
        own = self.aligned.units_of(range(n_before)[-1:])
        other = self.aligned.units_of(range(following, len(parts))[:1])
        before = range(max(own[0].source[0], n_before - 4), n_before) if own else range(0)  # the nearest of a sentence
        after = range(following, min(other[0].source[1], following + 4)) if other else range(0)
        joins_next = place < len(text) and not text[place].isspace() and (place == 0 or text[place - 1].isspace())
        attach = [(before[::-1], 1), (after, 0)]
        for near, shift in attach[::-1] if joins_next else attach:
            for s in near:
                if (linked := self.aligned.targets_of(s) or self.attending.get(s)) is None:
                    linked = self.attending[s] = self._attending(s)
                low, high = bisect_left(linked, first), bisect_left(linked, last)
                if low < high:
                    return self._last(s, linked[low:high]) + 1 if shift else linked[low]
        if not own:
            return first
        (start, end), target = own[0].source, own[0].target
        gap = target[end - n_before <= n_before - start]  # the nearer end of its sentence
        return min(max(gap, first), last)

    def _empty_gap(self, index: int, first: int, last: int) -> int:
        """The gap for a span that encloses nothing; at the beginning and the end of its parent it stays there."""
        span, parts = self.spans[index], self.aligned.source.parts
        around = (0, len(self.aligned.source.text)) if span.parent is None else self._source_characters(span.parent)
        here = bisect_left(parts, span.start, key=lambda part: part[0])
        if here == 0 or parts[here - 1][0] < around[0]:
            return first
        if (here == len(parts) or parts[here][0] >= around[1]) and not self._is_exponent(span):
            return last
        return self._gap(index, first, last)

    def _last(self, source_part: int, linked: Sequence[int]) -> int:
        """The last of these target parts, or the same word: "Acme®" is in "Acme®-Maschine", not after it."""
        (start, end), parts = self.aligned.source.parts[source_part], self.aligned.target.parts
        word, text = self.aligned.source.text[start:end], self.aligned.target.text
        return next((t for t in linked if text[slice(*parts[t])] == word), linked[-1])

    def _attending(self, source_part: int) -> list[int]:
        """The target part that attends most to a source part without links, if it does so mostly."""
        own, (start, end) = range(source_part, source_part + 1), self.aligned.source.parts[source_part]
        unit = next((unit for unit in self.aligned.units_of(own) if unit.weights is not None), None)
        if unit is None or not self.aligned.source.text[start].isalnum():
            return []
        shares = unit.share(start, end).tolist()
        token, part = max(unit.token_parts, key=lambda pair: shares[pair[0]], default=(0, 0))
        return [part] if unit.token_parts and shares[token] >= THRESHOLD else []

    def _between(self, place: int, parent: int | None, closed: Sequence[Range], at_end: bool = False) -> int | None:
        """The place in the target of a place between sentences, where source and target are the same.

        None if it is not between sentences, or if its place in the target is outside of the parent or inside one of the
        `closed` ranges. With `at_end`, the end of a sentence is between them too.
        """
        found = bisect_right(self.separators, place, key=lambda one: one[0]) - 1
        if found < 0:
            return None
        start, end, target = self.separators[found]
        inside = start < place < end or place == start == 0 or place == end == len(self.aligned.source.text)
        inside = inside or (at_end and start <= place <= end)
        low, high = (0, len(self.aligned.target.text)) if parent is None else self.places[parent]
        new = target + place - start
        gap = bisect_left(self.aligned.target.parts, new, key=lambda part: part[0])
        return new if inside and low <= new <= high and outside(gap, closed) == gap else None

    def _blank(self, index: int, closed: Sequence[Range]) -> Range | None:
        """The characters of a pair around white space between sentences; None for other pairs."""
        span = self.spans[index]
        low, high = (self._between(place, span.parent, closed) for place in (span.start, span.end))
        return None if low is None or high is None else (low, high)

    def _point(self, index: int, first: int, last: int, closed: list[Range]) -> int:
        """The character at which a point goes: next to the word that it is next to in the source."""
        span = self.spans[index]
        if (place := self._between(span.start, span.parent, closed, span.is_line_break)) is not None:
            return place
        gap = outside(self._empty_gap(index, first, last), closed)
        if self._is_last(index, gap):
            return len(self.aligned.target.text)
        return self._character(gap, span.start, first, last)

    def _character(self, gap: int, source_place: int, first: int, last: int) -> int:
        """The character of a gap: after the part before it, or before the part after it, as in the source."""
        parts = self.aligned.target.parts
        if first == last:  # a target without words
            return 0
        if gap >= last or (gap > first and not self._follows_space(source_place)):
            return parts[gap - 1][1]
        return parts[gap][0]

    def _is_last(self, index: int, gap: int) -> bool:
        """Whether markup without words goes behind the white space at the end of the text."""
        span = self.spans[index]
        return span.parent is None and gap == len(self.aligned.target.parts) and self._follows_space(span.start)

    def _follows_space(self, place: int) -> bool:
        """Whether there is white space before a place of the source."""
        return place > 0 and self.aligned.source.text[place - 1].isspace()

    def _is_exponent(self, point: Span) -> bool:
        """Whether a point is an exponent, an index or the like of the word before it, which it follows to any place."""
        return is_script(point) and point.start > 0 and self.aligned.source.text[point.start - 1].isalnum()

    def _characters(self, low: int, high: int, first: int, last: int) -> Range:
        """The characters of a range of target parts."""
        parts = self.aligned.target.parts
        if low < high:
            return parts[low][0], parts[high - 1][1]
        place = parts[low][0] if low < last else parts[last - 1][1] if last > first else 0
        return place, place

    def _source_parts(self, span: Span) -> range:
        """The source parts that a span encloses, at least in part."""
        return range(*overlap(self.aligned.source.parts, (span.start, span.end)))

    def _source_characters(self, index: int) -> Range:
        return self.spans[index].start, self.spans[index].end

    def _target_parts(self, place: Range) -> Range:
        """The target parts that overlap a range of characters."""
        return overlap(self.aligned.target.parts, place)
