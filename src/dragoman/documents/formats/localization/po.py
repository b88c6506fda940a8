"""PO and POT files of gettext: translations are written beside their messages, everything else stays as it is."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from dragoman.documents.edits import Edit, apply_edits
from dragoman.documents.encoding import Encoding, decode
from dragoman.documents.formats.localization.inline_tags import add_tagged_text
from dragoman.documents.formats.localization.languages import check_language
from dragoman.documents.formats.localization.plural_rules import PluralForms, language_rule, parse_rule
from dragoman.documents.formats.localization.po_syntax import WIDTH, Entry, Field, parse, quote
from dragoman.documents.formats.strings.messages import message_text
from dragoman.documents.segment import ReadOptions, Segment, SegmentBuilder, Span, Target, TranslationPair, render
from dragoman.documents.spliced import SplicedText
from dragoman.documents.transfer.placeholders import find_placeholders
from dragoman.documents.transfer.protected import protect_placeholders

CHARSET: Final = re.compile(rb"charset=([\w.:-]+)")
UNSET_RULE: Final = "nplurals=INTEGER; plural=EXPRESSION;"
DIRECTIVE: Final = re.compile(
    r"%%|%[-+#0']*(?:[1-9]\d*|\*)?(?:\.(?:\d+|\*)?)?(?:hh|h|ll|l|L|q|j|z|t)?(?P<type>[diouxXeEfFgGaAcCsSp@])"
)
NUMBERED: Final = re.compile(r"%\d+\$")
NUMBERED_FORMATS: Final = frozenset(("c-format", "objc-format", "php-format", "boost-format", "gcc-internal-format"))
FORMATS: Final = NUMBERED_FORMATS | {"python-format", "perl-format", "lua-format", "awk-format", "ruby-format"}


@dataclass(frozen=True)
class Message:
    """A place for a translation: a message, or one plural form of it. Without a `field` the form is added.

    A message with ICU branches is an `icu` text with several segments.
    """

    segments: Sequence[Segment]
    entry: Entry
    form: int
    field: Field | None
    icu: SplicedText | None = None

    @property
    def formatted(self) -> bool:
        """Whether the message is a format string, with directives such as %s."""
        return not FORMATS.isdisjoint(self.entry.flags)

    def render(self, targets: Sequence[Target]) -> str | None:
        """The translation; None if its directives cannot be written in their new order."""
        if self.icu is not None:
            return self.icu.splice(targets)
        return render_message(self.segments[0], targets[0]) if self.formatted else render(targets[0])


@dataclass(frozen=True)
class PoDocument:
    """A PO file; its segments are the messages without a translation."""

    text: str
    messages: Sequence[Message]
    encoding: Encoding
    header: Entry | None
    plurals: PluralForms
    target: str

    @property
    def segments(self) -> list[Segment]:
        """The messages to translate."""
        return [segment for message in self.messages for segment in message.segments]

    def write(self, targets: Sequence[Target | None]) -> bytes:
        """The file with translations, marked as fuzzy unless a person made them."""
        if all(target is None for target in targets):
            return self.encoding.encode(self.text)
        edits = list[Edit]()
        newline = "\r\n" if "\r\n" in self.text else "\n"
        wrap = not any(len(line) > WIDTH + 1 and line.startswith('"') for line in self.text.splitlines())
        fuzzy, filled = dict[int, Entry](), dict[int, Entry]()
        rest = iter(targets)
        for message in self.messages:
            own = [target for _ in message.segments if (target := next(rest)) is not None]
            text = message.render(own) if len(own) == len(message.segments) else None
            if text is None:
                continue
            entry, one = message.entry, message.field
            keyword = "msgstr" if entry.get("msgid_plural") is None else f"msgstr[{message.form}]"
            string = quote(text, keyword, newline, wrap)
            if one is not None:
                edits.append((one.start, one.end, string))
            else:
                last = entry.fields[-1].end
                edits.append((last, last, f"{newline}{keyword} {string}"))
            filled[id(entry)] = entry
            if not all(target.approved for target in own):
                fuzzy[id(entry)] = entry
        for entry in filled.values():
            edits += self._surplus_edits(entry)
        edits += [edit for entry in fuzzy.values() for edit in fuzzy_edits(entry, newline)]
        encoding = self.encoding
        new = "".join(edit[2] for edit in edits)
        if codecs.lookup(encoding.name).name == "ascii" and not new.isascii():  # as msginit declares it
            encoding = replace(encoding, name="utf-8")
        edits += self._header_edits(encoding)
        return encoding.encode(apply_edits(self.text, edits))

    def _surplus_edits(self, entry: Entry) -> Iterator[Edit]:
        """Remove the plural forms of a template that the target language does not have."""
        if entry.get("msgid_plural") is None:
            return
        before = entry.fields[0]
        for field in entry.fields:
            if field.keyword == "msgstr" and (field.form or 0) >= self.plurals.count and not field.value:
                yield before.end, field.end, ""
            before = field

    def _header_edits(self, encoding: Encoding) -> list[Edit]:
        """Fill the fields of the header that still have the text of a template, or another encoding."""
        if self.header is None:
            return []
        field = self.header.translations[0]
        values = {"charset=CHARSET": "charset=UTF-8"}
        if self.target:
            values[f"Plural-Forms: {UNSET_RULE}"] = f"Plural-Forms: {self.plurals.rule}"
            values["\nLanguage: \n"] = f"\nLanguage: {self.target.replace('-', '_')}\n"
        new = field.value
        if encoding != self.encoding:
            new = re.sub(r"charset=[\w.:-]+", "charset=UTF-8", new)
        for old, value in values.items():
            new = new.replace(old, value)
        if new == field.value:
            return []
        newline = "\r\n" if "\r\n" in self.text else "\n"
        return [(field.start, field.end, quote(new, "msgstr", newline))]


def read(data: bytes, name: str, options: ReadOptions) -> PoDocument:
    """Read a PO or POT file. Messages with a translation, fuzzy ones too, are left unless `retranslate` is set."""
    text, encoding, entries = read_entries(data, name)
    header = next((one for one in entries if is_header(one)), None)
    fields = header_fields(header)
    check_language(name, fields.get("language", ""), options.target)
    target = options.target or fields.get("language", "")
    plurals = parse_rule(fields.get("plural-forms", "")) or language_rule(target) or language_rule("en")
    assert plurals is not None
    messages = [
        message
        for entry in entries
        if entry is not header
        for message in entry_messages(entry, plurals)
        if options.retranslate or message.field is None or not message.field.value
    ]
    return PoDocument(text, messages, encoding, header, plurals, options.target)


def read_pairs(data: bytes, name: str, options: ReadOptions) -> Iterator[TranslationPair]:
    """The messages with their translations, without obsolete ones."""
    _, _, entries = read_entries(data, name)
    header = next((one for one in entries if is_header(one)), None)
    check_language(name, header_fields(header).get("language", ""), options.target)
    for entry in entries:
        if is_header(entry):
            continue
        for form, field in sorted(entry.translations.items()):
            source = entry.get("msgid" if form == 0 else "msgid_plural") or entry.get("msgid")
            if source is not None and source.value and field.value:
                yield TranslationPair(source.value, field.value, "fuzzy" in entry.flags)


def read_entries(data: bytes, name: str) -> tuple[str, Encoding, list[Entry]]:
    """The text, its encoding and its entries."""
    declared = CHARSET.search(data)
    charset = declared[1].decode("ascii") if declared and declared[1] != b"CHARSET" else None
    text, encoding = decode(data, name, charset)
    return text, encoding, parse(text, name)


def is_header(entry: Entry) -> bool:
    """Whether an entry is the header: the message without text and context."""
    message = entry.get("msgid")
    return message is not None and not message.value and entry.get("msgctxt") is None


def header_fields(header: Entry | None) -> dict[str, str]:
    """The fields of the header, by name in lower case."""
    lines = header.translations.get(0, header.fields[0]).value.split("\n") if header is not None else []
    return {line.split(":")[0].lower(): line.partition(":")[2].strip() for line in lines if ":" in line}


def entry_messages(entry: Entry, plurals: PluralForms) -> Iterator[Message]:
    """The segment of a message, or one for each plural form of the target language."""
    one, many = entry.get("msgid"), entry.get("msgid_plural")
    assert one is not None
    if not one.value.strip():
        return
    key = f"line {one.line}"
    if many is None:
        icu = message_text(one.value, key)
        if icu is not None and icu.slots:
            yield Message(icu.segments, entry, 0, entry.translations.get(0), icu)
        elif icu is None:
            yield Message([message_segment(one.value, key, entry.flags)], entry, 0, entry.translations.get(0))
        return
    same = placeholders_of(one.value) == placeholders_of(many.value)
    for form in range(plurals.count):
        singular = plurals.count > 1 and plurals.form(1) == form and (same or plurals.is_only_one(form))
        segment = message_segment((one if singular else many).value, f"{key}, plural form {form}", entry.flags)
        field = entry.translations.get(form)
        yield Message([replace(segment, numbers=plurals.numbers(form))], entry, form, field)


def placeholders_of(text: str) -> list[str]:
    """The placeholders of a message, sorted."""
    return sorted(text[start:end] for start, end in find_placeholders(text, program=True))


def message_segment(text: str, key: str, flags: Sequence[str]) -> Segment:
    """The segment of a message; if its format has such, its directives may change places as %1$s.

    So may those in code and the like: `cp %s` becomes `cp %1$s`.
    """
    builder = SegmentBuilder()
    add_tagged_text(builder, text)
    segment = replace(builder.build(key), bilingual=True, program=True)
    if FORMATS.isdisjoint(flags):
        return segment
    n_spans, directives = len(segment.spans), [found.span() for found in find_directives(segment.text)]
    found = protect_placeholders(segment, others=directives).spans[n_spans:]
    if not NUMBERED_FORMATS.isdisjoint(flags) and can_be_numbered(text, found):
        spans = number_directives([span for span in found if find_directives(span.name)])
    else:
        as_usual = frozenset(protect_placeholders(segment).spans[n_spans:])
        spans = [span for span in found if span not in as_usual]  # directives that do not look like them
    return replace(segment, spans=(*segment.spans, *spans))


def can_be_numbered(text: str, protected: Sequence[Span]) -> bool:
    """Whether several directives of a message have no numbers yet, and all are in protected text, not in markup."""
    every = find_directives(text)
    if len(every) < 2 or any("*" in one[0] for one in every) or "%" in DIRECTIVE.sub("", text):  # %1$s, %Y-%m-%d
        return False
    return sum(len(find_directives(span.name)) for span in protected) == len(every)


def number_directives(spans: Sequence[Span]) -> list[Span]:
    """Protected text with directives; its name has them with numbers."""
    numbers = count(1)

    def numbered(directive: re.Match[str]) -> str:
        return f"%{next(numbers)}${directive[0][1:]}" if directive["type"] else directive[0]

    return [replace(span, name=DIRECTIVE.sub(numbered, span.name)) for span in spans]


def find_directives(text: str) -> list[re.Match[str]]:
    """The directives of a format string, such as %s, without numbers; not %%."""
    return [found for found in DIRECTIVE.finditer(text) if found["type"]]


def render_message(segment: Segment, target: Target) -> str | None:
    """A translation; with numbers in its directives if their order has changed, None if they cannot have any."""
    own = [i for i, span in enumerate(segment.spans) if span.kind == "protected" and NUMBERED.search(span.name)]
    places = [target.spans[i].start for i in own]
    if places != sorted(places):
        spans = list(target.spans)
        for i in own:
            spans[i] = replace(spans[i], open=spans[i].name)
        return render(replace(target, spans=tuple(spans)))
    text = render(target)
    before, after = ([found[0] for found in find_directives(one)] for one in (render(segment), text))
    return text if before == after else None


def fuzzy_edits(entry: Entry, newline: str) -> Iterator[Edit]:
    """Add the flag fuzzy to an entry."""
    if "fuzzy" in entry.flags:
        return
    for place, comment in entry.comments:
        if comment.startswith("#,"):
            yield place + 2, place + 2, " fuzzy,"
            return
    previous = [place for place, comment in entry.comments if comment.startswith("#|")]
    first = min([entry.fields[0].at, *previous])
    yield first, first, f"#, fuzzy{newline}"
