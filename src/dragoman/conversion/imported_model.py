"""A converted model, ready to be written as a model directory, and the interface of importers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from dragoman import __version__
from dragoman.config import DataRecipe, ModelRecipe, Recipe, TextRecipe
from dragoman.errors import ConversionError, RecipeError
from dragoman.files import check_new_directory, sha256
from dragoman.modeldir.info import UNKNOWN_DATA, ModelInfo, language_codes, license_section
from dragoman.modeldir.save import save_model
from dragoman.modeldir.weights import check_tensors
from dragoman.models.loading import as_arrays, build_model
from dragoman.text import PAD, vocabulary_sizes
from dragoman.text.imported.tokenizer import ImportedTokenizer


@dataclass(frozen=True)
class ImportOptions:
    """Options of `dragoman import`.

    `tokenizer` is the subword model of the source, and of the target unless `target_tokenizer` is given. `vocabulary`
    is the directory of the vocabularies, if it is not the model's. `one_target` treats tokens such as >>fra<< as plain
    tokens, not as target languages.
    """

    tokenizer: Path | None = None
    target_tokenizer: Path | None = None
    vocabulary: Path | None = None
    one_target: bool = False


MAX_SOURCE_TOKENS = 1024  # longer sources are split


@dataclass(frozen=True)
class ImportedModel:
    """The content of a model directory; `files` are the files it was read from, `notes` are shown to users.

    `languages` are source and target language, if the files name them.
    """

    toolkit: str
    model: ModelRecipe
    source: ImportedTokenizer
    target: ImportedTokenizer
    weights: Mapping[str, Tensor]
    files: Sequence[Path]
    longest: int
    languages: tuple[str, str] | None = None
    notes: Sequence[str] = ()

    @property
    def recipe(self) -> Recipe:
        """The model's settings, and our defaults for everything else."""
        text = TextRecipe(
            "imported", max(self.source.vocabulary_size, self.target.vocabulary_size), False, self.source.targets
        )
        data = replace(DataRecipe(), max_tokens=min(self.longest, MAX_SOURCE_TOKENS))
        return Recipe(self.model, text, data)

    @property
    def info(self) -> ModelInfo:
        """Vocabulary sizes, and the languages if known; other toolkits do not record a license."""
        sources, targets = (language_codes([code]) for code in self.languages) if self.languages else ((), ())
        return ModelInfo(vocabulary_sizes(self.source, self.target), sources, self.source.targets or targets)

    def write(self, out: Path) -> None:
        """Check the model and write its directory, complete or not at all."""
        check_new_directory(out)
        info, model = self.info, self.recipe.model
        expected = build_model(model, info.vocabulary, PAD).state_dict().items()
        shapes = {name: w.shape for name, w in self.weights.items()}
        check_tensors(self.files[0], shapes, [(name, tuple(w.shape)) for name, w in expected])
        save_model(
            out,
            recipe=self.recipe,
            info=info,
            weights=as_arrays(self.weights),
            tokenizers=(self.source, self.target),
            card=self.card(out.name),
        )

    def card(self, name: str) -> str:
        """The model card."""
        title = " to ".join(self.languages) if self.languages else name
        codes = self.source.targets
        into = f"It translates into {', '.join(codes)}: `dragoman translate --to {codes[0]}`.\n" if codes else ""
        rows = "\n".join(f"| {path.name} | {path.stat().st_size:,} | `{sha256(path)[:16]}` |" for path in self.files)
        model = self.model
        notes = "".join(f"\n{note}\n" for note in self.notes)
        return f"""# {title}

Trained with {self.toolkit} and imported with Dragoman {__version__} from:

| file | bytes | SHA-256 begins |
|---|---|---|
{rows}
{notes}
{UNKNOWN_DATA}
{license_section(self.info)}
## Model

{model.architecture}, {model.encoder_layers}+{model.decoder_layers} layers, d_model {model.d_model},
{model.n_heads} heads, d_ff {model.d_ff}, with the tokenizer of {self.toolkit}.
All settings are in recipe.toml, but [train] has defaults: the settings of the original training are unknown.
{into}
## Scores

None yet: run `dragoman evaluate`.
"""


@dataclass(frozen=True)
class Importer:
    """How to recognize and read the models of a toolkit, and the import options that apply."""

    toolkit: str
    expected: str
    options: tuple[str, ...]
    recognizes: Callable[[Path], bool]
    read: Callable[[Path, ImportOptions], ImportedModel]


def language_pair(source: object, target: object) -> tuple[str, str] | None:
    """Return the languages of a model if its files name both."""
    return (source, target) if isinstance(source, str) and isinstance(target, str) else None


def model_recipe(where: Path | str, **settings: Any) -> ModelRecipe:
    """Make the model recipe; errors name the imported file."""
    try:
        return ModelRecipe(**settings)
    except RecipeError as error:
        raise ConversionError(
            f"the settings of {where} cannot be imported: {error}", code="unsupported_setting"
        ) from None
