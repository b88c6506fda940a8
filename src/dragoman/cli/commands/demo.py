"""`dragoman demo`: a translator from nothing in a few minutes, on the embedded corpus."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dragoman.config import Recipe, unused_keys
from dragoman.errors import DragomanError
from dragoman.files import write_atomically

if TYPE_CHECKING:
    from dragoman.translation.translator import Translator

# Small batches, for many steps in a few minutes; little dropout, as there is no end of data to overfit.
SETTINGS = [
    *("text.vocabulary_size=1000", "data.max_tokens=100", "data.batch_tokens=500"),
    *("model.preset=tiny", "model.d_ff=256", "model.encoder_layers=2", "model.decoder_layers=2", "model.dropout=0.05"),
    *("train.steps=3000", "train.learning_rate=0.003", "train.schedule=cosine"),
    *("train.label_smoothing=0.05", "train.average=1", "train.clip=1.0"),
    *("train.save_every=500", "train.evaluate_every=500", "train.log_every=100"),
]
SHOWN = "I bought twenty-five apples at half past seven."
TRY = "every Monday at half past seven"


@click.command(name="demo")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/demo"), show_default=True,
              help="The directory for the corpus, the model and the picture.")  # fmt: skip
@click.option(
    "--pairs", "size", type=click.IntRange(1000, 10**7), default=40_000, show_default=True, help="To train on."
)
@click.option("--set", "changes", multiple=True, metavar="SECTION.KEY=VALUE", help="Change the recipe.")
def command(out: Path, size: int, changes: tuple[str, ...]) -> None:
    """Train on the embedded corpus, and translate lines that were never seen.

    The corpus is made by rule: English numbers, dates, times, prices and short sentences, with the one right German
    translation of each. So the share of lines translated without a mistake is a true score.
    """
    from dragoman.cli.commands.train import command as train
    from dragoman.demo.corpus import pairs

    settings = [*settings_for(changes), *changes]
    Recipe.from_changes(settings)  # a mistake in one leaves no files behind
    if out.exists() and not out.is_dir():
        raise DragomanError(f"{out} is a file, but --out is the directory to write; choose another name")
    files: list[str] = []
    contents: dict[Path, bytes] = {}
    for split, count in (("train", size), ("valid", 500)):
        lines = list(zip(*pairs(count, split=split), strict=True))  # type: ignore[arg-type]
        for side, language, texts in zip(("source", "target"), ("en", "de"), lines, strict=True):
            path = out / f"{split}.{language}"
            contents[path] = ("\n".join(texts) + "\n").encode()
            if path.exists() and path.read_bytes() != contents[path]:
                raise DragomanError(
                    f"{path} is there already, and not of a demo with --pairs {size}; choose another --out"
                )
            files += [f"--{'valid-' if split == 'valid' else ''}{side}", str(path)]
    out.mkdir(parents=True, exist_ok=True)
    for path, content in contents.items():
        if not path.exists():
            write_atomically(path, content)
    options = [x for change in settings for x in ("--set", change)]
    begun = time.perf_counter()
    train.main([*files, "--out", str(out / "model"), *options], standalone_mode=False)
    click.echo(f"trained in {time.perf_counter() - begun:.0f} s\n")
    report(out)


def settings_for(changes: tuple[str, ...]) -> list[str]:
    """The demo's settings, without those that mean nothing to the architecture that was asked for.

    Where fewer steps were asked for, its warm-up is as much shorter.
    """
    asked = {key.strip(): value.strip(" \"'") for key, _, value in (change.partition("=") for change in changes)}
    architecture, steps = asked.get("model.architecture"), asked.get("train.steps", "")
    idle = {f"model.{key}" for key in (unused_keys(architecture) if architecture else ())}
    own = [change for change in SETTINGS if change.partition("=")[0] not in idle]
    warmup = min(300, int(steps) // 10) if steps.isdecimal() and len(steps) < 10 else 300
    return [*own, f"train.warmup_steps={warmup}"]


def report(out: Path) -> None:
    """Translate unseen lines, count the faultless ones, and draw what the model looked at."""
    from dragoman.demo.corpus import pairs
    from dragoman.errors import MissingExtraError
    from dragoman.translation.translator import Translator

    translator = Translator.load(out / "model", device="cpu")
    sources, references = zip(*pairs(1000, split="test"), strict=True)
    ours = [translation.text for translation in translator.translate(sources, beam=1)]
    for source, translation, right in list(zip(sources, ours, references, strict=True))[:12]:
        click.echo(f"  {source}\n    {translation}{'' if translation == right else f'   (right: {right})'}")
    exact = sum(a == b for a, b in zip(ours, references, strict=True))
    click.echo(f"\n{exact / 10:.1f} % of 1,000 lines that were never seen are translated without a mistake")
    try:
        draw(translator, out / "attention.png")
    except MissingExtraError as error:
        click.echo(str(error))
    else:
        click.echo(f"{out / 'attention.png'} shows what the model looked at while it translated: {SHOWN}")
    model = out / "model"
    click.echo(f'the model is in {model}; try: echo "{TRY}" | dragoman translate {shlex.quote(str(model))}')


def draw(translator: Translator, path: Path) -> None:
    """The mean of the last layer's heads, from the translation to the source."""
    import torch

    from dragoman.inspect.attention import draw_attention
    from dragoman.models import AttentionMaps
    from dragoman.text.special_tokens import BOS, EOS

    translation = translator.translate(SHOWN, beam=1)
    source, written = (
        tokenizer.to_ids(tokens)
        for tokenizer, tokens in (
            (translator.source, translation.source_tokens),
            (translator.target, translation.tokens),
        )
    )
    maps = AttentionMaps()
    with torch.inference_mode():
        translator.engines.torch.model(torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *written]]), maps=maps)
    words = [*translation.source_tokens, "end"], [*translation.tokens, "end"]
    draw_attention(maps.cross[-1][0].mean(0), words[0], words[1], path)
