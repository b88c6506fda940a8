"""The ids that mean something other than a token of text; the same in every vocabulary."""

from __future__ import annotations

from typing import Final

PAD: Final = 0
BOS: Final = 1
EOS: Final = 2
UNK: Final = 3
N_SPECIAL: Final = 4
