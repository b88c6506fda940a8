"""Find placeholders, code, file names, URLs and e-mail addresses in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from dragoman.documents.transfer.addresses import find_addresses, may_have_addresses

DAY: Final = r"(?:dd?|DD?|MM?|mm|yyyy|YYYY|yy|YY)"
TIME: Final = r"(?:HH?|hh?):mm(?::ss(?:[.,]SSS)?)?(?:Z|XXX)?"
DIRECTIVE: Final = r"%[-_0^\#]?[aAbBcCdDeFgGhHIjklmMnpPrRSTuUVwWxXyYzZ]"  # of strftime
NOT_PRINTF: Final = r"[bBHIjklmMPrRTUVwWyYZ]"  # those that are nothing else
DATES: Final = rf"""
      (?<!\d)(?<!\d\s)(?=(?:{DIRECTIVE}[-/:.,T\ ]{{0,3}}){{0,9}}?%[-_0^\#]?{NOT_PRINTF}(?![A-Za-zÀ-ɏ]))
        {DIRECTIVE}(?:[-/:.,T\ ]{{0,3}}{DIRECTIVE}){{0,9}}Z?(?![A-Za-zÀ-ɏ])     # %Y-%m-%d, %B %d
    | (?<![\w/.-])(?=[DdMmYy/.-]{{0,8}}?(?:yyyy|YYYY|MM)){DAY}(?:[-/.]{DAY}){{1,2}}
        (?:(?:'T'|T){TIME})?(?![\w/])                                      # yyyy-MM-dd
    | (?<!\w)(?:(?:EEEE?|dddd?),?\ )?(?:[dD]{{1,2}}\.?\ MMMM?|MMMM?\ [dD]{{1,2}},?)\ (?:yyyy|YYYY)(?!\w)
    | (?<![\w:]){TIME}(?:\ [aA])?(?!:?\w)                                # HH:mm:ss
    """
# of printf, after % or %1$
CONVERSION: Final = r"""[-+0\#']{0,3}(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|L|q|j|z|t)?[diouxXeEfFgGaAcCsSpn@]"""
PLACEHOLDER: Final = re.compile(
    DATES
    + r"""
    | \{\{[^{}]{1,80}\}\}                                             # {{x}}
    | \{(?:%[^{}]{1,200}%|\#\s[^{}]{1,200}\s\#)\}                        # {% if x %}, {# a comment #}
    | <%(?:(?!<%|%>)[\s\S]){1,200}%>                                    # <%= x %>
    | <\?(?:(?!<\?|\?>)[\s\S]){1,200}\?>                                # <?= $x ?>
    | [$\#%]\{[^{}\s][^{}]{0,78}\}                                     # ${x}, #{x}, %{x}
    | \{(?:[^\W\d][\w.\-\[\]]*|\d+)?(?:![rsa])?(?:\s*:[^{}\s]{0,20}|,\s*(?:number|date|time)[^{}]{0,40})?\}  # {name}
    | \{\d+\s*,\s*choice\s*,(?:[^{}]|\{[^{}]*\}){0,300}\}                # {0,choice,0#none|1#one}
    | %(?:\d+\$|\([^()\s]{1,60}\))"""
    + CONVERSION
    + r"""                                                             # %1$d, %(name)s
    | %%[^\W\d]\w{0,40}%%                                              # %%name%%
    | %[^\W\d][\w.]{1,40}%(?![0-9_A-Za-zÀ-ɏ])                          # %name%
    | (?<!\d)(?<!\d\s)%[sdiu@](?![A-Za-zÀ-ɏ]{3})                       # %s, %d, v%s, %dMB, but not 9%safe, %user
    | (?<!\d)%"""
    + CONVERSION
    + r"""(?![A-Za-zÀ-ɏ])                                             # %05.2f, %ld, 0x%02x
    | (?<!(?<![%L])\d)(?<!(?<![%L])\d\s)%L?[1-9]\d?(?!\d|[.,]\d)        # %1, not 50 %1
    | (?:(?<![\d.,])\d{1,9}(?:[.,]\d{1,9})?)?%%                                           # 100%%
    | </?[\#@][a-z][^<>]{0,200}>                                       # <#if x>
    | \[\[[\w.:-]{1,60}\]\]                                             # [[name]]
    | </?\d{1,3}\s*/?>                                                 # <0>, </0>, <1/>
    | _x[0-9A-Fa-f]{4}_                                                # a character in Office files
    | \$t\([^()]{1,80}\)                                               # $t(key)
    | (?<![\w$])\$[A-Za-z_]\w{0,40}\$(?!\w)                              # $DATE$
    | \*\|[^\s|*][^|*]{0,80}\|\*                                        # *|FNAME|*
    | (?<![\w`])```(?!`)[\s\S]{1,4000}?```(?![\w`])                     # ```code```, also of several lines
    | (?<![\w`])(?::[a-z][\w:.+-]{0,40}:)?``(?![\s`])[^`\n]{0,200}(?<!\s)``(?![\w`])   # ``code``
    | (?<![\w`])(?::[a-z][\w:.+-]{0,40}:)?`(?![\s`])[^`\n]{0,200}(?<!\s)`_{0,2}(?![\w`])  # :ref:`name`
    | (?<![\w-])--[a-z][\w-]{1,60}(?:=[^\s<>"'{}|\\^`,;]{1,200}(?<![.:!?)\]]))?        # --output=x
    | (?:https?|ftp|file|mailto|tel):(?://)?[^\s<>"'{}|\\^`“”„«»]+[^\s<>"'{}|\\^`“”„«».,;:!?)\]]
    | (?<![\w.])www\.[^\s<>"'{}|\\^`“”„«»]+[^\s<>"'{}|\\^`“”„«».,;:!?)\]]
    | (?<![\w.+-])[\w][\w.+-]*@[\w-]+(?:\.[\w-]+)*\.[^\W\d_]{2,}(?![\w@])
    | (?<![\w@/.%-])@[A-Za-z](?:[\w-]{0,60}\w)?(?![\w@])                # @user
    | (?<![\w@])@(?:\.[a-z]{1,20})?:[A-Za-z][\w.]{0,80}\w             # @:common.save
    | (?<![\w:]):(?:[a-z][a-z0-9_+-]{0,40}|[+-]1):(?!\w)                # :smile:
    """,
    re.VERBOSE,
)
# in strings of programs: :count, and braces that are quoted by the rules of ICU
ARGUMENT: Final = re.compile(
    r"""(?<![^\s(\["'>]):[a-z][a-z0-9_]{1,40}(?![\w:])|(?<!')'(?:\{[^{}'\n]{1,80}\}|[{}])'(?!')"""
)
NUMBERED: Final = re.compile(r"%L?\d{1,2}")
FIRST_NUMBERED: Final = re.compile(r"%L?1(?!\d)")
# in the placeholders that have none of the characters of `may_have_symbols`
COLON: Final = re.compile(r"(?:https?|ftp|file|mailto|tel):|:(?:[a-z][a-z0-9_+-]*|[+-]1):|[Hh]:mm")
PERCENT: Final = re.compile(r"%(?:[^\W_]|[-+({@#*'^%]|\.\d)")  # not 50 %, which is frequent
OPTION: Final = re.compile(r"--[a-z]")


def find_placeholders(text: str, program: bool = False) -> Iterator[tuple[int, int]]:
    """Start and end of each placeholder, URL, file name and e-mail address of a text.

    `:count`, and `%2` without `%1`, are placeholders only in the strings of a `program`; `%50` may be Turkish for 50 %.
    """
    found = list[tuple[int, int]]()
    if may_have_symbols(text):
        numbered = program or FIRST_NUMBERED.search(text)
        places = (one.span() for one in PLACEHOLDER.finditer(text))
        found += (place for place in places if numbered or not NUMBERED.fullmatch(text, *place))
    if program and may_have_arguments(text):
        found += (one.span() for one in ARGUMENT.finditer(text))
    if may_have_addresses(text):
        found += find_addresses(text)
    place = 0
    for start, end in sorted(found, key=lambda one: (one[0], -one[1])):
        if start >= place:  # a part of what begins before it is not found again
            yield start, end
            place = end


def has_placeholders(text: str) -> bool:
    """Whether a text has a placeholder, a URL, a file name or an e-mail address."""
    return may_have_placeholders(text) and next(find_placeholders(text), None) is not None


def may_have_placeholders(text: str, program: bool = False) -> bool:
    """False for nearly all texts without a placeholder; faster than to look for one."""
    return may_have_symbols(text) or may_have_addresses(text) or (program and may_have_arguments(text))


def may_have_arguments(text: str) -> bool:
    """The same for placeholders of strings of programs alone."""
    return ":" in text or "'{" in text or "'}" in text


def may_have_symbols(text: str) -> bool:
    """The same for those that are not addresses."""
    # a search for one character is ten times as fast as a pattern, and three times as fast as one for several
    if "{" in text or "@" in text or "<" in text or "_" in text or "$" in text or "`" in text or "www." in text:
        return True
    if ("|" in text and "*|" in text) or ("[" in text and "[[" in text):
        return True
    if ("Y" in text and "YYYY" in text) or ("M" in text and "MM" in text):
        return True
    if ("%" in text and PERCENT.search(text)) or ("-" in text and "--" in text and OPTION.search(text)):
        return True
    return "yyyy" in text or (":" in text and COLON.search(text) is not None)
