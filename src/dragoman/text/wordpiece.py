"""WordPiece: greedy longest match (Schuster and Nakajima, 2012; Wu et al., 2016).

As in Wu et al., the beginning of a word carries the mark ("▁wor", "k"), not its continuation ("wor", "##k"): decoding
is joining, and Chinese characters need not be in the vocabulary twice. The `tokenizers` library learns the vocabulary
and defines the file format; matching uses a trie here, because the library's time grows with the cube of a word's
length and it has no fallback to bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman.errors import NotATokenizerError
from dragoman.files import parse_json
from dragoman.text.normalization import MARK
from dragoman.text.subword_sampling.segmentation import DropStream
from dragoman.text.token_table import FIRST_LEARNED, byte_ids
from dragoman.text.tokenizer import SubwordTokenizer

Trie = dict[str, Any]
"""Character -> the trie below it; "" -> the id of the token that ends here."""


class WordPieceTokenizer(SubwordTokenizer):
    """A vocabulary, matched longest token first."""

    def __init__(self, kind: str, model: bytes, targets: Sequence[str] = ()) -> None:
        names = parse_vocabulary(model)
        super().__init__(kind, model, names, targets)
        self.trie: Trie = {}
        for number, name in enumerate(names[FIRST_LEARNED:], start=FIRST_LEARNED):
            node = self.trie
            for character in name.replace(MARK, " "):
                node = node.setdefault(character, {})
            node[""] = number

    def encode_marked(self, marked: str) -> list[int]:
        """Longest match first; a ▁ in the trie is always a space, so a ▁ of the text itself is encoded as bytes."""
        return self.match(marked)

    def sample_word(self, word: str, alpha: float, draws: DropStream) -> list[int]:
        """MaxMatch-dropout (Hiraoka, 2022): each token longer than a character is dropped with probability alpha."""
        return self.match(word, draws)

    def match(self, text: str, draws: DropStream | None = None) -> list[int]:
        """The ids of a text, each the longest token that is not dropped."""
        ids: list[int] = []
        start = 0
        while start < len(text):
            node, found, end = self.trie, None, start + 1
            for position in range(start, len(text)):
                node = node.get(text[position])  # type: ignore[assignment]
                if node is None:
                    break
                number = node.get("")
                if number is None or (draws is not None and position > start and draws.drops_next()):
                    continue
                found, end = number, position + 1
            if found is None:
                ids += byte_ids(text[start])
            else:
                ids.append(found)
            start = end
        return ids


def parse_vocabulary(model: bytes) -> list[str]:
    """The tokens of a `tokenizers` file, in the order of their ids."""
    try:
        table: dict[str, int] = parse_json(model)["model"]["vocab"]
        names = sorted(table, key=table.__getitem__)
        if [table[name] for name in names] != list(range(len(names))):
            raise ValueError("its ids are not 0, 1, 2, ...")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotATokenizerError(
            f"these {len(model)} bytes are not a WordPiece vocabulary of `tokenizers`: {error}"
        ) from None
    return names
