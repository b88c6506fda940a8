"""The tokenizers of a preparation: learned from its training text, or taken from a directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dragoman.config import Recipe
from dragoman.data.prepare.encoding import ranges, read_texts
from dragoman.data.prepare.job import CHUNK, Job, Names
from dragoman.data.prepare.target_languages import source_tokenizer
from dragoman.data.prepared import SIDES, TOKENIZERS
from dragoman.errors import DataError
from dragoman.files import sha256

if TYPE_CHECKING:
    from dragoman.text import Tokenizer

LEARN_FROM = 1 << 27  # bytes of text, a little more than `learn` looks at; reading all of a large corpus would be waste


def vocabulary_settings(recipe: Recipe, taken: Path | None) -> dict[str, Any]:
    """What decides the tokenizers, as facts that can be compared later."""
    if taken is None:
        keys = ("kind", "vocabulary_size", "shared", *(("targets",) if recipe.text.targets else ()))
        values = {f"text.{key}": getattr(recipe.text, key) for key in keys}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
    if not taken.is_dir():
        raise DataError(f"{taken} is no directory of tokenizers; give the `{TOKENIZERS}` of prepared data, or a model")
    names = ("shared.*", "source.*", "target.*")
    found: dict[str, Any] = {
        "tokenizers": {path.name: sha256(path) for name in names for path in sorted(taken.glob(name))}
    }
    if recipe.text.targets and recipe.text.targets != source_tokenizer(taken).targets:
        found["text.targets"] = list(recipe.text.targets)  # some are added
    return found


def settle_tokenizers(job: Job, text: str, held: npt.NDArray[np.bool_], taken: Path | None) -> Names:
    """Learn or take the tokenizers and save them in the staging directory; says which side uses which."""
    recipe, into = job.recipe.text, job.staging / TOKENIZERS
    into.mkdir()
    made = learned(job, text, held) if taken is None else with_languages(taken, recipe.targets)
    for name, tokenizer in made.items():
        tokenizer.save(into, name)
    names = {side: side if side in made else "shared" for side in SIDES}
    return {side: (name, made[name].vocabulary_size, made[name].fingerprint) for side, name in names.items()}


def learned(job: Job, text: str, held: npt.NDArray[np.bool_]) -> dict[str, Tokenizer]:
    """Tokenizers of the training text, without what is held out."""
    from dragoman.text import learn

    recipe, made = job.recipe.text, {}
    for name in ("shared",) if recipe.shared else SIDES:
        sides = SIDES if recipe.shared else (name,)
        size = sum((job.staging / f"{text}.{side}.ids").stat().st_size for side in sides)
        step = size // LEARN_FROM + 1
        job.reporter.start_stage(f"learn {name}", len(sides) * len(held), "sentences")
        lines = (line for side in sides for line in sentences(job, f"{text}.{side}", ~held, step))
        targets = recipe.targets if name != "target" else ()  # it is the source that says the language
        tokenizer = learn(recipe.kind, lines, recipe.vocabulary_size - len(targets))
        made[name] = tokenizer.with_targets(targets) if targets else tokenizer
    return made


def with_languages(taken: Path, targets: Sequence[str]) -> dict[str, Tokenizer]:
    """The tokenizers of a directory, with the target languages that are to be added."""
    from dragoman.text import load_tokenizer, vocabulary_sizes

    shared = (taken / "shared.json").exists()
    made = {name: load_tokenizer(taken, name) for name in (("shared",) if shared else SIDES)}
    speaking = ["shared"] if shared else ["source"]
    if not shared and isinstance(vocabulary_sizes(made["source"], made["target"]), int):
        speaking += ["target"]  # imported models may cut the two sides in two ways, and have one vocabulary
    for name in speaking:
        if made[name].targets != targets:
            made[name] = made[name].with_targets(targets)
    return made


def sentences(job: Job, name: str, chosen: npt.NDArray[np.bool_], step: int) -> Iterator[str]:
    """Every step-th chosen sentence of one side of a text."""
    chosen = chosen.copy()
    chosen[np.arange(len(chosen)) % step != 0] = False
    for start, stop in ranges(0, len(chosen), CHUNK):
        yield from compress(read_texts(job.staging, name, start, stop), chosen[start:stop])
        job.reporter.advance(stop - start)
