"""Rules for markdown-it: what site generators and Pandoc add to Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

NOTE_OR_LINK: Final = re.compile(r"\[\^[^\]\s]+\]:[ \t]*|\[[^\]]+\]:\s")  # of a footnote or a link
FORMULA: Final = re.compile(r"\$\$[^$`]+\$\$|(?<![\w$])\$(?=[^\s$`])[^$`]*(?<=\S)\$(?![\w$])")  # `$(pwd)` is code
TEMPLATE: Final = re.compile(r"(?:\{\{[^{}`\n]{1,80}\}\}|\{%[^{}`\n]{1,200}%\})+")  # templates are filled in first
ATTRIBUTES: Final = re.compile(r"(?<=[\])*_`])\{:?[ \t]*(?:[#.]|[\w:-]+=)[^{}\n]*\}")  # of what ends before them


def add_rules(parser: MarkdownIt) -> None:
    """Let a parser find formulas, templates, attributes, spans with attributes and footnotes."""
    parser.inline.ruler.before("escape", "formula", inline_rule("formula", FORMULA))
    parser.inline.ruler.before("escape", "template", inline_rule("template", TEMPLATE))
    parser.inline.ruler.before("escape", "attributes", inline_rule("attributes", ATTRIBUTES))
    parser.inline.ruler.after("link", "span", span_rule)
    parser.block.ruler.before("reference", "footnote", footnote_rule, {"alt": ["paragraph", "reference"]})


def inline_rule(kind: str, pattern: re.Pattern[str]) -> Callable[[StateInline, bool], bool]:
    """A rule for markdown-it: text, such as a formula between dollar signs, in which nothing else is markup."""

    def rule(state: StateInline, silent: bool) -> bool:
        found = pattern.match(state.src, state.pos, state.posMax)
        if found is None:
            return False
        if not silent:
            state.push(kind, "", 0).content = found[0]
        state.pos = found.end()
        return True

    return rule


def span_rule(state: StateInline, silent: bool) -> bool:
    """A rule for markdown-it: text in brackets with attributes, `[a span]{.class}`."""
    if silent or state.src[state.pos] != "[" or "]{" not in state.src:  # a span does not end the label of a link
        return False
    start, last, end = state.pos, state.posMax, state.md.helpers.parseLinkLabel(state, state.pos)
    if end < 0 or not ATTRIBUTES.match(state.src, end + 1, last):
        return False
    state.push("span_open", "", 1)
    state.pos, state.posMax = start + 1, end
    state.md.inline.tokenize(state)
    state.push("span_close", "", -1)
    state.pos, state.posMax = end + 1, last
    return True


def footnote_rule(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """A rule for markdown-it: a footnote has blocks, like an item of a list; those after the first are indented."""

    def definition(number: int) -> re.Match[str] | None:
        return NOTE_OR_LINK.match(state.src, state.bMarks[number] + state.tShift[number], state.eMarks[number])

    found = definition(first)
    if found is None or not found[0].startswith("[^") or state.is_code_block(first):
        return False
    if silent:
        return True
    indent, end = state.blkIndent + 4, first + 1
    while end < last and (
        state.isEmpty(end) or state.sCount[end] >= indent or not (state.isEmpty(end - 1) or definition(end))
    ):
        end += 1
    before = state.bMarks[first], state.tShift[first], state.sCount[first], state.blkIndent, state.lineMax
    state.bMarks[first], state.tShift[first], state.sCount[first] = found.end(), 0, indent
    state.blkIndent, state.lineMax, state.level = indent, end, state.level + 1
    state.md.block.tokenize(state, first, end)
    state.bMarks[first], state.tShift[first], state.sCount[first], state.blkIndent, state.lineMax = before
    state.line = max(first + 1, state.line)  # a block that is not indented ends it earlier
    state.level -= 1
    return True
