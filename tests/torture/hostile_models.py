"""Model directories that are damaged or written to do harm, with manifests that confirm them; used by sanitizers.py."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

import numpy as np
from safetensors.numpy import save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import mutations as mutate
from dragoman import Sampling, Translator
from dragoman.config import Recipe
from dragoman.engines.native_layout import ACTIVATION_CODES, POSITION_CODES
from dragoman.errors import DragomanError
from dragoman.files import write_manifest
from dragoman.inspect.attention.maps import record_attention
from dragoman.modeldir.layout import INFO, RECIPE, WEIGHTS
from dragoman.modeldir.weights import tensor_layout

MODELS = [Path(__file__).resolve().parents[1] / "fixtures/before" / name for name in ("trained", "imported")]
SIZES = (0, 1, 2, 3, 5, 7, 8, 15, 16, 17, 32, 64, 100, 255, 257, 65_536, 2**20, 2**31 - 1, 2**31, 2**32, 2**63, -1)
SMALL = SIZES[1:11]
HEADS = ("n_heads", "d_k", "d_v")
NUMBERS = ("d_model", *HEADS, "d_ff", "encoder_layers", "decoder_layers", "max_positions", "max_distance")
TRIES = 30  # to find settings that describe a model
CHOICES = {
    "positions": POSITION_CODES,
    "activation": ACTIVATION_CODES,
    "norm_order": ("pre", "post"),
    "tie": ("all", "target", "none"),
    "attention_bias": ("true", "false"),
    "output_bias": ("true", "false"),
}
TEXTS = ["a b c", "", "one two \N{SNOWMAN} three", "x " * 90]


def write_hostile(place: Path, draw: Random) -> None:
    """Copy a model, and change one or two of its files."""
    base = draw.choice(MODELS)
    shutil.copytree(base, place)
    changes = (other_settings, other_model, other_weights, other_info, other_tokenizer)
    for change in draw.choice(([other_model], draw.sample(changes, 1), draw.sample(changes, 2))):
        change(place, draw)
    write_manifest(place)


def other_settings(place: Path, draw: Random) -> None:
    """Settings that the weights do not have."""
    for _ in range(draw.choice((1, 1, 2, 3))):
        if draw.random() < 0.7:
            set_model(place, draw.choice(NUMBERS), draw.choice(SIZES))
        else:
            set_model(place, *choose_setting(draw))
    if draw.random() < 0.1:
        path = place / RECIPE
        path.write_bytes(mutate.mutate_bytes(path.read_bytes(), draw))


def other_model(place: Path, draw: Random) -> None:
    """Settings, sizes of vocabularies and weights that belong together, but not to the tokenizers."""
    whole, recipe = (place / RECIPE).read_bytes(), None
    for _ in range(TRIES):
        (place / RECIPE).write_bytes(whole)
        for name in (*HEADS, *draw.sample(NUMBERS, draw.randint(1, 4))):
            set_model(place, name, draw.choice(SMALL))
        for _ in range(3):
            set_model(place, *choose_setting(draw))
        with suppress(DragomanError):
            recipe = Recipe.load(place / RECIPE).model
            break
    if recipe is None:
        return
    vocabulary = (draw.choice((3, 20, 299, 300, 300, 301)), draw.choice((3, 19, 299, 300, 300, 301)))
    vocabulary = (vocabulary[1], vocabulary[1]) if recipe.tie == "all" else vocabulary
    (place / INFO).write_text(json.dumps({"vocabulary": list(vocabulary)}))
    random = np.random.default_rng(draw.randrange(1 << 32))
    layout = dict(tensor for tensor in tensor_layout(recipe, vocabulary) if tensor)
    if sum(map(np.prod, layout.values())) < 1 << 22:
        weights = {name: random.standard_normal(shape).astype(np.float32) for name, shape in layout.items()}
        save_file(weights, place / WEIGHTS)


def other_weights(place: Path, draw: Random) -> None:
    """A damaged file of weights."""
    path = place / WEIGHTS
    path.write_bytes(mutate.mutate_safetensors(path.read_bytes(), draw))


def other_info(place: Path, draw: Random) -> None:
    """Other sizes of vocabularies, or a damaged file."""
    path = place / INFO
    if draw.random() < 0.5:
        path.write_bytes(mutate.mutate_json(path.read_bytes(), draw))
    else:
        sizes = [draw.choice(SIZES) for _ in range(draw.choice((1, 2)))]
        path.write_text(json.dumps({"vocabulary": sizes if len(sizes) == 2 else sizes[0]}))


def other_tokenizer(place: Path, draw: Random) -> None:
    """The tokenizers of another model."""
    for file in [*place.glob("*.spm"), *place.glob("s*.json"), *place.glob("target*.json")]:
        file.unlink()
    other = draw.choice(MODELS)
    for file in [*other.glob("*.spm"), *other.glob("s*.json"), *other.glob("target*.json")]:
        shutil.copy(file, place)


def choose_setting(draw: Random) -> tuple[str, object]:
    name = draw.choice(list(CHOICES))
    value = draw.choice(list(CHOICES[name]))
    return name, value if value in ("true", "false") else f'"{value}"'


def set_model(place: Path, name: str, value: object) -> None:
    """Set a key of [model] in the recipe."""
    path = place / RECIPE
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    lines = [line for line in text.splitlines() if not line.startswith(f"{name} =")]
    at = lines.index("[model]") if "[model]" in lines else 0
    changed = "\n".join([*lines[: at + 1], f"{name} = {value}", *lines[at + 1 :]]) + "\n"
    path.write_text(changed, encoding="utf-8", errors="surrogateescape")


def use_model(place: Path, draw: Random) -> str:
    """Translate, score and inspect with the C engine: "translated", or the code of the error."""
    try:
        translator = Translator.load(
            place,
            device="cpu",
            engine="native",
            threads=draw.choice((1, 2)),
            precision=draw.choice(("int8", "float32")),
        )
        settings = draw.choice(({}, {}, {"require": ["a"], "avoid": ["b"]}, {"avoid": "a", "sampling": Sampling()}))
        alignment = draw.random() < 0.3
        found = translator.translate(TEXTS, beam=draw.choice((1, 4)), max_length=20, alignment=alignment, **settings)
        translator.score([(text, one.text) for text, one in zip(TEXTS, found, strict=True)])
        record_attention(translator, TEXTS[0])
    except DragomanError as error:
        return error.code
    except MemoryError:
        return "no_memory"
    return "translated"
