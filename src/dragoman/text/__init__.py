"""Text to ids and back (section 5.1): one normaliser, three ways to learn pieces, one protocol."""

from __future__ import annotations

from dragoman.text.brackets import Bracketing, read_brackets
from dragoman.text.learning import learn
from dragoman.text.linearised import bracket_line, lay_brackets
from dragoman.text.normalise import normalise
from dragoman.text.special import BOS, EOS, N_SPECIAL, PAD, UNK
from dragoman.text.store import load_tokeniser
from dragoman.text.tokeniser import Tokeniser, vocabulary_sizes
from dragoman.text.trees import Tree, read_trees

__all__ = [
    "BOS",
    "EOS",
    "N_SPECIAL",
    "PAD",
    "UNK",
    "Bracketing",
    "Tokeniser",
    "Tree",
    "bracket_line",
    "lay_brackets",
    "learn",
    "load_tokeniser",
    "normalise",
    "read_brackets",
    "read_trees",
    "vocabulary_sizes",
]
