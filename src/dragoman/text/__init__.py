"""Text to ids and back (section 5.1): one normalizer, three ways to learn tokens, one protocol."""

from __future__ import annotations

from dragoman.text.learn import learn
from dragoman.text.normalization import normalize
from dragoman.text.special_tokens import BOS, EOS, N_SPECIAL, PAD, UNK
from dragoman.text.store import load_tokenizer
from dragoman.text.tokenizer import Tokenizer, vocabulary_sizes
from dragoman.text.trees.constituency import Bracketing, read_brackets
from dragoman.text.trees.dependency import Tree, read_trees
from dragoman.text.trees.linearization import bracket_line, parse_bracket_line

__all__ = [
    "BOS",
    "EOS",
    "N_SPECIAL",
    "PAD",
    "UNK",
    "Bracketing",
    "Tokenizer",
    "Tree",
    "bracket_line",
    "learn",
    "load_tokenizer",
    "normalize",
    "parse_bracket_line",
    "read_brackets",
    "read_trees",
    "vocabulary_sizes",
]
