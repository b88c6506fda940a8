"""What the elements of a format mean: one table per format, used by one reader of paragraphs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from dragoman.documents.edits import Edit
from dragoman.documents.formats.office.xml.tree import Element
from dragoman.documents.markup import Names

NOTHING: Final = re.compile(r"(?!)")
Role = Literal["", "begin", "separate", "end", "start", "stop"]  # of two ends of a field, and of a range


@dataclass(frozen=True)
class Rules:
    """The elements of a format, by their meaning. An element inside a paragraph that is in no set is a point.

    In a run format, text is in `texts` of `runs`, which have `properties`. With `direct`, text is directly in
    paragraphs, and runs are elements around it.
    """

    paragraphs: Names = frozenset()
    strings: Names = frozenset()  # elements with text and nothing else
    runs: Names = frozenset()
    properties: Names = frozenset()  # of a run or a container: they come first and are copied with it
    texts: Names = frozenset()
    containers: Names = frozenset()  # around runs: links, insertions
    breaks: Names = frozenset()  # lines and tabs
    characters: Mapping[str, str] = field(default_factory=dict)  # elements that stand for a character
    repeats: str = ""  # the attribute that says how often
    dropped: Names = frozenset()  # what belongs to the old words: proofing marks, rendered page breaks
    protected: Names = frozenset()  # what has a place in the sentence, but is not translated: fields, formulas
    ranges: Mapping[str, str] = field(default_factory=dict)  # starts and ends of ranges, such as bookmarks
    range_ids: Names = frozenset()  # the attributes that say which start belongs to which end
    skipped: Names = frozenset()  # elements with nothing to translate, not even in paragraphs inside them
    inspected: Names = frozenset()  # elements that `is_skipped` decides about
    is_skipped: Callable[[Element], bool] = lambda element: False
    attributes: Mapping[str, Names] = field(default_factory=dict)  # translated ones: alternative texts, tooltips
    insignificant: re.Pattern[str] = NOTHING  # what does not make the properties of two runs different
    direct: bool = False
    trims: bool = True  # markup before the first and after the last word is no part of a segment
    newlines: bool = False  # a line break in a text is a line break
    strips: bool = False  # white space at the ends of a text counts only with xml:space="preserve"
    preserve: bool = False  # write xml:space="preserve"
    spaces: str = ""  # the element for repeated spaces
    is_plain: Callable[[Element], bool] = lambda element: False  # a run that looks like the text around it
    is_code: Callable[[Element], bool] = lambda element: False  # a run or a paragraph of code, by its style
    field_part: Callable[[Element], Role] = lambda element: ""  # "begin", "separate" or "end" of a field
    field_code: Callable[[Element], str] = lambda element: ""  # the instruction of a field
    is_translated_field: Callable[[str, str], bool] = lambda code, result: False
    relabel: Callable[[str], str] = str  # the markup of a run, with the language of the translation
    edits: Callable[[str], Sequence[Edit]] = lambda text: ()  # of languages that a part declares, and of stale values
