"""HTML pages and fragments, and the XHTML of e-books."""

from __future__ import annotations

import html
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple

from dragoman.documents.edits import Edit
from dragoman.documents.encoding import Encoding, decode
from dragoman.documents.formats.front_matter import read_front_matter
from dragoman.documents.formats.html.controls import divide_controls
from dragoman.documents.formats.html.drawings import mark_drawings
from dragoman.documents.formats.html.elements import (
    BLOCKS,
    CLOSES,
    POINTS,
    RAW,
    REPLACED,
    ROOTS,
    UNTOUCHED,
    VOID,
    end_tags,
    is_code,
    is_note,
    is_translated,
    translation_mode,
    trim,
)
from dragoman.documents.formats.html.languages import language_edits, relabel
from dragoman.documents.formats.html.text import add_text, without_padding
from dragoman.documents.languages import NO_CHANGE, LanguageChange, primary
from dragoman.documents.markup import CDATA, Token, escape_attribute, escape_xml, scan
from dragoman.documents.segment import NO_OPTIONS, ReadOptions, SegmentBuilder
from dragoman.documents.spliced import Slot, SplicedText
from dragoman.documents.transfer.masks import LETTER

CODE: Final = re.compile("[a-z]{2,3}")  # of a language
CHARSET: Final = re.compile(
    rb"""<meta[^>]{1,200}charset\s*=\s*["']?([\w.:-]+)|<\?xml[^>]{1,100}encoding\s*=\s*["']([\w.:-]+)""", re.IGNORECASE
)


def read(data: bytes, name: str, options: ReadOptions = NO_OPTIONS) -> SplicedText:
    """Read a page or a fragment. Code, `translate="no"`, scripts and the like are left as they are."""
    declared = CHARSET.search(data, 0, 2048)
    text, encoding = decode(data, name, (declared[1] or declared[2]).decode("ascii") if declared else None)
    front, start = read_front_matter(text, name)
    page = read_text(text, encoding, LanguageChange(options.source, options.target), start=start)
    return replace(page, slots=[*front, *page.slots])


def read_text(
    text: str, encoding: Encoding, language: LanguageChange, xml: bool = False, start: int = 0
) -> SplicedText:
    """The text of HTML, or with `xml` of XHTML, with its slots from `start`."""
    reader = Reader(text, xml, language, start)
    slots = reader.read()
    label = partial(relabel, language=language) if language else str
    return SplicedText(text, slots, encoding, "xmlcharrefreplace", reader.declarations, label)


def read_slots(text: str) -> list[Slot]:
    """The slots of a fragment of HTML."""
    return Reader(text, False).read()


class Element(NamedTuple):
    """An open element: whether its attributes say that it is translated, and whether it is in another language.

    An element that is a point in the sentence around it has what is `before` it in this sentence.
    """

    name: str
    translated: bool
    foreign: bool
    before: list[Token] | None = None


@dataclass
class Reader:
    """Collects the text between block elements into segments."""

    text: str
    xml: bool
    language: LanguageChange = NO_CHANGE
    start: int = 0
    declarations: list[Edit] = field(default_factory=list)  # of the language, in tags of blocks
    slots: list[Slot] = field(default_factory=list)
    pending: list[Token] = field(default_factory=list)  # inline content since the last block boundary
    elements: list[Element] = field(default_factory=list)  # open blocks, and inline elements with blocks to leave
    open: Counter[str] = field(default_factory=Counter)  # the names of `elements`
    left: Token | None = None  # the inline element that is open and left as it is
    nested: Counter[str] = field(default_factory=Counter)  # elements inside one of these with the same name
    declared: str = ""  # the language of the whole page

    def read(self) -> list[Slot]:
        """All slots, in order."""
        for token, drawn in mark_drawings(scan(self.text, RAW, not self.xml, self.start), self.xml):
            if drawn:
                self.pending.append(token)
            elif token.kind in ("start", "empty", "end"):
                self._tag(token)
            elif token.kind == "text" and self.pending and self.pending[-1].kind == "text":  # after a lone <
                self.pending[-1] = Token("text", self.pending[-1].start, token.end)
            else:
                self.pending.append(token)
        self._flush()
        while self.elements:
            self._close()
            self._flush()
        return sorted(self.slots, key=lambda slot: (slot.start, -slot.end))

    @property
    def around(self) -> Element:
        """The innermost of the open elements."""
        return self.elements[-1] if self.elements else Element("", True, False)

    @property
    def translates(self) -> bool:
        """Whether text is translated here."""
        return self.around.translated and not self.around.foreign

    def _tag(self, token: Token) -> None:
        name = token.name
        if name not in BLOCKS and (name not in REPLACED or token.kind == "empty"):
            self._inline_tag(token)
            return
        if token.kind == "end":
            self._flush()
            self._end(token)
            return
        if name not in REPLACED:
            self._flush()
        if not self.xml:
            self._close_implied(name)
        element = self._element(token)
        if self.left is not None:
            element = element._replace(translated=False)
        elif not element.foreign and translation_mode(token, self.around.translated):
            self._attributes(token)
        if element.translated:
            self.declarations += language_edits(token, self.language)
        if name in REPLACED:
            self.pending.append(Token("empty", token.start, token.end, name))
            element, self.pending = element._replace(before=self.pending), []
        if token.kind == "start" and (self.xml or name not in VOID):
            self._open(element)

    def _inline_tag(self, token: Token) -> None:
        name, is_end = token.name, token.kind == "end"
        left = self.left is not None and self.left.name == name
        if is_end and self.nested[name]:
            self.nested[name] -= 1
        elif is_end and left:
            self.left = None
        elif is_end and self.open[name]:
            self._flush()
            self._end(token)
            return
        elif token.kind == "start" and (left or self.open[name]):
            self.nested[name] += 1
        elif self.left is None and self.translates and name not in VOID and self._is_left(token):
            self.left = token if token.kind == "start" else None
        self.pending.append(token)

    def _element(self, token: Token) -> Element:
        """The element that a tag opens here."""
        translated = translation_mode(token, self.around.translated and token.name not in UNTOUCHED)
        return Element(token.name, translated, self._is_foreign(token, self.around.foreign))

    def _is_foreign(self, token: Token, inherited: bool) -> bool:
        """Whether an element is in another language than the source; the language of the whole page does not count."""
        code = next((one.value for one in token.attributes if one.name in ("lang", "xml:lang")), None)
        if code is None:
            return inherited
        own, source = primary(code), primary(self.language.source)
        if token.name in ROOTS:
            self.declared = own
        return CODE.fullmatch(own) is not None and len(own) == len(source) and own not in (source, self.declared)

    def _is_left(self, token: Token) -> bool:
        """Whether the attributes of an inline element say that it is left as it is."""
        if not token.attributes or token.kind == "end":
            return False
        return not translation_mode(token, True) or self._is_foreign(token, False)

    def _is_copied(self, token: Token) -> bool:
        """Whether an inline element is not translated."""
        return is_code(token) or self._is_left(token)

    def _open(self, element: Element) -> None:
        self.elements.append(element)
        self.open[element.name] += 1

    def _end(self, token: Token) -> None:
        """Close the innermost element of that name, and all inside it."""
        if self.open[token.name] and self._close_to(token.name).before is not None:
            self.pending[-1] = Token("empty", self.pending[-1].start, token.end, token.name)

    def _close_to(self, name: str) -> Element:
        while (element := self._close()).name != name:
            self._flush()
        return element

    def _close(self) -> Element:
        """Close the innermost element, whose content is done; the content before it may go on."""
        element = self.elements.pop()
        self.open[element.name] -= 1
        self.nested.pop(element.name, None)
        if element.before is not None:
            self.pending = element.before
        return element

    def _close_implied(self, name: str) -> None:
        """Close the elements whose end tag is missing before this start tag."""
        while self.elements:
            blocks = (one for one in reversed(self.elements) if one.name in BLOCKS or one.before is not None)
            block = next(blocks, None)
            if block is None or name not in CLOSES.get(block.name, ()):
                return
            self._close_to(block.name)

    def _is_template_tag(self, token: Token) -> bool:
        """Whether a token is a tag of a template, such as <%= x %> or <?= $x ?>."""
        return token.kind == "other" and not self.xml and self.text.startswith(("<%", "<?"), token.start)

    def _attributes(self, token: Token) -> None:
        """Slots for the attributes of a tag that people read."""
        for attribute in token.attributes:
            if is_translated(token, attribute) and LETTER.search(attribute.value):
                builder = SegmentBuilder()
                add_text(builder, self.text[attribute.start : attribute.end], escape_attribute)
                segment = builder.build(f"{token.name} {attribute.name}")
                wrap = str if attribute.quote else '"{}"'.format
                self.slots.append(Slot(attribute.start, attribute.end, segment, escape_attribute, wrap))

    def _flush(self) -> None:
        """Turn the inline content since the last block boundary into segments."""
        tokens, self.pending = self.pending, []
        if not self.translates or not (tokens := trim(tokens, self.text)):
            return
        if self.left is not None:  # it has blocks
            tokens = [one for one in tokens if one.end <= self.left.start]
        for part in divide_controls(tokens, self.text, self._is_copied):
            self._add(trim(part, self.text))
        if self.left is not None:
            self._open(self._element(self.left))
            self.left = None

    def _add(self, tokens: list[Token]) -> None:
        """Turn inline content into a segment."""
        if not tokens:
            return
        start, end = without_padding(self.text, tokens[0].start, tokens[-1].end)
        builder = SegmentBuilder(collapse=self.around.name != "textarea")
        ends = end_tags(tokens)
        last = -1  # tokens up to this one are done
        for index, token in enumerate(tokens):
            if index <= last:
                continue
            if is_note(token, self.text):
                last = ends.get(index, index)
                builder.add_point(self.text[token.start : tokens[last].end], token.start, token.name)
                continue
            if self._is_copied(token):
                last = ends.get(index, index)
                texts = (one for one in tokens[index : last + 1] if one.kind == "text")
                words = "".join(html.unescape(self.text[one.start : one.end]) for one in texts)
                copied = self.text[token.start : tokens[last].end]
                builder.add_protected(" ".join(words.split()), copied, token.start, token.name)
                continue
            if self._is_template_tag(token):
                last = index
                while last + 1 < len(tokens) and self._is_template_tag(tokens[last + 1]):
                    last += 1  # models do not copy masks that touch
                tags = self.text[token.start : tokens[last].end]
                builder.add_protected(tags, tags, token.start, tags)
                continue
            raw = self.text[max(token.start, start) : min(token.end, end)]
            self._attributes(token)
            if token.kind == "text":
                add_text(builder, raw, escape_xml)
            elif token.kind == "end":
                builder.close_pair(raw, token.name)
            elif token.kind == "start" and token.name not in POINTS:
                builder.open_pair(raw, token.start, token.name)
            elif token.kind == "other" and raw.startswith(CDATA):
                builder.add_protected(raw[len(CDATA) : -3], raw, token.start, "CDATA")
            else:
                builder.add_point(raw, token.start, token.name)
        segment = builder.build(f"{self.around.name or 'text'} {len(self.slots) + 1}")
        has_text = any(one.kind == "text" and LETTER.search(self.text, one.start, one.end) for one in tokens)
        if has_text and LETTER.search(segment.text):
            self.slots.append(Slot(start, end, segment, escape_xml))
