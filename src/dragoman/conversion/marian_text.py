"""The text of a Marian model: its vocabularies (`.spm`, `.yml`), subword models, and where the files are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final

from dragoman.conversion.files.marian_weights import is_marian_file
from dragoman.conversion.files.yaml_file import read_token_ids, read_yaml
from dragoman.conversion.from_marian import marian_language_tokens
from dragoman.conversion.imported_model import ImportOptions
from dragoman.conversion.source_checkpoint import UnsupportedSettingError, read_bytes
from dragoman.conversion.subword_model import SubwordModel, read_subword_model
from dragoman.conversion.vocabulary import SpecialIds, VocabularyMapping, map_vocabulary
from dragoman.errors import ConversionError, TextError
from dragoman.files import format_names
from dragoman.text.imported.segmentation import encode_model
from dragoman.text.sentencepiece import load_processor, token_names
from dragoman.text.token_table import SPECIAL_TOKENS
from dragoman.values import plural, render_value

TOOLKIT: Final = "Marian"
DECODER_CONFIGS: Final = ("decoder.yml", "config.yml", "config.intgemm8bitalpha.yml")
TEXT_VOCABULARIES: Final = ("*vocab*.yml", "*vocab*.yaml", "*vocab*.json")
SOURCE_NAMES, TARGET_NAMES = ("src", "source"), ("trg", "tgt", "target")
# The names of EOS and unknown, and those that Nematus gives to ids 0 and 1.
EOS_NAMES, UNKNOWN_NAMES = ("</s>", "eos"), ("<unk>", "UNK")


@dataclass(frozen=True)
class MarianFiles:
    """The files of a model: weights, vocabularies of source and target, and the config that names them, if any."""

    weights: Path
    vocabularies: tuple[Path, Path]
    config: Path | None


def locate_files(path: Path, options: ImportOptions) -> MarianFiles:
    """Find the files of a model, by the config that Marian writes for its decoder, or else by their names."""
    directory = path if path.is_dir() else path.parent
    written = [path.with_name(f"{path.name}.decoder.yml")] if path.is_file() else [*path.glob("*.decoder.yml")]
    places = [*(written if len(written) == 1 else ()), *(directory / name for name in DECODER_CONFIGS)]
    config = next((file for file in places if file.is_file()), None)
    settings = {} if config is None else read_yaml(config, TOOLKIT)
    if path.is_file():
        weights = path
    elif models := file_names(settings.get("models")):
        if len(models) > 1:
            raise UnsupportedSettingError(
                f"{config} lists an ensemble of {len(models)} models; import each by its file, and translate with "
                "`--ensemble`"
            )
        weights = directory / models[0]
    else:
        weights = choose_weights(directory)
    folder = options.vocabulary or directory
    listed = [folder / name for name in file_names(settings.get("vocabs"))]
    if len(listed) > 2:
        raise UnsupportedSettingError(
            f"{config} lists {len(listed)} vocabularies; only models with one source can be imported"
        )
    vocabularies = (listed[0], listed[-1]) if listed else find_vocabularies(folder)
    return MarianFiles(weights, vocabularies, config)


def file_names(listed: Any) -> list[str]:
    """The names in a list of paths; the files are looked for in one directory, never elsewhere."""
    return [PurePath(name).name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []


def choose_weights(directory: Path) -> Path:
    """The only model file of a directory."""
    found = [file for file in sorted(directory.iterdir()) if is_marian_file(file) and "optimizer" not in file.name]
    if len(found) != 1:
        raise ConversionError(
            f"{directory} has {format_names(found) or 'no model file of Marian (*.npz, *.bin)'}; give the file to "
            "import",
            code="several_checkpoints" if found else "file_missing",
        )
    return found[0]


def find_vocabularies(folder: Path) -> tuple[Path, Path]:
    """The vocabularies of a directory without a config: one for both sides, or one for each by their names."""
    found = [file for pattern in TEXT_VOCABULARIES for file in sorted(folder.glob(pattern))]
    found = found or sorted(folder.glob("*.spm"))
    if len(found) == 1:
        return found[0], found[0]
    sides = [[file for file in found if file.name.startswith(names)] for names in (SOURCE_NAMES, TARGET_NAMES)]
    if [*map(len, sides)] != [1, 1]:
        raise ConversionError(
            f"{folder} has {format_names(found) or 'no vocabulary'}; expected vocab.*.spm, srcvocab.*.spm and "
            "trgvocab.*.spm, or *vocab*.yml, or a decoder.yml that names the vocabularies",
            code="file_missing",
        )
    return sides[0][0], sides[1][0]


@dataclass(frozen=True)
class MarianVocabulary:
    """The tokens of one side in the order of their rows, the ids of EOS and unknown, and the subword model."""

    file: Path
    names: list[str]
    silent: list[int]  # rows without a token
    eos: int
    unknown: int
    subword: SubwordModel

    def mapping(self, languages: bool) -> VocabularyMapping:
        """Map the vocabulary to ours; padding and BOS, which Marian does not have, get rows of their own at the end."""
        size = len(self.names)
        names = [*self.names, "<padding row>", "<start row>"]
        special = SpecialIds(size, size + 1, self.eos, self.unknown)
        return map_vocabulary(names, special, marian_language_tokens(names) if languages else {}, self.silent)


def read_vocabulary(file: Path, rows: int, tokenizer: Path | None) -> MarianVocabulary:
    """Read the vocabulary of one side, whose tables have `rows` rows; `tokenizer` is a subword model given by users."""
    if file.suffix == ".fsv":
        raise UnsupportedSettingError(f"{file} is a factored vocabulary; models with factors cannot be imported")
    if file.suffix == ".spm":
        return read_sentencepiece_vocabulary(file, rows, tokenizer)
    ids = {token: number for token, number in read_token_ids(file).items() if number < rows}
    tokens: list[str | None] = [None] * rows
    for token, number in ids.items():
        if tokens[number] is not None:
            raise ConversionError(
                f"{file} gives the id {number} to {render_value(tokens[number])} and {render_value(token)}; copy it "
                "again",
                code="vocabulary_mismatch",
            )
        tokens[number] = token
    eos = special_id(file, tokens, EOS_NAMES, 0)
    unknown = special_id(file, tokens, UNKNOWN_NAMES, 1)
    return name_rows(file, tokens, eos, unknown, read_subword_model(tokenizer))


def read_sentencepiece_vocabulary(file: Path, rows: int, tokenizer: Path | None) -> MarianVocabulary:
    """Read a vocabulary that is a sentencepiece model, which also splits the text."""
    if tokenizer is not None:
        raise ConversionError(
            f"`tokenizer` has no effect: the vocabulary {file} is itself a sentencepiece model; drop it",
            code="unused_option",
        )
    content = read_bytes(file)
    try:
        processor = load_processor(content)
        tokens: list[str | None] = [*token_names(processor)]
    except TextError as error:
        raise ConversionError(f"{file}: {error}; copy it again", code="not_a_tokenizer") from None
    eos, unknown = processor.eos_id(), processor.unk_id()
    if len(tokens) > rows or min(eos, unknown) < 0 or eos == unknown:
        raise ConversionError(
            f"{file} has {plural(len(tokens), 'token')}, EOS {eos} and unknown {unknown}, but the model has tables of "
            f"{rows:,} rows; the files belong to different models",
            code="vocabulary_mismatch",
        )
    tokens += [None] * (rows - len(tokens))
    return name_rows(file, tokens, eos, unknown, SubwordModel("sentencepiece", encode_model(content), file))


def special_id(file: Path, tokens: Sequence[str | None], names: tuple[str, str], usual: int) -> int:
    """The id of a special token, by its name or, as in Nematus, by its place."""
    if usual < len(tokens) and tokens[usual] in (None, names[1]):
        return usual
    if names[0] not in tokens:
        raise ConversionError(f"{file} has no token {names[0]}; copy the whole model", code="vocabulary_mismatch")
    return tokens.index(names[0])


def name_rows(
    file: Path, tokens: Sequence[str | None], eos: int, unknown: int, subword: SubwordModel
) -> MarianVocabulary:
    """Name each row; rows without a token, and those with names of our special tokens, are named by number."""
    unnamed = [
        i for i, token in enumerate(tokens)
        if i not in (eos, unknown) and (token is None or token in SPECIAL_TOKENS)
    ]  # fmt: skip
    names = [token or "" for token in tokens]
    for i in unnamed:
        names[i] = f"<row {i}>"
    return MarianVocabulary(file, names, unnamed, eos, unknown, subword)
