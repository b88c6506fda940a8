"""DrawingML: text in slides, shapes, diagrams and charts of all Office Open XML documents."""

from __future__ import annotations

import re
from typing import Final

from dragoman.documents.formats.office.package import PROPERTIES
from dragoman.documents.formats.office.rules import Rules, names

ALTERNATIVE_TEXTS: Final = names("descr title")
DRAWING: Final = Rules(
    paragraphs=names("a:p"),
    strings=names("c:v"),
    runs=names("a:r"),
    properties=names("a:rPr"),
    texts=names("a:t"),
    breaks=names("a:br"),
    protected=names("a:fld"),
    skipped=names("c:numCache c:numLit"),
    attributes=dict.fromkeys(("p:cNvPr", "xdr:cNvPr"), ALTERNATIVE_TEXTS),
    insignificant=re.compile(r'\s(?:lang|altLang|dirty|err|noProof|smtClean|bmk)="[^"]*"'),
)
DRAWING_PARTS: Final = {  # patterns of content types
    r"drawingml\.chart\+xml$": DRAWING,
    r"drawingml\.chartshapes\+xml$": DRAWING,
    r"drawingml\.diagramData\+xml$": DRAWING,
    r"drawingml\.diagramDrawing\+xml$": DRAWING,
    r"core-properties\+xml$": PROPERTIES,
}
