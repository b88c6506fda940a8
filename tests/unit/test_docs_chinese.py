"""The Chinese pages keep step with the English ones: headings, code, tables, links and numbers."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))
from chinese import join_lines, search_words  # noqa: E402

CHINESE_PAGES = sorted((ROOT / "docs" / "zh").rglob("*.md"))
ENGLISH_OF = {
    "README.zh-CN.md": "README.md",
    **{name: name.replace("docs/zh/", "docs/") for name in (str(page.relative_to(ROOT)) for page in CHINESE_PAGES)},
}
CHINESE_OF = {english: chinese for chinese, english in ENGLISH_OF.items()}
PAIRS = [(english, chinese) for chinese, english in ENGLISH_OF.items() if english != "docs/index.md"]
TRANSLATED_COMMENTS = {"README.md", "README.zh-CN.md"}
IN_CHINESE = {"1.13 million": "113 万"}
MARKDOWN = MarkdownIt("commonmark").enable("table")


@dataclass(frozen=True)
class Outline:
    """What two pages in different languages have in common."""

    headings: list[str]
    code: list[str]
    tables: list[list[str]]  # of each row, its numbers and code
    links: list[str]
    numbers: list[str]

    @classmethod
    def of(cls, name: str, text: str) -> Self:
        """Parse the page `name`."""
        tokens = MARKDOWN.parse(text)
        code = [token.content for token in tokens if token.type in ("fence", "code_block")]
        if name in TRANSLATED_COMMENTS:
            code = [re.sub(r" +# .*", "", block) for block in code]
        prose = [child for token in tokens for child in token.children or () if child.type in ("text", "code_inline")]
        return cls(
            headings=[token.tag for token in tokens if token.type == "heading_open"],
            code=code,
            tables=rows(tokens),
            links=sorted(english_target(name, link) for link in targets(tokens)),
            numbers=sorted(number for child in prose for number in numbers_in(child.content)),
        )


def numbers_in(text: str) -> list[str]:
    """The numbers of a text, with signs of percent, without those that are part of a name."""
    for english, chinese in IN_CHINESE.items():
        text = text.replace(english, chinese)
    return re.findall(r"(?<![A-Za-z\d])\d+(?:[.,]\d+)*(?: ?%)?", text)


def rows(tokens: list[Token]) -> list[list[str]]:
    """The numbers and the code in each row of the tables."""
    found: list[list[str]] = []
    for token in tokens:
        if token.type == "tr_open":
            found.append([])
        elif found and token.type == "inline" and token.level >= 4:  # in a cell
            for child in token.children or ():
                found[-1] += [child.content] if child.type == "code_inline" else numbers_in(child.content)
    return found


def targets(tokens: list[Token]) -> list[str]:
    """Where the links and pictures lead."""
    attributes = {"link_open": "href", "image": "src"}
    children = [child for token in tokens for child in token.children or ()]
    return [str(child.attrs[attributes[child.type]]) for child in children if child.type in attributes]


def resolve(name: str, link: str) -> str:
    """The file that a link of the page `name` leads to, from the root of the repository."""
    return os.path.normpath(Path(name).parent / link.split("#")[0])


def english_target(name: str, link: str) -> str:
    """Where a link leads, in its English version if there are two."""
    if re.match(r"[a-z]+:", link):
        return link
    path, mark, anchor = resolve(name, link), *link.partition("#")[1:]
    return ENGLISH_OF.get(path, path) + mark + anchor


def differences(english: Outline, chinese: Outline) -> list[str]:
    """The names of the parts that are not the same."""
    return [part.name for part in fields(Outline) if getattr(english, part.name) != getattr(chinese, part.name)]


def outline(name: str) -> Outline:
    """The outline of a file of the repository."""
    return Outline.of(name, (ROOT / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize(("english", "chinese"), PAIRS, ids=[chinese for _, chinese in PAIRS])
def test_the_pages_are_in_step(english: str, chinese: str) -> None:
    ours, theirs = outline(english), outline(chinese)
    for part in fields(Outline):
        assert getattr(ours, part.name) == getattr(theirs, part.name)


def test_the_pages_that_must_be_there_are() -> None:
    tutorials = {f"docs/tutorial/{page.name}" for page in (ROOT / "docs" / "tutorial").glob("*.md")}
    assert {"README.md", "docs/explanation/paper.md", *tutorials} == {english for english, _ in PAIRS}


@pytest.mark.parametrize("name", ENGLISH_OF)
def test_links_lead_to_chinese_pages_where_there_are_some(name: str) -> None:
    links = targets(MARKDOWN.parse((ROOT / name).read_text(encoding="utf-8")))
    files = [resolve(name, link) for link in links if not re.match(r"[a-z]+:", link)]
    assert all((ROOT / file).exists() for file in files)
    in_english = {file for file in files if file in CHINESE_OF}
    assert in_english == {ENGLISH_OF[name]}  # the link at the top


@pytest.mark.parametrize("name", ENGLISH_OF)
def test_the_typography_is_chinese(name: str) -> None:
    tokens = MARKDOWN.parse((ROOT / name).read_text(encoding="utf-8"))
    han = r"[\u4e00-\u9fff]"
    for token in tokens:
        text = "".join(
            "\n" if child.type == "softbreak" else child.content
            for child in token.children or ()
            if child.type in ("text", "code_inline", "softbreak")
        )
        wrong = rf"{han}[A-Za-z0-9]|[A-Za-z0-9%]{han}|{han} ?[,;:?!]|{han}\.(?!\w)|\*\*|{han}\n{han}"
        assert re.findall(rf".{{0,9}}(?:{wrong}).{{0,9}}", text) == []


ENGLISH_PAGE = """# Title

It has 20,000 pairs and `a/b.py`, see [the index](index.md).

## One

    $ dragoman translate my-model

| file | share |
|---|---|
| `a.py` | 12.5 % |
"""
CHINESE_PAGE = """# 标题

有 20,000 个句对和 `a/b.py`，见[首页](index.md)。

## 第一节

    $ dragoman translate my-model

| 文件 | 占比 |
|---|---|
| `a.py` | 12.5 % |
"""


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("Title", "Another title", []),
        ("## One", "## One\n\n## Two", ["headings"]),
        ("## One", "### One", ["headings"]),
        ("my-model", "my-model --beam 4", ["code"]),
        ("    $ dragoman", "```\nx = 1\n```\n\n    $ dragoman", ["code"]),
        ("| `a.py` | 12.5 % |\n", "| `a.py` | 12.5 % |\n| `b.py` | much |\n", ["tables"]),
        ("12.5 %", "12.6 %", ["tables", "numbers"]),
        ("`a.py`", "`b.py`", ["tables"]),
        ("(index.md)", "(howto/data.md)", ["links"]),
        ("(index.md)", "(index.md#one)", ["links"]),
        ("20,000", "30,000", ["numbers"]),
    ],
)
def test_a_change_of_the_english_page_is_found(old: str, new: str, found: list[str]) -> None:
    assert old in ENGLISH_PAGE
    chinese = Outline.of("docs/zh/page.md", CHINESE_PAGE.replace("(index.md)", "(../index.md)"))
    assert differences(Outline.of("docs/page.md", ENGLISH_PAGE), chinese) == []
    assert differences(Outline.of("docs/page.md", ENGLISH_PAGE.replace(old, new)), chinese) == found


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("甲，\n乙", "甲，乙"),
        ("甲。\nBLEU", "甲。BLEU"),
        ("- 甲，\n  [乙](b.md)", "- 甲，[乙](b.md)"),
        ("甲\nBLEU", "甲\nBLEU"),
        ("BLEU\n甲", "BLEU\n甲"),
        ("甲。\n\n乙。", "甲。\n\n乙。"),
        ("- 甲。\n- 乙。", "- 甲。\n- 乙。"),
        ("甲：\n```\nx\n```", "甲：\n```\nx\n```"),
        ("| 甲：\n| 乙", "| 甲：\n| 乙"),
    ],
)
def test_line_breaks_in_chinese_are_no_spaces(text: str, joined: str) -> None:
    assert join_lines(text) == joined


def test_search_knows_chinese_by_pairs_of_characters() -> None:
    assert search_words("用束搜索，beam_4 层") == ["用束", "束搜", "搜索", "beam_4", "层"]
    assert set(search_words("束搜索")) <= set(search_words("用束搜索"))
