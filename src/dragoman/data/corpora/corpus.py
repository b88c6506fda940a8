"""A corpus: files of sentence pairs, how to read them, and their weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from dragoman.errors import DataError
from dragoman.text.token_table import is_language_code
from dragoman.values import MAX_WEIGHT, MIN_WEIGHT, describe_value, plural

Form = Literal["plain", "tsv", "jsonl", "tmx"]


@dataclass(frozen=True)
class Corpus:
    """One set of sentence pairs on disk, and the number of passes over it per epoch.

    Plain files hold one side each; in TSV, JSON lines and TMX `source` holds both and `target` is None. Keys are the
    names of the languages in JSON lines and TMX, and column numbers from 1 in TSV (without keys, a line has exactly two
    columns).
    `source_trees` is a CoNLL-U file with the tree of each non-empty source sentence. `alignment` is a file with the
    word alignment of each pair, such as 0-0 1-2, for guided alignment. For a model with several target languages,
    `to` is the language of all pairs, or `to_key` the key or column with the language of each pair.
    """

    source: Path
    target: Path | None = None
    form: Form = "plain"
    source_key: str = ""
    target_key: str = ""
    weight: float = 1.0
    source_trees: Path | None = None
    to: str = ""
    to_key: str = ""
    alignment: Path | None = None

    def __post_init__(self) -> None:
        """Reject fields that contradict each other; files may be given as str."""
        for side in ("source", "target", "source_trees", "alignment"):
            if isinstance(getattr(self, side), str):
                object.__setattr__(self, side, Path(getattr(self, side)))
        if not isinstance(self.source, Path) or not isinstance(self.target, Path | None):
            raise DataError(
                f"source and target must be paths, as in Corpus('train.en', 'train.de'); got {self.source!r} and "
                f"{self.target!r}",
                code="wrong_type",
            )
        if self.form not in get_args(Form):
            raise self._error(
                f"form={self.form!r} must be {', '.join(get_args(Form)[:-1])} or {get_args(Form)[-1]}",
                code="unknown_choice",
            )
        if not isinstance(self.weight, int | float):
            raise self._error(f"weight must be a number; got {self.weight!r}", code="wrong_type")
        if (self.target is None) == (self.form == "plain"):
            raise self._error(
                f"plain text needs a target file for each source; TSV, JSON lines and TMX have both sides "
                f"in one file; got form={self.form!r} with target={self.target}",
                code="missing_option",
            )
        if self.form == "jsonl" and not (self.source_key and self.target_key):
            raise self._error("JSON lines need a source key and a target key, such as en and de", code="missing_key")
        if self.form == "tmx" and not (self.source_key and self.target_key):
            raise self._error("TMX needs a source key and a target key, such as en and de", code="missing_key")
        if self.form != "plain" and self.source_key == self.target_key != "":
            raise self._error(
                f"source and target have the same key {self.source_key!r}; give two", code="duplicate_key"
            )
        if self.form == "tsv":
            for key in (self.source_key, self.target_key):
                if bool(self.source_key) != bool(self.target_key) or (key and not column_number(key)):
                    raise self._error(
                        f"keys must be two column numbers from 1 in TSV, such as 1 and 2; "
                        f"got {self.source_key!r} and {self.target_key!r}",
                        code="invalid_column",
                    )
        if not MIN_WEIGHT <= self.weight <= MAX_WEIGHT:
            raise self._error(
                f"weight must be from {MIN_WEIGHT} to {MAX_WEIGHT:,}; got {self.weight}", code="out_of_range"
            )
        self._check_language()

    def _error(self, problem: str, code: str) -> DataError:
        return DataError(f"{self.source}: {problem}", code=code)

    def _check_language(self) -> None:
        """Reject invalid target languages."""
        if self.to and not is_language_code(self.to):
            raise self._error(
                f"to={self.to!r} is not a language code; use letters, digits and hyphens, such as 'de' or 'zh-Hans'",
                code="invalid_language_code",
            )
        if self.to_key and self.form in ("plain", "tmx"):
            raise self._error(
                f"{self.form} files have no key {self.to_key!r}; give `to`, the language of all their pairs",
                code="conflicting_options",
            )
        if self.to and self.to_key:
            raise self._error(
                f"to={self.to!r} and to_key={self.to_key!r} cannot be combined; drop one", code="conflicting_options"
            )
        if self.form == "tsv" and self.to_key and not column_number(self.to_key):
            raise self._error(
                f"to_key={self.to_key!r} must be a column number of the TSV file, counted from 1", code="invalid_column"
            )
        if self.to_key and self.to_key in self._both_keys():
            raise self._error(
                f"to_key={self.to_key!r} is also the key of the source or target; give another", code="duplicate_key"
            )

    def _both_keys(self) -> tuple[str, str]:
        """The keys of both sides; the default is the first two columns of a TSV file with languages."""
        return (self.source_key, self.target_key) if self.source_key or not self.to_key else ("1", "2")

    @property
    def names_target(self) -> bool:
        """Whether the corpus names its target language."""
        return bool(self.to or self.to_key)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys or columns of a pair: both sides, and the language if each line names it; may be empty."""
        return (*self._both_keys(), self.to_key) if self.to_key else self._both_keys()

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of this corpus."""
        return tuple(path for path in (self.source, self.target, self.source_trees, self.alignment) if path is not None)

    @property
    def name(self) -> str:
        """The name of this corpus in reports."""
        return " + ".join(path.name for path in (self.source, self.target) if path is not None)


ValidationSets = Corpus | tuple[str | Path, str | Path] | Sequence[Corpus] | None


def plain_corpora(sources: Sequence[Path], targets: Sequence[Path], kind: str = "") -> list[Corpus]:
    """Plain files as corpora; `kind` is "validation " in messages about validation sets."""
    if len(sources) != len(targets):
        raise DataError(
            f"got {plural(len(sources), f'{kind}source file')} but {plural(len(targets), f'{kind}target file')}; "
            "give one target file for each source file",
            code="count_mismatch",
        )
    return [Corpus(*files) for files in zip(sources, targets, strict=True)]


def all_corpora(sources: Sequence[Path], targets: Sequence[Path], others: Sequence[Corpus]) -> list[Corpus]:
    """Plain files as corpora, followed by the other corpora; raise if the result is empty."""
    for each in others:
        if not isinstance(each, Corpus):
            raise DataError(f"corpora must be a list of Corpus; got {describe_value(each)}", code="wrong_type")
    found = [*plain_corpora(sources, targets), *others]
    if not found:
        raise DataError("no sentence pairs; give source and target files, TSV, JSON lines or TMX", code="no_data")
    return found


def validation_corpora(valid: ValidationSets) -> list[Corpus]:
    """The validation sets as corpora: one, several, or the files of one as a (source, target) pair."""
    items: list[Any] = [] if valid is None else [valid] if isinstance(valid, Corpus) else list(valid)
    if len(items) == 2 and all(isinstance(each, str | Path) for each in items):
        return [Corpus(Path(items[0]), Path(items[1]))]
    if not all(isinstance(each, Corpus) for each in items):
        raise DataError(
            f"valid must be a Corpus, a list of them, or a (source, target) pair of files; got {valid!r}",
            code="wrong_type",
        )
    return items


def column_number(key: str) -> bool:
    """Whether a key is the number of a column, from 1."""
    return key.isdecimal() and len(key) < 7 and int(key) > 0
