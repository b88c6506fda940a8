"""The tokenizers of prepared data: learned from the training text, or loaded from a directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dragoman.config import Recipe
from dragoman.data.prepare.encoding import chunk_ranges, read_texts
from dragoman.data.prepare.staging import PAIRS_PER_CHUNK, PrepareContext, SideTokenizers, TokenizerEntry
from dragoman.data.prepare.target_languages import source_tokenizer
from dragoman.data.prepared import SIDES, TOKENIZERS
from dragoman.files import sha256

if TYPE_CHECKING:
    from dragoman.text import Tokenizer

LEARN_FROM = 1 << 27  # bytes of text, slightly more than `learn` uses: no need to read all of a large corpus


def tokenizer_settings(recipe: Recipe, directory: Path | None) -> dict[str, Any]:
    """The inputs that determine the tokenizers, recorded for later comparison."""
    if directory is None:
        keys = ("kind", "vocabulary_size", "shared", *(("targets",) if recipe.text.targets else ()))
        values = {f"text.{key}": getattr(recipe.text, key) for key in keys}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
    names = ("shared.*", "source.*", "target.*")
    found: dict[str, Any] = {
        "tokenizers": {path.name: sha256(path) for name in names for path in sorted(directory.glob(name))}
    }
    if recipe.text.targets and recipe.text.targets != source_tokenizer(directory).targets:
        found["text.targets"] = list(recipe.text.targets)  # languages are added
    return found


def make_tokenizers(
    context: PrepareContext, text: str, held_out: npt.NDArray[np.bool_], directory: Path | None
) -> SideTokenizers:
    """Learn tokenizers, or load those of `directory`, and save them in the staging directory."""
    recipe, into = context.recipe.text, context.staging / TOKENIZERS
    into.mkdir()
    tokenizers = learn_tokenizers(context, text, held_out) if directory is None else load_all(directory, recipe.targets)
    for name, tokenizer in tokenizers.items():
        tokenizer.save(into, name)
    names = {side: side if side in tokenizers else "shared" for side in SIDES}
    return {
        side: TokenizerEntry(name, tokenizers[name].vocabulary_size, tokenizers[name].fingerprint)
        for side, name in names.items()
    }


def learn_tokenizers(context: PrepareContext, text: str, held_out: npt.NDArray[np.bool_]) -> dict[str, Tokenizer]:
    """Learn tokenizers from the training text, without the held-out pairs."""
    from dragoman.text.learn import learn

    recipe, tokenizers = context.recipe.text, {}
    for name in ("shared",) if recipe.shared else SIDES:
        sides = SIDES if recipe.shared else (name,)
        size = sum((context.staging / f"{text}.{side}.ids").stat().st_size for side in sides)
        step = size // LEARN_FROM + 1
        context.reporter.start_stage(f"learn {name}", len(sides) * len(held_out), "sentences")
        lines = (line for side in sides for line in every_nth_text(context, f"{text}.{side}", ~held_out, step))
        targets = recipe.targets if name != "target" else ()  # language tokens are on the source side
        tokenizer = learn(recipe.kind, lines, recipe.vocabulary_size - len(targets))
        tokenizers[name] = tokenizer.with_targets(targets) if targets else tokenizer
    return tokenizers


def load_all(directory: Path, targets: Sequence[str]) -> dict[str, Tokenizer]:
    """The tokenizers of a directory, extended by tokens for new target languages."""
    from dragoman.text import load_tokenizer, vocabulary_sizes

    shared = (directory / "shared.json").exists()
    loaded = {name: load_tokenizer(directory, name) for name in (("shared",) if shared else SIDES)}
    with_languages = ["shared"] if shared else ["source"]
    if not shared and isinstance(vocabulary_sizes(loaded["source"], loaded["target"]), int):
        with_languages += ["target"]  # imported models may have two tokenizers for one vocabulary
    for name in with_languages:
        if loaded[name].targets != targets:
            loaded[name] = loaded[name].with_targets(targets)
    return loaded


def every_nth_text(context: PrepareContext, name: str, mask: npt.NDArray[np.bool_], step: int) -> Iterator[str]:
    """Every `step`-th sentence of one side of a text, among those in the mask."""
    mask = mask & (np.arange(len(mask)) % step == 0)
    for start, stop in chunk_ranges(0, len(mask), PAIRS_PER_CHUNK):
        yield from compress(read_texts(context.staging, name, start, stop), mask[start:stop])
        context.reporter.advance(stop - start)
