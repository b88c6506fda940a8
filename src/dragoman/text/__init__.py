"""Text to ids and back (section 5.1): one normalizer, three kinds of learned tokens, one base class."""

from __future__ import annotations

from dragoman.text.normalization import normalize
from dragoman.text.special_tokens import BOS, EOS, N_SPECIAL, PAD, UNK
from dragoman.text.store import load_tokenizer
from dragoman.text.tokenizer import Tokenizer, vocabulary_sizes

__all__ = [
    "BOS",
    "EOS",
    "N_SPECIAL",
    "PAD",
    "UNK",
    "Tokenizer",
    "load_tokenizer",
    "normalize",
    "vocabulary_sizes",
]
