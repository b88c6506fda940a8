"""fairseq's vocabularies: dict.xx.txt for each language."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

from dragoman.conversion.source_checkpoint import DamagedSourceError, read_bytes
from dragoman.conversion.vocabulary import SpecialIds, VocabularyMapping, map_vocabulary
from dragoman.errors import ConversionError
from dragoman.values import render_value

FAIRSEQ_SPECIAL_TOKENS: Final = ("<s>", "<pad>", "</s>", "<unk>")
LANGUAGE_NAME: Final = r"[\w-][\w.-]{0,63}"
BOS, PAD, EOS, UNK = range(4)


def dictionary_file(path: Path, directory: Path | None, language: Any) -> Path:
    """dict.xx.txt, next to the checkpoint or in `directory`."""
    if not isinstance(language, str) or not re.fullmatch(LANGUAGE_NAME, language):
        raise DamagedSourceError(path, f"has the language {render_value(language)}; expected a code such as 'de'")
    found = (directory if directory is not None else path.parent) / f"dict.{language}.txt"
    if not found.is_file():
        raise ConversionError(
            f"the dictionary {found} is missing; give the directory of the binarized data as `vocabulary`",
            code="file_missing",
        )
    return found


def read_dictionary(file: Path) -> list[str]:
    """Read the tokens of a dictionary in the order of their ids; the four special tokens are not in the file."""
    try:
        lines = read_bytes(file).decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ConversionError(f"{file} is not UTF-8 ({error}); copy it again", code="not_utf8") from None
    names = list(FAIRSEQ_SPECIAL_TOKENS)
    for number, line in enumerate(lines, start=1):
        name, _, count = line.rstrip().removesuffix(" #fairseq:overwrite").rpartition(" ")
        if not count.isdecimal() or not name:
            raise DamagedSourceError(file, f"has {render_value(line)} in line {number}; expected a token and its count")
        names.append(name)
    if len({*names}) != len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise ConversionError(
            f"{file} has the token {render_value(twice)} twice; copy it again", code="duplicate_token"
        )
    return names


def map_dictionary(names: list[str]) -> VocabularyMapping:
    """Map a dictionary to our order: the decoder starts with EOS, and <s> decodes to nothing."""
    shown = ["<fairseq's s>" if i == BOS else name for i, name in enumerate(names)]
    return map_vocabulary(shown, SpecialIds(PAD, EOS, EOS, UNK), silent=(BOS,))
