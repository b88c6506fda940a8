"""The languages that a document declares: those of the source become those of the translation; others stay."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from dragoman.documents.edits import Edit

Script = Literal["western", "asian", "complex"]


def codes(text: str) -> frozenset[str]:
    """A set of codes."""
    return frozenset(text.split())


ASIAN: Final = codes("zh ja ko")
COMPLEX: Final = codes("ar fa ur he yi ps sd ug dv th lo km my hi bn ta te ml kn gu pa mr ne si bo")
USUAL_REGIONS: Final = codes("""
af-ZA am-ET ar-SA az-AZ be-BY bg-BG bn-BD bs-BA ca-ES cs-CZ cy-GB da-DK de-DE el-GR en-US es-ES et-EE eu-ES fa-IR fi-FI
fr-FR ga-IE gl-ES gu-IN he-IL hi-IN hr-HR hu-HU hy-AM id-ID is-IS it-IT ja-JP ka-GE kk-KZ km-KH kn-IN ko-KR lo-LA lt-LT
lv-LV mk-MK ml-IN mn-MN mr-IN ms-MY mt-MT my-MM nb-NO ne-NP nl-NL nn-NO pa-IN pl-PL ps-AF pt-PT ro-RO ru-RU si-LK sk-SK
sl-SI sq-AL sr-RS sv-SE sw-KE ta-IN te-IN th-TH tr-TR uk-UA ur-PK uz-UZ vi-VN zh-CN zu-ZA
""")
REGIONS: Final[Mapping[str, str]] = {code[:2]: code[3:] for code in USUAL_REGIONS}
ATTRIBUTE: Final = r"""\s{name}\s*=\s*(?:"([^"<]*)"|'([^'<]*)')"""


def primary(code: str) -> str:
    """The language of a code, without script and region: "pt" of "pt-BR" and "pt_BR"."""
    return code.strip().lower().replace("_", "-").split("@")[0].split("-")[0]


def script_of(code: str) -> Script:
    """The group of scripts that office formats keep languages for."""
    return "asian" if primary(code) in ASIAN else "complex" if primary(code) in COMPLEX else "western"


@dataclass(frozen=True)
class LanguageChange:
    """From the language of a document to that of its translation; false if one of them is not known."""

    source: str
    target: str

    def __bool__(self) -> bool:
        return bool(self.source and self.target) and primary(self.source) != primary(self.target)

    def declares_source(self, code: str | None) -> bool:
        """Whether a declared language is that of the source."""
        return bool(self and code) and primary(code or "") == primary(self.source)

    @property
    def tag(self) -> str:
        """The target as a language tag, such as de or pt-BR."""
        return self.target.replace("_", "-")

    @property
    def regional(self) -> tuple[str, str]:
        """The target's language and region, which spelling checkers need; the usual region if it is not given."""
        language, *rest = self.tag.split("-")
        region = next((part.upper() for part in rest if len(part) in (2, 3) and part.isalnum()), "")
        return language, region or REGIONS.get(primary(language), "")

    @property
    def regional_tag(self) -> str:
        """The target with its region, such as de-DE."""
        return "-".join(filter(None, self.regional))


NO_CHANGE: Final = LanguageChange("", "")


def attribute(tag: str, name: str) -> str | None:
    """The value of an attribute of a tag."""
    found = re.search(ATTRIBUTE.format(name=re.escape(name)), tag)
    return None if found is None else found[1] if found[1] is not None else found[2]


def set_attribute(tag: str, name: str, value: str) -> str:
    """A tag with the value of an attribute replaced, or with the attribute added."""
    found = re.search(ATTRIBUTE.format(name=re.escape(name)), tag)
    if found is not None:
        start, end = found.span(1 if found[1] is not None else 2)
        return tag[:start] + value + tag[end:]
    end = len(tag.removesuffix(">").removesuffix("/").rstrip())
    return f'{tag[:end]} {name}="{value}"{tag[end:]}'


def tag_edits(text: str, tags: re.Pattern[str], change: Callable[[str], str]) -> list[Edit]:
    """Edits for the tags of a text that `change` makes different."""
    found = ((one.start(), one.end(), change(one[0])) for one in tags.finditer(text))
    return [(start, end, new) for start, end, new in found if new != text[start:end]]


def element_edits(text: str, name: str, language: LanguageChange) -> list[Edit]:
    """Edits for elements such as `<dc:language>en-US</dc:language>`."""
    pattern = re.compile(rf"<{name}(?:\s[^<>]*)?>\s*([\w-]+)\s*</{name}\s*>")
    return [(*found.span(1), language.tag) for found in pattern.finditer(text) if language.declares_source(found[1])]
