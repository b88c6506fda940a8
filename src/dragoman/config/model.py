"""The [model] section of the recipe (section 3 of the paper), and the presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from dragoman.errors import RecipeError
from dragoman.values import check_at_least, check_field_types, check_fields, check_fractions, divisors

IN_ATTENTION = ("relative", "rotary", "alibi")  # position codes that attention uses, instead of the embeddings
MAX_SIZE, MAX_LAYERS = 1_000_000, 1_000  # far larger than can be trained; the weights can still be counted
# Keys that have an effect only with some values of another key.
USED_WITH: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "window": ("pattern", ("local", "sparse")),
    "global_tokens": ("pattern", ("sparse",)),
    "random_tokens": ("pattern", ("sparse",)),
    "rank": ("pattern", ("low_rank",)),
    "max_distance": ("positions", ("relative",)),
    **dict.fromkeys(
        ("n_heads", "d_k", "d_v", "d_ff", "feed_forward_dropout", "activation", "attention_bias", "pattern"),
        ("architecture", ("transformer",)),
    ),
    **dict.fromkeys(("norm", "norm_order", "autoregression"), ("architecture", ("transformer",))),
    "norm_epsilon": ("norm", ("layer",)),
    **dict.fromkeys(("positions", "max_positions"), ("architecture", ("transformer", "convolutional"))),
    "attention": ("architecture", ("transformer", "recurrent")),
    **dict.fromkeys(("cell", "reverse_source"), ("architecture", ("recurrent",))),
    "kernel_width": ("architecture", ("convolutional",)),
}
PositionCodeName = Literal[
    "sinusoidal", "learned", "index", "normalized_index", "relative", "rotary", "alibi", "syntax", "none"
]


@dataclass(frozen=True)
class ModelRecipe:
    """The model of section 3; the defaults are the paper's base model.

    `d_k` and `d_v` are `d_model / n_heads` by default, as in section 3.2.2. `pattern` is what self-attention sees: all
    tokens ("full"); `window` tokens on either side ("local"); these, the first `global_tokens` and about
    `random_tokens` more ("sparse"); or, in the encoder, `rank` mixtures of all ("low_rank"). `max_distance` is the
    largest distance of "relative" positions; "syntax" adds a word's depth in its dependency tree in the encoder. Other
    architectures have a `cell` ("recurrent") or a `kernel_width` ("convolutional") instead of heads and feed-forward
    networks; docs/explanation/rivals.md lists the keys of each. `output_bias` adds a learned bias to the logits, and
    `norm_epsilon` is added to the variance in layer norms; imported models may need them.
    """

    architecture: Literal["transformer", "recurrent", "convolutional"] = "transformer"
    """Kind of model: the Transformer, or one of the models it is compared with (sections 1 and 2)."""
    d_model: int = 512
    """Width of the embeddings and of every sublayer's output (section 3.1)."""
    n_heads: int = 8
    """Number of attention heads, h (section 3.2.2)."""
    d_k: int | None = None
    """Size of a head's queries and keys; `d_model / n_heads` by default (section 3.2.2)."""
    d_v: int | None = None
    """Size of a head's values; `d_model / n_heads` by default (section 3.2.2)."""
    d_ff: int = 2048
    """Width of the hidden layer of the feed-forward networks (section 3.3)."""
    encoder_layers: int = 6
    """Number of encoder layers, N (section 3.1)."""
    decoder_layers: int = 6
    """Number of decoder layers, N (section 3.1)."""
    dropout: float = 0.1
    """Dropout rate of sublayer outputs and of embeddings with positions (section 5.4)."""
    attention_dropout: float = 0.0
    """Dropout rate of attention weights; not in the paper, but in its authors' code."""
    feed_forward_dropout: float = 0.0
    """Dropout rate of the hidden layer of the feed-forward networks; not in the paper."""
    activation: Literal["relu", "gelu", "silu", "tanh"] = "relu"
    """Activation of the feed-forward networks (section 3.3)."""
    attention: Literal["scaled_dot_product", "additive", "none"] = "scaled_dot_product"
    """Attention function (section 3.2.1); a recurrent model also works without attention ("none")."""
    attention_bias: bool = False
    """Biases in the projections of attention; the paper has none (section 3.2.2)."""
    autoregression: Literal["self_attention", "ssru"] = "self_attention"
    """How a decoder layer uses earlier target tokens: self-attention, or the recurrent SSRU (Kim et al., 2019)."""
    pattern: Literal["full", "local", "sparse", "low_rank"] = "full"
    """Positions that self-attention sees (sections 4 and 7)."""
    window: int = 16
    """Tokens to either side that `local` and `sparse` attention sees (section 4)."""
    global_tokens: int = 1
    """Leading tokens that see, and are seen by, all others in `sparse` attention."""
    random_tokens: int = 2
    """Approximate number of random tokens that each token sees in `sparse` attention."""
    rank: int = 32
    """Number of mixtures of all keys in `low_rank` attention."""
    positions: PositionCodeName = "sinusoidal"
    """Position code (section 3.5)."""
    max_positions: int = 1024
    """Number of learned positions, of positions that `low_rank` mixes, and divisor of a target's `normalized_index`."""
    max_distance: int = 16
    """Largest distance that `relative` positions distinguish."""
    norm: Literal["layer", "batch"] = "layer"
    """Layer normalization, or batch normalization to compare with (section 3.1)."""
    norm_order: Literal["post", "pre"] = "post"
    """Normalize after each residual connection as in the paper, or before each sublayer (section 3.1)."""
    cell: Literal["lstm", "gru", "rnn"] = "lstm"
    """Cell of the recurrent model (section 1); "rnn" is Elman's, tanh without gates."""
    reverse_source: bool = False
    """Read the source backward, in a recurrent model without attention (Sutskever et al., 2014)."""
    kernel_width: int = 3
    """Width of the convolutional model's windows, an odd number (section 2)."""
    tie: Literal["all", "target", "none"] = "all"
    """Embedding matrices that are shared: both with the projection, the target's with it, or none (section 3.4)."""
    output_bias: bool = False
    """Learned bias of the logits, which imported models may have (section 3.4)."""
    norm_epsilon: float = 1e-5
    """Number added to the variance in layer normalization (section 3.1)."""

    def __post_init__(self) -> None:
        """Reject settings that do not describe a valid model."""
        check_field_types(self, "model")
        check_fields(self, "model", 1, "d_model n_heads d_ff max_positions rank max_distance", MAX_SIZE)
        check_fields(self, "model", 0, "window global_tokens random_tokens")
        check_fields(self, "model", 1, "encoder_layers decoder_layers", MAX_LAYERS)
        check_fractions(self, "model", "dropout attention_dropout feed_forward_dropout")
        if not 0 < self.norm_epsilon <= 1:
            raise RecipeError(
                f"model.norm_epsilon={self.norm_epsilon} must be above 0 and at most 1; 1e-5 is usual",
                code="out_of_range",
            )
        splits = self.architecture != "transformer" or self.d_model % self.n_heads == 0
        if (self.d_k is None or self.d_v is None) and not splits:
            raise RecipeError(
                f"model.d_model={self.d_model} is not divisible by model.n_heads={self.n_heads}; use n_heads from "
                f"{divisors(self.d_model)}, or give both model.d_k and model.d_v",
                code="not_divisible",
            )
        for name in ("d_k", "d_v"):
            if getattr(self, name) is not None:
                check_at_least(1, f"model.{name}", getattr(self, name), MAX_SIZE)
        if self.positions in ("sinusoidal", "syntax") and self.d_model % 2 and self.architecture != "recurrent":
            raise RecipeError(
                f"model.d_model={self.d_model} is odd, but sinusoidal positions are pairs of sine and cosine; "
                f"use d_model={self.d_model + 1}, or model.positions='learned'",
                code="not_divisible",
            )
        if self.architecture == "convolutional" and self.positions in IN_ATTENTION:
            raise RecipeError(
                f"model.positions={self.positions!r} needs self-attention, which model.architecture='convolutional' "
                "does not have; use 'learned', 'sinusoidal' or 'none'",
                code="conflicting_settings",
            )
        if self.positions == "rotary" and self.key_size % 2:
            raise RecipeError(
                f"model.positions='rotary' rotates pairs of features, but d_k={self.key_size} is odd; use an even "
                "model.d_k, or other model.n_heads",
                code="not_divisible",
            )
        if self.attention == "additive" and self.positions in ("relative", "alibi"):
            raise RecipeError(
                f"model.positions={self.positions!r} changes dot-product scores, which model.attention='additive' "
                "does not have; use 'sinusoidal', 'learned', 'rotary' or 'none', or the dot product",
                code="conflicting_settings",
            )
        self._check_attention()
        if self.pattern == "low_rank" and (self.attention == "additive" or self.positions in IN_ATTENTION):
            one = f"positions={self.positions!r}" if self.positions in IN_ATTENTION else "attention='additive'"
            raise RecipeError(
                f"model.pattern='low_rank' mixes keys before attention, so it cannot be combined with model.{one}; "
                "use positions 'sinusoidal', 'learned' or 'none' and the scaled dot product, or another pattern",
                code="conflicting_settings",
            )
        if self.kernel_width < 1 or self.kernel_width % 2 == 0:
            raise RecipeError(
                f"model.kernel_width={self.kernel_width} must be odd, so that the encoder sees equally far to both "
                "sides; use 3 or 5, for example",
                code="out_of_range",
            )
        check_at_least(1, "model.kernel_width", self.kernel_width, MAX_SIZE)
        self._check_unused()

    def _check_attention(self) -> None:
        """Reject settings that go only with attention to the source, or only without."""
        if self.attention != "none":
            if self.reverse_source:
                raise RecipeError(
                    "model.reverse_source=true is for model.attention='none'; with attention, the first encoder layer "
                    "reads in both directions: leave it out",
                    code="unused_setting",
                )
            return
        if self.architecture != "recurrent":
            raise RecipeError(
                f"model.attention='none' needs model.architecture='recurrent', not {self.architecture!r}; use "
                "'recurrent', or another model.attention",
                code="conflicting_settings",
            )
        if self.encoder_layers != self.decoder_layers:
            raise RecipeError(
                "without attention, each decoder layer starts from the state of an encoder layer, but "
                f"model.encoder_layers={self.encoder_layers} and model.decoder_layers={self.decoder_layers}; use the "
                "same number",
                code="conflicting_settings",
            )
        if self.attention_dropout:
            raise RecipeError(
                f"model.attention_dropout={self.attention_dropout} has no effect with model.attention='none'; leave it "
                "out",
                code="unused_setting",
            )

    def _check_unused(self) -> None:
        """Reject settings without effect."""
        for name, (key, users) in USED_WITH.items():
            given, default = getattr(self, name), type(self).__dataclass_fields__[name].default
            chosen = getattr(self, key)
            if given != default and chosen not in users:
                raise RecipeError(
                    f"model.{name}={given!r} has no effect with model.{key}={chosen!r}; leave it out, or use "
                    f"model.{key}={' or '.join(map(repr, users))}",
                    code="unused_setting",
                )

    @property
    def reads_trees(self) -> bool:
        """Whether the model needs dependency trees of source sentences."""
        return self.positions == "syntax"

    @property
    def key_size(self) -> int:
        """d_k, by default d_model / n_heads."""
        return self.d_k if self.d_k is not None else self.d_model // self.n_heads

    @property
    def value_size(self) -> int:
        """d_v, by default d_model / n_heads."""
        return self.d_v if self.d_v is not None else self.d_model // self.n_heads

    @property
    def cross_attention_shape(self) -> tuple[int, int]:
        """The number of decoder layers that attend to the source, and the number of heads in each."""
        match self.architecture:
            case "transformer":
                return self.decoder_layers, self.n_heads
            case "recurrent":
                return int(self.attention != "none"), 1
            case "convolutional":
                return self.decoder_layers, 1


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
    """A preset's sizes for an architecture; keys without effect keep their defaults."""
    sizes = {key: value for key, value in asdict(PRESETS[name]).items() if key not in unused_keys(architecture)}
    return ModelRecipe(**{**sizes, "architecture": architecture})


def unused_keys(architecture: str) -> set[str]:
    """The keys of [model] that have no effect on an architecture."""
    idle = {name for name, (key, users) in USED_WITH.items() if key == "architecture" and architecture not in users}
    return idle | {name for name, (key, _) in USED_WITH.items() if key in idle}
