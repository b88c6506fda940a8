"""A model of another toolkit, read and put into our terms, and its directory, which is whole or not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from dragoman import __version__
from dragoman.config import DataRecipe, ModelRecipe, Recipe, TextRecipe
from dragoman.errors import ConversionError, RecipeError
from dragoman.files import check_new_directory, sha256
from dragoman.modeldir.card import UNKNOWN_DATA, license_section
from dragoman.modeldir.info import ModelInfo
from dragoman.modeldir.languages import language_codes
from dragoman.modeldir.save import save_model
from dragoman.modeldir.weights import check_tensors
from dragoman.models.loading import as_arrays, build_model
from dragoman.text import PAD, vocabulary_sizes
from dragoman.text.imported.tokenizer import ImportedTokenizer

MOST_TOKENS = 1024  # of a source that is not split


@dataclass(frozen=True)
class Foreign:
    """All that a model directory is made of; `files` are those that it was read from, `notes` what people should know.

    `languages` are those of source and target, as far as its files tell them.
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
        """What is known of how it was trained, and our usual settings for the rest."""
        text = TextRecipe(
            "imported", max(self.source.vocabulary_size, self.target.vocabulary_size), False, self.source.targets
        )
        data = replace(DataRecipe(), max_tokens=min(self.longest, MOST_TOKENS))
        return Recipe(self.model, text, data)

    @property
    def info(self) -> ModelInfo:
        """Vocabulary sizes and languages, as far as its files tell them; its license is not among them."""
        sources, targets = (language_codes([code]) for code in self.languages) if self.languages else ((), ())
        return ModelInfo(vocabulary_sizes(self.source, self.target), sources, self.source.targets or targets)

    def write(self, out: Path) -> None:
        """Check the model and write its directory, completely or not at all."""
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
        """What a person should know of the model."""
        title = " to ".join(self.languages) if self.languages else name
        codes = self.source.targets
        into = f"It translates into {', '.join(codes)}: `dragoman translate --to {codes[0]}`.\n" if codes else ""
        rows = "\n".join(f"| {path.name} | {path.stat().st_size:,} | `{sha256(path)[:16]}` |" for path in self.files)
        model = self.model
        notes = "".join(f"\n{note}\n" for note in self.notes)
        return f"""# {title}

Trained with {self.toolkit}, and imported with Dragoman {__version__} from:

| file | bytes | SHA-256 begins |
|---|---|---|
{rows}
{notes}
{UNKNOWN_DATA}
{license_section(self.info)}
## Model

{model.architecture}, {model.encoder_layers}+{model.decoder_layers} layers, d_model {model.d_model},
{model.n_heads} heads, d_ff {model.d_ff}; tokens of {self.toolkit}.
All settings are in recipe.toml; those of [train] are not the ones that it was trained with.
{into}
## Scores

None yet: run `dragoman evaluate`.
"""


def model_recipe(where: Path | str, **settings: Any) -> ModelRecipe:
    """A recipe's model, refused in words of what was imported where it cannot be."""
    try:
        return ModelRecipe(**settings)
    except RecipeError as error:
        raise ConversionError(
            f"the settings of {where} make no model here: {error}", code="unsupported_setting"
        ) from None
