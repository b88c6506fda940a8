"""A model of another toolkit, read and put into our terms, and its directory, which is whole or not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from dragoman import __version__
from dragoman.config import DataRecipe, ModelRecipe, Recipe, TextRecipe
from dragoman.errors import ConversionError, DragomanError, RecipeError
from dragoman.files import check_tensors, listed, sha256, staged, verify_manifest, write_manifest
from dragoman.models.directory import build, write_model
from dragoman.text import PAD, vocabulary_sizes
from dragoman.text.imported.tokenizer import ImportedTokenizer

CARD = "card.md"
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

    def write(self, out: Path) -> None:
        """The model directory, after all of it was checked; nothing is left where something fails."""
        refuse_taken(out)
        vocabulary = vocabulary_sizes(self.source, self.target)
        recipe = self.recipe
        expected = [(name, tuple(w.shape)) for name, w in build(recipe.model, vocabulary, PAD).state_dict().items()]
        check_tensors(self.files[0], {name: w.shape for name, w in self.weights.items()}, expected)
        try:
            with staged(out) as staging:
                write_model(staging, recipe, vocabulary, self.weights)
                self.source.save(staging, "source")
                self.target.save(staging, "target")
                (staging / CARD).write_text(self.card(out.name), encoding="utf-8")
                for file in staging.iterdir():  # safetensors writes for its owner alone; a model is there to be shared
                    file.chmod((staging / CARD).stat().st_mode)
                write_manifest(staging)
                verify_manifest(staging)
        except OSError as error:
            if isinstance(error, DragomanError):
                raise
            raise ConversionError(
                f"{out} could not be written: {error.strerror or error}; nothing is left of it"
            ) from None

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

The model's own license says what may be done with it; Dragoman does not know it: write it here.
{notes}
## Data

Not known; write it here.

## Model

{model.architecture}, {model.encoder_layers}+{model.decoder_layers} layers, d_model {model.d_model},
{model.n_heads} heads, d_ff {model.d_ff}; tokens of {self.toolkit}.
All settings are in recipe.toml; those of [train] are not the ones that it was trained with.
{into}
## Scores

None yet: `dragoman evaluate` gives them.
"""


def model_recipe(where: Path | str, **settings: Any) -> ModelRecipe:
    """A recipe's model, refused in words of what was imported where it cannot be."""
    try:
        return ModelRecipe(**settings)
    except RecipeError as error:
        raise ConversionError(f"the settings of {where} make no model here: {error}") from None


def refuse_taken(out: Path) -> None:
    """Refuse a place that is taken: nothing is ever replaced by an import."""
    if out.exists() and not out.is_dir():
        raise ConversionError(f"{out} is a file, but --out is the directory to write; choose another name")
    if out.exists() and (found := listed(out.iterdir())):
        raise ConversionError(f"{out} is there already, with {found}; choose another --out")
