"""How files with two languages say where a translation comes from, and that nobody has reviewed it."""

from __future__ import annotations

from typing import Final

CREATION_TOOL: Final = "dragoman"  # of variants in TMX
# of targets in XLIFF 1.2
MT_STATE: Final = {"state": "needs-review-translation", "state-qualifier": "leveraged-mt"}
MEMORY_STATE: Final = {"state": "translated", "state-qualifier": "exact-match"}
MT_QUALIFIERS: Final = frozenset(("leveraged-mt", "mt-suggestion"))
# of segments in XLIFF 2; programs that change the state replace or remove the sub-state
MT_SUB_STATE: Final = "dragoman:leveraged-mt"
MT_SEGMENT: Final = {"state": "translated", "subState": MT_SUB_STATE}
MEMORY_SEGMENT: Final = {"state": "translated", "subState": "dragoman:exact-match"}
