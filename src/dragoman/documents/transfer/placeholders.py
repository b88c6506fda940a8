"""Find placeholders, URLs and e-mail addresses in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

PLACEHOLDER: Final = re.compile(
    r"""
      \{\{[^{}]{1,80}\}\}                                             # {{x}}
    | \{(?:%[^{}]{1,200}%|\#\s[^{}]{1,200}\s\#)\}                        # {% if x %}, {# a comment #}
    | <%(?:(?!<%|%>)[\s\S]){1,200}%>                                    # <%= x %>
    | <\?(?:(?!<\?|\?>)[\s\S]){1,200}\?>                                # <?= $x ?>
    | [$\#%]\{[^{}\s][^{}]{0,78}\}                                     # ${x}, #{x}, %{x}
    | \{(?:[^\W\d][\w.\-\[\]]*|\d+)?(?:![rsa])?(?:\s*:[^{}\s]{0,20}|,\s*(?:number|date|time)[^{}]{0,40})?\}  # {name}
    | \{\d+\s*,\s*choice\s*,(?:[^{}]|\{[^{}]*\}){0,300}\}                # {0,choice,0#none|1#one}
    | %(?:\d+\$|\([^()\s]{1,60}\))[-+0\#']{0,3}(?:\d+|\*)?(?:\.(?:\d+|\*))?
        (?:hh|h|ll|l|L|q|j|z|t)?[diouxXeEfFgGaAcCsSpn@]                # %1$d, %(name)s
    | %[^\W\d]\w{1,40}%(?![0-9_A-Za-zÀ-ɏ])                            # %name%
    | (?<!\d)(?<!\d\s)%[sdiu@](?![A-Za-zÀ-ɏ]{3})                       # %s, %d, v%s, %dMB, but not 9%safe, %user
    | (?<!\d)%[-+0\#']{0,3}(?:\d+|\*)?(?:\.(?:\d+|\*))?
        (?:hh|h|ll|l|L|q|j|z|t)?[diouxXeEfFgGaAcCsSpn@](?![A-Za-zÀ-ɏ])  # %05.2f, %ld, 0x%02x
    | (?:(?<![\d.,])\d{1,9}(?:[.,]\d{1,9})?)?%%                                           # 100%%
    | </?\d{1,3}\s*/?>                                                 # <0>, </0>, <1/>
    | _x[0-9A-Fa-f]{4}_                                                # a character in Office files
    | \$t\([^()]{1,80}\)                                               # $t(key)
    | (?:https?|ftp|file|mailto|tel):(?://)?[^\s<>"'{}|\\^`]+[^\s<>"'{}|\\^`.,;:!?)\]]
    | (?<![\w.])www\.[^\s<>"'{}|\\^`]+[^\s<>"'{}|\\^`.,;:!?)\]]
    | (?<![\w.+-])[\w][\w.+-]*@[\w-]+(?:\.[\w-]+)*\.[^\W\d_]{2,}(?![\w@])
    | (?<![\w@/.%-])@[A-Za-z](?:[\w-]{0,60}\w)?(?![\w@])                # @user
    | (?<![\w:]):(?:[a-z][a-z0-9_+-]{0,40}|[+-]1):(?!\w)                # :smile:
    """,
    re.VERBOSE,
)
# in the placeholders that have none of the characters of `may_have_placeholders`
COLON: Final = re.compile(r"(?:https?|ftp|file|mailto|tel):|:(?:[a-z][a-z0-9_+-]*|[+-]1):")


def find_placeholders(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each placeholder, URL and e-mail address of a text."""
    for found in PLACEHOLDER.finditer(text) if may_have_placeholders(text) else ():
        yield found.start(), found.end()


def has_placeholders(text: str) -> bool:
    """Whether a text has a placeholder, a URL or an e-mail address."""
    return may_have_placeholders(text) and PLACEHOLDER.search(text) is not None


def may_have_placeholders(text: str) -> bool:
    """False for nearly all texts without a placeholder; faster than to look for one."""
    # a search for one character is ten times as fast as a pattern
    if "{" in text or "%" in text or "@" in text or "<" in text or "_" in text or "$" in text or "www." in text:
        return True
    return ":" in text and COLON.search(text) is not None
