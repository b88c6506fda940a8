"""HTML pages and fragments, and the XHTML of e-books."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from dragoman.documents.edits import Edit
from dragoman.documents.encoding import Encoding, decode
from dragoman.documents.languages import NO_CHANGE, LanguageChange
from dragoman.documents.markup import CDATA, Attribute, Token, escape_attribute, escape_xml, names, scan
from dragoman.documents.segment import NO_OPTIONS, ReadOptions, Segment, SegmentBuilder
from dragoman.documents.spliced import Slot, SplicedText
from dragoman.documents.transfer.masks import LETTER

INLINE: Final = names(
    "a abbr acronym b bdi bdo big cite del dfn em font i ins label mark q rb rp rt ruby s small span strike strong sub "
    "sup time u data meter output progress"
)
POINTS: Final = names("img wbr input embed")  # void elements inside a sentence
PROTECTED: Final = names("code kbd samp var tt math svg")
DRAWINGS: Final = names("math svg")  # not HTML's elements
UNTOUCHED: Final = names("pre script style template object iframe canvas audio video noembed noframes")
RAW: Final = names("script style")
VOID: Final = names("area base br col embed hr img input link meta param source track wbr")
CLOSES: Final = {  # elements whose end tag may be missing, and the start tags that end them
    "p": names(
        "address article aside blockquote details div dl fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 "
        "header hr li main menu nav ol p pre section table td th tr ul"
    ),
    "li": names("li"),
    "dt": names("dt dd"),
    "dd": names("dt dd"),
    "td": names("td th tr"),
    "th": names("td th tr"),
    "tr": names("tr"),
    "option": names("option optgroup"),
}
TRANSLATED_ATTRIBUTES: Final = names("alt title placeholder aria-label aria-description aria-placeholder")
META_NAMES: Final = names("description keywords og:title og:description twitter:title twitter:description")
BUTTONS: Final = names("submit button reset")
INLINE_LANGUAGE: Final = re.compile(r"""(?<=\slang=["'])[\w-]+(?=["'])|(?<=\sxml:lang=["'])[\w-]+(?=["'])""")
NOTE_MARK: Final = re.compile(r"\s*<a\s[^>]*>\W*[\w*†‡]{1,4}\W*</a>\s*</sup\s*>", re.IGNORECASE)
CHARSET: Final = re.compile(
    rb"""<meta[^>]{1,200}charset\s*=\s*["']?([\w.:-]+)|<\?xml[^>]{1,100}encoding\s*=\s*["']([\w.:-]+)""", re.IGNORECASE
)


def read(data: bytes, name: str, options: ReadOptions = NO_OPTIONS) -> SplicedText:
    """Read a page or a fragment. Code, `translate="no"`, scripts and the like are left as they are."""
    declared = CHARSET.search(data, 0, 2048)
    text, encoding = decode(data, name, (declared[1] or declared[2]).decode("ascii") if declared else None)
    return read_text(text, encoding, LanguageChange(options.source, options.target))


def read_text(text: str, encoding: Encoding, language: LanguageChange, xml: bool = False) -> SplicedText:
    """The text of HTML, or with `xml` of XHTML, with its slots."""
    reader = Reader(text, xml, language)
    slots = reader.read()

    def relabel(tag: str) -> str:
        return INLINE_LANGUAGE.sub(lambda one: language.tag if language.declares_source(one[0]) else one[0], tag)

    return SplicedText(text, slots, encoding, "xmlcharrefreplace", reader.declarations, relabel if language else str)


def read_slots(text: str) -> list[Slot]:
    """The slots of a fragment of HTML."""
    return Reader(text, False).read()


@dataclass
class Reader:
    """Collects the text between block elements into segments."""

    text: str
    xml: bool
    language: LanguageChange = NO_CHANGE
    declarations: list[Edit] = field(default_factory=list)  # of the language, in tags of blocks
    slots: list[Slot] = field(default_factory=list)
    pending: list[Token] = field(default_factory=list)  # inline content since the last block boundary
    elements: list[tuple[str, bool]] = field(default_factory=list)  # open elements, and whether they are translated
    drawing: str = ""  # the drawing or formula that is open

    def read(self) -> list[Slot]:
        """All slots, in order."""
        for token in scan(self.text, RAW, lower=not self.xml):
            if self.drawing:
                self.pending.append(token)
                if token.kind == "end" and token.name == self.drawing:
                    self.drawing = ""
            elif token.kind in ("start", "empty", "end"):
                self._tag(token)
            else:
                self.pending.append(token)
        self._flush()
        return sorted(self.slots, key=lambda slot: (slot.start, -slot.end))

    @property
    def translates(self) -> bool:
        """Whether text is translated here."""
        return self.elements[-1][1] if self.elements else True

    def _tag(self, token: Token) -> None:
        name = token.name
        inline = name in INLINE or name in POINTS or name in PROTECTED
        if inline:
            self.pending.append(token)
            if token.kind == "start" and name in DRAWINGS:
                self.drawing = name
            return
        self._flush()
        if token.kind == "end":
            if any(name == element for element, _ in self.elements):
                while self.elements.pop()[0] != name:
                    pass
            return
        if not self.xml:
            while self.elements and name in CLOSES.get(self.elements[-1][0], ()):
                self.elements.pop()
        translates = translation_mode(token, self.translates and name not in UNTOUCHED)
        if self.translates or translates:
            self._attributes(token)
        if translates:
            self._declaration(token)
        if token.kind == "start" and (self.xml or name not in VOID):
            self.elements.append((name, translates))

    def _is_template_tag(self, token: Token) -> bool:
        """Whether a token is a tag of a template, such as <%= x %> or <?= $x ?>."""
        return token.kind == "other" and not self.xml and self.text.startswith(("<%", "<?"), token.start)

    def _attributes(self, token: Token) -> None:
        """Slots for the attributes of a tag that people read."""
        for attribute in token.attributes:
            if is_translated(token, attribute) and LETTER.search(attribute.value):
                segment = Segment(attribute.value, key=f"{token.name} {attribute.name}")
                wrap = str if attribute.quote else '"{}"'.format
                self.slots.append(Slot(attribute.start, attribute.end, segment, escape_attribute, wrap))

    def _declaration(self, token: Token) -> None:
        """An edit of the language that a tag declares."""
        content = token.name == "meta" and (token.get("http-equiv") or "").lower() == "content-language"
        for one in token.attributes:
            declares = one.name in ("lang", "xml:lang") or (content and one.name == "content")
            if declares and self.language.declares_source(one.value):
                self.declarations.append((one.start, one.end, self.language.tag))

    def _flush(self) -> None:
        """Turn the inline content since the last block boundary into a segment."""
        tokens, self.pending = self.pending, []
        if not self.translates:
            return
        tokens = trim(tokens, self.text)
        if not tokens:
            return
        start, end = tokens[0].start, tokens[-1].end
        start += len(self.text[start:end]) - len(self.text[start:end].lstrip())
        end = start + len(self.text[start:end].rstrip())
        builder = SegmentBuilder(collapse=not self.elements or self.elements[-1][0] != "textarea")
        ends = end_tags(tokens)
        done = 0  # tokens before this place are done
        for index, token in enumerate(tokens):
            if token.end <= done:
                continue
            raw = self.text[max(token.start, start) : min(token.end, end)]
            if is_note(token, self.text):
                inside = tokens[index + 1 : ends.get(index, index) + 1]
                done = inside[-1].end if inside else token.end
                builder.add_point(self.text[token.start : done], token.start, token.name)
                continue
            if is_protected(token):
                inside = tokens[index + 1 : ends.get(index, index) + 1]
                done = inside[-1].end if inside else token.end
                content = "".join(html.unescape(self.text[one.start : one.end]) for one in inside if one.kind == "text")
                builder.add_protected(content, self.text[token.start : done], token.start, token.name)
                continue
            if self._is_template_tag(token):
                following = takewhile(self._is_template_tag, tokens[index:])  # models do not copy masks that touch
                done = [one.end for one in following][-1]
                tags = self.text[token.start : done]
                builder.add_protected(tags, tags, token.start, tags)
                continue
            self._attributes(token)
            if token.kind == "text":
                builder.add_text(html.unescape(raw))
            elif token.kind == "end":
                builder.close_pair(raw, token.name)
            elif token.kind == "start" and token.name not in POINTS:
                builder.open_pair(raw, token.start, token.name)
            elif token.kind == "other" and raw.startswith(CDATA):
                builder.add_protected(raw[len(CDATA) : -3], raw, token.start, "CDATA")
            else:
                builder.add_point(raw, token.start, token.name)
        segment = builder.build(f"{self.elements[-1][0] if self.elements else 'text'} {len(self.slots) + 1}")
        has_text = any(one.kind == "text" and LETTER.search(self.text, one.start, one.end) for one in tokens)
        if has_text and LETTER.search(segment.text):
            self.slots.append(Slot(start, end, segment, escape_xml))


def translation_mode(token: Token, inherited: bool) -> bool:
    """Whether the content of an element is translated, by its attributes."""
    match (token.get("translate") or "").lower():
        case "no":
            return False
        case "yes":
            return True
    return inherited and "notranslate" not in (token.get("class") or "").split()


def is_protected(token: Token) -> bool:
    """Whether an inline element is copied as it is."""
    return token.kind in ("start", "empty") and (
        (token.name in PROTECTED and token.get("translate") != "yes") or not translation_mode(token, True)
    )


def is_note(token: Token, text: str) -> bool:
    """Whether an element is the mark of a footnote, which is no part of the word before it."""
    if token.kind != "start":
        return False
    if token.get("epub:type") == "noteref" or token.get("role") == "doc-noteref":
        return True
    return token.name == "sup" and NOTE_MARK.match(text, token.end) is not None


def is_translated(token: Token, attribute: Attribute) -> bool:
    """Whether people read this attribute."""
    if attribute.name == "content":
        return token.name == "meta" and (token.get("name") or token.get("property") or "").lower() in META_NAMES
    if attribute.name == "value":
        return token.name == "input" and (token.get("type") or "").lower() in BUTTONS
    if attribute.name == "label":
        return token.name in ("option", "optgroup", "track")
    return attribute.name in TRANSLATED_ATTRIBUTES


def end_tags(tokens: list[Token]) -> dict[int, int]:
    """The index of the end tag of each element that has one, by the index of its start tag."""
    ends, started = dict[int, int](), dict[str, list[int]]()
    for index, token in enumerate(tokens):
        if token.kind == "start":
            started.setdefault(token.name, []).append(index)
        elif token.kind == "end" and started.get(token.name):
            ends[started[token.name].pop()] = index
    return ends


def trim(tokens: list[Token], text: str) -> list[Token]:
    """Tokens without white space and comments at both ends, and without end tags at the start.

    Tags of templates that write nothing are comments, too.
    """

    def blank(token: Token) -> bool:
        return token.kind == "text" and text[token.start : token.end].isspace()

    def comment(token: Token) -> bool:
        return token.kind == "other" and not text.startswith((CDATA, "<%=", "<?="), token.start)

    first, last = 0, len(tokens)
    while first < last and (blank(tokens[first]) or comment(tokens[first]) or tokens[first].kind == "end"):
        first += 1
    while last > first and (blank(tokens[last - 1]) or comment(tokens[last - 1])):
        last -= 1
    return tokens[first:last]
