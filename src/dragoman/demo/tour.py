"""`dragoman demo`: train on the embedded corpus, translate unseen lines, and draw the attention."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dragoman import api
from dragoman.config import Recipe, unused_keys
from dragoman.demo.corpus import pairs
from dragoman.errors import MissingExtraError, OutputError
from dragoman.files import write_atomically
from dragoman.modeldir.installed import installed_models
from dragoman.progress import Reporter
from dragoman.translation.translator import Translator

# Small batches, for many steps in a few minutes; little dropout, because unlimited data cannot be overfitted.
DEMO_SETTINGS: Final = (
    *("text.vocabulary_size=1000", "data.max_tokens=100", "data.batch_tokens=500"),
    *("model.preset=tiny", "model.d_ff=256", "model.encoder_layers=2", "model.decoder_layers=2", "model.dropout=0.05"),
    *("train.steps=3000", "train.learning_rate=0.003", "train.schedule=cosine"),
    *("train.label_smoothing=0.05", "train.average=1", "train.clip=1.0"),
    *("train.save_every=500", "train.evaluate_every=500", "train.log_every=100"),
)
VALID_PAIRS: Final = 500
TEST_PAIRS: Final = 1000
SAMPLES: Final = {  # for installed models, by their source language
    "en": ("Where is the station?", "I would like a cup of coffee, please."),
    "de": ("Wo ist der Bahnhof?", "Ich hätte gern eine Tasse Kaffee."),
}
DRAWN: Final = "I bought twenty-five apples at half past seven."


@dataclass(frozen=True)
class DemoResult:
    """The demo's model, its translations of unseen lines, and the picture, or why it could not be drawn."""

    model: Path
    training_seconds: float
    sources: Sequence[str]
    translations: Sequence[str]
    references: Sequence[str]
    picture: Path | None
    picture_error: str = ""

    @property
    def exact_percent(self) -> float:
        """The percentage of lines that equal the reference."""
        right = sum(a == b for a, b in zip(self.translations, self.references, strict=True))
        return 100 * right / len(self.references)


def translate_samples() -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
    """Translate a few sentences with each installed model of one source language: its name, sources, translations."""
    for model in installed_models():
        sources = SAMPLES.get(model.source_languages[0]) if len(model.source_languages) == 1 else None
        if sources and len(model.target_languages) == 1:
            found = Translator.load(model.path, device="cpu").translate(sources)
            yield model.name, sources, [translation.text for translation in found]


def run_demo(out: Path, size: int, changes: Sequence[str] = (), reporter: Reporter | None = None) -> DemoResult:
    """Train on `size` pairs of the embedded corpus in the directory `out`, and translate unseen lines."""
    settings = [*demo_changes(changes), *changes]
    Recipe.from_changes(settings)  # an invalid argument leaves no files behind
    train, valid = write_corpus(out, size)
    started = time.perf_counter()
    model = out / "model"
    api.train(source=train[0], target=train[1], valid=valid, out=model, changes=settings, reporter=reporter)
    seconds = time.perf_counter() - started
    translator = Translator.load(model, device="cpu")
    sources, references = zip(*pairs(TEST_PAIRS, split="test"), strict=True)
    translations = [translation.text for translation in translator.translate(sources, beam=1)]
    picture, error = out / "attention.png", ""
    try:
        draw_last_layer(translator, picture)
    except MissingExtraError as missing:
        error = str(missing)
    return DemoResult(model, seconds, sources, translations, references, None if error else picture, error)


def demo_changes(changes: Sequence[str]) -> list[str]:
    """The settings of the demo, without those that the chosen architecture does not use.

    The warm-up is shorter if there are fewer steps.
    """
    chosen = {key.strip(): value.strip(" \"'") for key, _, value in (change.partition("=") for change in changes)}
    architecture, steps = chosen.get("model.architecture"), chosen.get("train.steps", "")
    unused = {f"model.{key}" for key in (unused_keys(architecture) if architecture else ())}
    kept = [change for change in DEMO_SETTINGS if change.partition("=")[0] not in unused]
    warmup = min(300, int(steps) // 10) if steps.isdecimal() and len(steps) < 10 else 300
    return [*kept, f"train.warmup_steps={warmup}"]


def write_corpus(out: Path, size: int) -> tuple[tuple[Path, Path], tuple[Path, Path]]:
    """Write the training and validation pairs; return both files of each. Unrelated files are not overwritten."""
    if out.exists() and not out.is_dir():
        raise OutputError(f"{out} is a file, not a directory; choose another --out", code="not_a_directory")
    contents: dict[Path, bytes] = {}
    for split, count in (("train", size), ("valid", VALID_PAIRS)):
        sides = zip(*pairs(count, split=split), strict=True)  # type: ignore[arg-type]
        for language, texts in zip(("en", "de"), sides, strict=True):
            contents[out / f"{split}.{language}"] = ("\n".join(texts) + "\n").encode()
    for path, content in contents.items():
        if path.exists() and path.read_bytes() != content:
            message = f"{path} already exists and is not from a demo of {size} pairs; choose another --out"
            raise OutputError(message, code="output_exists")
    out.mkdir(parents=True, exist_ok=True)
    for path, content in contents.items():
        if not path.exists():
            write_atomically(path, content)
    train_source, train_target, valid_source, valid_target = contents
    return (train_source, train_target), (valid_source, valid_target)


def draw_last_layer(translator: Translator, path: Path) -> None:
    """Draw the mean cross-attention of the last layer's heads."""
    import torch

    from dragoman.inspect.attention.maps import END
    from dragoman.inspect.attention.picture import draw_attention
    from dragoman.models import AttentionMaps
    from dragoman.text.special_tokens import BOS, EOS

    translation = translator.translate(DRAWN, beam=1)
    source = translator.source.to_ids(translation.source_tokens)
    target = translator.target.to_ids(translation.tokens)
    maps = AttentionMaps()
    with torch.inference_mode():
        translator.engines.torch.model(torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target]]), maps=maps)
    labels = [*translation.source_tokens, END], [*translation.tokens, END]
    draw_attention(maps.cross[-1][0].mean(0), *labels, path)
