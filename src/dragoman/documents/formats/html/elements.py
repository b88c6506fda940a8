"""The elements and attributes of HTML: which are blocks, which are left as they are, what people read."""

from __future__ import annotations

import re
from typing import Final

from dragoman.documents.markup import CDATA, Attribute, Token, names

BLOCKS: Final = names(
    "address article aside base blockquote body br caption center col colgroup dd details dialog dir div dl dt "
    "fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li link "
    "listing main menu meta nav noembed noframes noscript ol optgroup option p param plaintext pre script search "
    "section source style summary table tbody td template tfoot th thead title tr track ul xmp "
    "epub:case epub:default epub:switch epub:trigger"
)  # all others, also unknown ones, are inside a sentence
# points in the sentence around them, with text of their own
REPLACED: Final = names("applet audio canvas datalist iframe map object picture select textarea video")
INLINE: Final = names(
    "a abbr acronym b bdi bdo big blink button cite data del dfn em font i ins label mark meter nobr output progress q "
    "rb rp rt rtc ruby s small span strike strong sub sup time u"
)
POINTS: Final = names("area embed img input wbr")  # void elements inside a sentence
PROTECTED: Final = names("code kbd samp var tt math svg")
DRAWINGS: Final = names("math svg")  # not HTML's elements
CONTROLS: Final = names("a button label")
FIELDS: Final = names("input select textarea")
UNTOUCHED: Final = names("pre script style object iframe canvas audio video noembed noframes")
ROOTS: Final = names("html body")
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
META_NAMES: Final = names(
    "description keywords og:title og:description og:image:alt twitter:title twitter:description twitter:image:alt"
)
BUTTONS: Final = names("submit button reset")
NOTE_MARK: Final = re.compile(r"\s*<a\s[^>]*>\W*[\w*†‡]{1,4}\W*</a>\s*</sup\s*>", re.IGNORECASE)


def is_control(name: str) -> bool:
    """Whether an element is a label, a link or a button, or may be one: it is not one of HTML's."""
    return name in CONTROLS or not (name in INLINE or name in POINTS or name in PROTECTED or name in REPLACED)


def translation_mode(token: Token, inherited: bool) -> bool:
    """Whether the content of an element is translated, by its attributes."""
    match (token.get("translate") or "").lower():
        case "no":
            return False
        case "yes":
            return True
    return inherited and "notranslate" not in (token.get("class") or "").split()


def is_code(token: Token) -> bool:
    """Whether an inline element is copied as it is."""
    return token.kind in ("start", "empty") and token.name in PROTECTED and token.get("translate") != "yes"


def is_note(token: Token, text: str) -> bool:
    """Whether an element is the mark of a footnote, which is no part of the word before it."""
    if token.kind != "start":
        return False
    if token.get("epub:type") == "noteref" or token.get("role") == "doc-noteref":
        return True
    if (token.get("class") or "") in ("sdfootnotesym", "sdendnotesym"):  # LibreOffice's, at the start of a note
        return True
    return token.name == "sup" and NOTE_MARK.match(text, token.end) is not None


def meta_name(token: Token) -> str:
    """What a <meta> element is about."""
    return (token.get("name") or token.get("property") or "").lower() if token.name == "meta" else ""


def is_translated(token: Token, attribute: Attribute) -> bool:
    """Whether people read this attribute."""
    if attribute.name == "content":
        return meta_name(token) in META_NAMES
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
    """Tokens without white space, comments and such as videos at both ends, and without end tags at the start."""
    first, last = 0, len(tokens)
    while first < last and (is_outside(tokens[first], text) or tokens[first].kind == "end"):
        first += 1
    while last > first and is_outside(tokens[last - 1], text):
        last -= 1
    return tokens[first:last]


def is_outside(token: Token, text: str) -> bool:
    """Whether a token at an end of a sentence is not a part of it."""
    return is_blank(token, text) or (token.kind == "empty" and token.name in REPLACED and not token.attributes)


def is_blank(token: Token, text: str) -> bool:
    """Whether a token is white space or a comment; tags of templates that write nothing are comments, too."""
    if token.kind == "text":
        return text[token.start : token.end].isspace()
    return token.kind == "other" and not text.startswith((CDATA, "<%=", "<?="), token.start)
