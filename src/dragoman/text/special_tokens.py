"""The ids of special tokens, the same in every vocabulary."""

from __future__ import annotations

from typing import Final

PAD: Final = 0
BOS: Final = 1
EOS: Final = 2
UNK: Final = 3
N_SPECIAL: Final = 4
