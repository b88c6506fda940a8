"""The recipe: every choice of a run, as frozen dataclasses read from TOML.

    recipe = Recipe.load("base", ["model.dropout=0.3", "model.norm_order=pre"])

A recipe is a name from `PRESETS`, or a TOML file with one table per section; `[model] preset = "base"` starts the model
from a preset and the keys beside it change what they name. An unknown key gets a suggestion, and a combination
that cannot be says what would be possible.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_type_hints

from dragoman.errors import RecipeError
from dragoman.values import at_least, check_kinds, conform, divisors, fraction, seed, suggest

S = TypeVar("S")


IN_ATTENTION = ("relative", "rotary", "alibi")  # positions that attention is told, and not the embeddings
NEEDS: Mapping[str, tuple[str, tuple[str, ...]]] = {  # keys that mean something with some values of another key alone
    "window": ("pattern", ("local", "sparse")),
    "global_tokens": ("pattern", ("sparse",)),
    "random_tokens": ("pattern", ("sparse",)),
    "rank": ("pattern", ("low_rank",)),
    "max_distance": ("positions", ("relative",)),
    **dict.fromkeys(
        ("n_heads", "d_k", "d_v", "d_ff", "feed_forward_dropout", "activation", "attention_bias", "pattern"),
        ("architecture", ("transformer",)),
    ),
    **dict.fromkeys(("norm", "norm_order"), ("architecture", ("transformer",))),
    **dict.fromkeys(("positions", "max_positions"), ("architecture", ("transformer", "convolutional"))),
    "attention": ("architecture", ("transformer", "recurrent")),
    "cell": ("architecture", ("recurrent",)),
    "kernel_width": ("architecture", ("convolutional",)),
}


@dataclass(frozen=True)
class ModelRecipe:
    """The model of section 3, with the paper's base model as the defaults.

    `d_k` and `d_v` are `d_model / n_heads` where they are not given, as in section 3.2.2. `pattern` is what
    self-attention looks at: all; `window` tokens to either side ("local"); these, the first `global_tokens` and about
    `random_tokens` more ("sparse"); or, in the encoder, `rank` mixtures of all ("low_rank"). `max_distance` is how far
    "relative" positions are told apart. The paper's rivals have a `cell` ("recurrent") or a `kernel_width`
    ("convolutional") instead of heads and feed-forward networks; docs/rivals.md says which keys each knows.
    """

    architecture: Literal["transformer", "recurrent", "convolutional"] = "transformer"
    d_model: int = 512
    n_heads: int = 8
    d_k: int | None = None
    d_v: int | None = None
    d_ff: int = 2048
    encoder_layers: int = 6
    decoder_layers: int = 6
    dropout: float = 0.1
    attention_dropout: float = 0.0
    feed_forward_dropout: float = 0.0
    activation: Literal["relu", "gelu", "silu", "tanh"] = "relu"
    attention: Literal["scaled_dot_product", "additive"] = "scaled_dot_product"
    attention_bias: bool = False
    pattern: Literal["full", "local", "sparse", "low_rank"] = "full"
    window: int = 16
    global_tokens: int = 1
    random_tokens: int = 2
    rank: int = 32
    positions: Literal["sinusoidal", "learned", "relative", "rotary", "alibi", "none"] = "sinusoidal"
    max_positions: int = 1024
    max_distance: int = 16
    norm: Literal["layer", "batch"] = "layer"
    norm_order: Literal["post", "pre"] = "post"
    cell: Literal["lstm", "gru"] = "lstm"
    kernel_width: int = 3
    tie: Literal["all", "target", "none"] = "all"

    def __post_init__(self) -> None:
        """Refuse what cannot be built, and say what could."""
        check_kinds(self, "model")
        for name in ("d_model", "n_heads", "d_ff", "max_positions", "rank", "max_distance"):
            at_least(1, f"model.{name}", getattr(self, name))
        for name in ("window", "global_tokens", "random_tokens"):
            at_least(0, f"model.{name}", getattr(self, name))
        for name in ("encoder_layers", "decoder_layers"):
            at_least(1, f"model.{name}", getattr(self, name))
        for name in ("dropout", "attention_dropout", "feed_forward_dropout"):
            fraction(f"model.{name}", getattr(self, name))
        splits = self.architecture != "transformer" or self.d_model % self.n_heads == 0
        if (self.d_k is None or self.d_v is None) and not splits:
            raise RecipeError(
                f"model.d_model={self.d_model} does not split into model.n_heads={self.n_heads}; use n_heads from "
                f"{divisors(self.d_model)}, or give both model.d_k and model.d_v yourself"
            )
        for name in ("d_k", "d_v"):
            if getattr(self, name) is not None:
                at_least(1, f"model.{name}", getattr(self, name))
        if self.positions == "sinusoidal" and self.d_model % 2 and self.architecture != "recurrent":
            raise RecipeError(
                f"model.d_model={self.d_model} is odd, but a sinusoidal position is made of pairs of sine and cosine; "
                f"use d_model={self.d_model + 1}, or model.positions='learned'"
            )
        if self.architecture == "convolutional" and self.positions in IN_ATTENTION:
            raise RecipeError(
                f"model.positions={self.positions!r} is told to self-attention, which model.architecture="
                "'convolutional' has none of; use 'learned', 'sinusoidal' or 'none'"
            )
        if self.positions == "rotary" and self.key_size % 2:
            raise RecipeError(
                f"model.positions='rotary' turns pairs of features, but d_k={self.key_size} is odd; give an even "
                "model.d_k, or other model.n_heads"
            )
        if self.attention == "additive" and self.positions in ("relative", "alibi"):
            raise RecipeError(
                f"model.positions={self.positions!r} changes the scores of the dot product, and model.attention="
                "'additive' has none; use 'sinusoidal', 'learned', 'rotary' or 'none', or the dot product"
            )
        if self.pattern == "low_rank" and (self.attention == "additive" or self.positions in IN_ATTENTION):
            one = f"positions={self.positions!r}" if self.positions in IN_ATTENTION else "attention='additive'"
            raise RecipeError(
                f"model.pattern='low_rank' mixes keys before they are looked at, and leaves no place for model.{one}; "
                "use positions 'sinusoidal', 'learned' or 'none' and the scaled dot product, or another pattern"
            )
        if self.kernel_width < 1 or self.kernel_width % 2 == 0:
            raise RecipeError(
                f"model.kernel_width={self.kernel_width} has no middle; use an odd number, such as 3 or 5, so that the "
                "encoder looks as far to the left as to the right"
            )
        self._refuse_idle()

    def _refuse_idle(self) -> None:
        """Refuse what was given and would do nothing."""
        for name, (key, users) in NEEDS.items():
            given, default = getattr(self, name), type(self).__dataclass_fields__[name].default
            chosen = getattr(self, key)
            if given != default and chosen not in users:
                raise RecipeError(
                    f"model.{name}={given!r} does nothing with model.{key}={chosen!r}; leave it out, or use "
                    f"model.{key}={' or '.join(map(repr, users))}"
                )

    @property
    def key_size(self) -> int:
        """d_k, with the paper's rule where it was not given."""
        return self.d_k if self.d_k is not None else self.d_model // self.n_heads

    @property
    def value_size(self) -> int:
        """d_v, with the paper's rule where it was not given."""
        return self.d_v if self.d_v is not None else self.d_model // self.n_heads


PRESETS: Mapping[str, ModelRecipe] = {
    "base": ModelRecipe(),
    "big": ModelRecipe(d_model=1024, n_heads=16, d_ff=4096, dropout=0.3),
    "small": ModelRecipe(
        d_model=256, n_heads=4, d_ff=1024, encoder_layers=3, decoder_layers=3, dropout=0.2, norm_order="pre"
    ),
    "tiny": ModelRecipe(
        d_model=128, n_heads=4, d_ff=512, encoder_layers=3, decoder_layers=3, dropout=0.2, norm_order="pre"
    ),
}


def preset_for(name: str, architecture: str = "transformer") -> ModelRecipe:
    """A preset's sizes for an architecture; keys that mean nothing to it keep their defaults."""
    sizes = {key: value for key, value in asdict(PRESETS[name]).items() if key not in idle_keys(architecture)}
    return ModelRecipe(**{**sizes, "architecture": architecture})


def idle_keys(architecture: str) -> set[str]:
    """The keys of a model's recipe that mean nothing to an architecture."""
    idle = {name for name, (key, users) in NEEDS.items() if key == "architecture" and architecture not in users}
    return idle | {name for name, (key, _) in NEEDS.items() if key in idle}


@dataclass(frozen=True)
class TextRecipe:
    """The pieces that text is cut into (section 5.1): the paper's are byte pairs, one vocabulary for both sides.

    `vocabulary_size` counts the special ids and the 256 bytes; the paper's is 37,000, for 4.5 million pairs.
    """

    kind: Literal["bpe", "unigram", "wordpiece"] = "bpe"
    vocabulary_size: int = 8000
    shared: bool = True

    def __post_init__(self) -> None:
        """Refuse a vocabulary without room for pieces."""
        check_kinds(self, "text")
        at_least(300, "text.vocabulary_size", self.vocabulary_size)


@dataclass(frozen=True)
class DataRecipe:
    """From files of sentence pairs to batches (section 5.1): what is cleaned away, and how a batch is made up.

    `batch_tokens` holds for the source and for the target, end marks included: the paper's have about 25,000 of each.
    `weights` say how often an epoch goes through each corpus; without them, the weights given when preparing hold.
    """

    max_tokens: int = 256
    max_characters: int = 2000
    max_ratio: float = 4.0
    min_script: float = 0.2
    source_script: str = "auto"
    target_script: str = "auto"
    drop_duplicates: bool = True
    drop_copies: bool = True
    valid_pairs: int = 2000
    layout: Literal["padded", "packed"] = "padded"
    batch_tokens: int = 25_000
    batch_sentences: int = 0
    weights: tuple[float, ...] = ()
    sampling: float = 0.0
    seed: int = 1
    workers: int = 1
    ahead: int = 8

    def __post_init__(self) -> None:
        """Refuse what cannot be, and say what could."""
        check_kinds(self, "data")
        for name in ("max_tokens", "max_characters", "max_ratio", "batch_tokens", "workers", "ahead"):
            at_least(1, f"data.{name}", getattr(self, name))
        for name in ("valid_pairs", "batch_sentences"):
            at_least(0, f"data.{name}", getattr(self, name))
        seed("data.seed", self.seed)
        for name in ("min_script", "sampling"):
            fraction(f"data.{name}", getattr(self, name))
        for weight in self.weights:
            if not 0 < weight < float("inf"):
                raise RecipeError(f"data.weights={list(self.weights)} must all be over 0; leave a corpus out instead")
        if self.batch_tokens <= self.max_tokens:
            raise RecipeError(
                f"data.batch_tokens={self.batch_tokens} does not hold the longest sentence that data.max_tokens="
                f"{self.max_tokens} allows, with its end mark; use batch_tokens of at least {self.max_tokens + 1}"
            )


@dataclass(frozen=True)
class TrainRecipe:
    """How the model is trained (section 5), with the paper's way as the defaults.

    `learning_rate` is the highest that the schedule reaches; without it, the paper's: 1 / sqrt(d_model * warmup_steps).
    `clip` 0 clips nothing; `average` k averages the last k checkpoints (section 6.1); `ema` 0 keeps no moving average.
    `patience` 0 never stops early; otherwise so many evaluations without a better `stop_on` end the run.
    """

    steps: int = 100_000
    label_smoothing: float = 0.1
    optimiser: Literal["adam", "adamw", "muon"] = "adam"
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    weight_decay: float = 0.0
    schedule: Literal["inverse_sqrt", "cosine", "linear", "constant"] = "inverse_sqrt"
    warmup_steps: int = 4000
    learning_rate: float | None = None
    clip: float = 0.0
    accumulate: int = 1
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    compile: bool = False
    parallel: Literal["auto", "ddp", "fsdp"] = "auto"
    average: int = 5
    ema: float = 0.0
    save_every: int = 1000
    keep: int = 5
    evaluate_every: int = 1000
    log_every: int = 50
    stop_on: Literal["loss", "bleu"] = "loss"
    patience: int = 0
    max_skips: int = 5
    seed: int = 1

    def __post_init__(self) -> None:
        """Refuse what cannot be, and say what could."""
        check_kinds(self, "train")
        for name in (
            "steps",
            "accumulate",
            "average",
            "save_every",
            "evaluate_every",
            "log_every",
            "keep",
            "max_skips",
        ):
            at_least(1, f"train.{name}", getattr(self, name))
        for name in ("warmup_steps", "weight_decay", "clip", "patience", "epsilon"):
            at_least(0, f"train.{name}", getattr(self, name))
        seed("train.seed", self.seed)
        for name in ("label_smoothing", "beta1", "beta2", "ema"):
            fraction(f"train.{name}", getattr(self, name))
        if self.learning_rate is not None and not 0 < self.learning_rate < float("inf"):
            raise RecipeError(f"train.learning_rate must be over 0, and finite; got {self.learning_rate}")
        if self.learning_rate is None and not self.warmup_steps:
            raise RecipeError(
                "the paper's learning rate follows from train.warmup_steps, which is 0; give train.learning_rate"
            )
        if self.schedule in ("cosine", "linear") and self.warmup_steps >= self.steps:
            raise RecipeError(
                f"train.warmup_steps={self.warmup_steps} leaves nothing of train.steps={self.steps} for the rate to "
                f"fall in; use fewer warmup_steps, or train.schedule='inverse_sqrt'"
            )
        if self.keep < self.average:
            raise RecipeError(
                f"train.average={self.average} needs as many checkpoints, but train.keep={self.keep} are kept; use "
                f"train.keep={self.average}"
            )


@dataclass(frozen=True)
class Recipe:
    """All the choices of one run, a section each."""

    model: ModelRecipe = field(default_factory=ModelRecipe)
    text: TextRecipe = field(default_factory=TextRecipe)
    data: DataRecipe = field(default_factory=DataRecipe)
    train: TrainRecipe = field(default_factory=TrainRecipe)

    def __post_init__(self) -> None:
        """Refuse sections that are none."""
        for name, kind in get_type_hints(Recipe).items():
            if not isinstance(getattr(self, name), kind):
                raise RecipeError(
                    f"{name} must be a {kind.__name__}; got {getattr(self, name)!r}; dictionaries are for "
                    "Recipe.from_table"
                )

    @classmethod
    def load(cls, source: str | Path, changes: Iterable[str] = ()) -> Recipe:
        """A preset's name or a TOML file, then `changes` such as "model.dropout=0.3", the last word winning."""
        if not isinstance(source, str | Path):
            raise RecipeError(f"a recipe is the name of a preset or a TOML file; got {source!r}")
        if isinstance(source, str) and source in PRESETS:
            table: dict[str, Any] = {"model": {"preset": source}}
        else:
            table = read_toml(Path(source))
        apply_changes(table, changes)
        return cls.from_table(table)

    @classmethod
    def from_changes(cls, changes: Iterable[str]) -> Recipe:
        """The defaults, then `changes`."""
        table: dict[str, Any] = {}
        apply_changes(table, changes)
        return cls.from_table(table)

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Recipe:
        """A recipe from nested dictionaries, as `tomllib` gives them."""
        if not isinstance(table, Mapping):
            raise RecipeError(f"a recipe is made of a dictionary with a dictionary for each section; got {table!r}")
        sections = {f.name: f for f in fields(cls)}
        hints = get_type_hints(cls)
        made: dict[str, Any] = {}
        for name, values in table.items():
            if name not in sections:
                raise RecipeError(f"there is no section [{name}] in a recipe{suggest(name, sections)}")
            if not isinstance(values, Mapping):
                raise RecipeError(
                    f"{name} is a section of the recipe; write [{name}] and its keys below it, not {values!r}"
                )
            made[name] = section(hints[name], name, dict(values))
        return cls(**made)

    def to_toml(self) -> str:
        """The whole recipe as TOML, every value written out, so that later defaults cannot change an old model.

        Keys that mean nothing to its architecture are left out.
        """
        parts = []
        for name, values in asdict(self).items():
            idle = idle_keys(self.model.architecture) if name == "model" else set()
            told = {key: value for key, value in values.items() if value is not None and key not in idle}
            lines = [f"{key} = {toml_value(value)}" for key, value in told.items()]
            parts.append("\n".join([f"[{name}]", *lines]))
        return "\n\n".join(parts) + "\n"


def section(kind: type[S], name: str, values: dict[str, Any]) -> S:
    """One dataclass of the recipe from its table, each value checked against its type."""
    hints = get_type_hints(kind)
    preset = values.pop("preset", None) if kind is ModelRecipe else None
    if preset is not None and preset not in PRESETS:
        raise RecipeError(f"model.preset={preset!r} is not a preset{suggest(str(preset), PRESETS)}")
    checked = {}
    for key, value in values.items():
        if key not in hints:
            raise RecipeError(f"there is no key {name}.{key} in a recipe{suggest(key, hints)}")
        checked[key] = conform(value, hints[key], f"{name}.{key}")
    if preset is not None:
        of = preset_for(preset, checked.get("architecture", PRESETS[preset].architecture))
        return replace(of, **checked)  # type: ignore[return-value]  # kind is ModelRecipe here
    return kind(**checked)


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RecipeError(f"{path} is neither a file nor the name of a preset{suggest(str(path), PRESETS)}") from None
    except IsADirectoryError:
        raise RecipeError(f"{path} is a directory; expected a recipe, which is a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path} is not TOML: {error}") from None


def apply_changes(table: dict[str, Any], changes: Iterable[str]) -> None:
    """Changes into the tables, one after the other."""
    if isinstance(changes, str):
        raise RecipeError(f"changes come as a list, such as ['model.dropout=0.3']; got the text {changes!r}")
    for change in changes:
        if not isinstance(change, str):
            raise RecipeError(f"a change is a text such as 'model.dropout=0.3'; got {change!r}")
        apply_change(table, change)


def apply_change(table: dict[str, Any], change: str) -> None:
    """One `section.key=value` into the tables; the value is read as TOML, and as plain text where it is no TOML."""
    key, equals, text = change.partition("=")
    name, dot, entry = key.strip().partition(".")
    if not (equals and dot and name and entry):
        raise RecipeError(
            f"cannot read the change {change!r}; write it as section.key=value, such as model.dropout=0.3"
        )
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    if not isinstance(table.setdefault(name, {}), dict):
        raise RecipeError(f"{name} is a section of the recipe, and cannot hold the value {table[name]!r}")
    table[name][entry] = value


def toml_value(value: object) -> str:
    """One value as TOML; JSON's form of texts, numbers and lists is TOML's too."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # the one character that JSON allows bare
