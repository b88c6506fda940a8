"""The [text] and [data] sections of the recipe (section 5.1 of the paper) and [train] (section 5)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from dragoman.errors import RecipeError
from dragoman.values import (
    MAX_WEIGHT,
    MIN_WEIGHT,
    check_at_least,
    check_field_types,
    check_fields,
    check_fractions,
    check_seed,
)

MAX_WORKERS = 1_024  # same limit as for an engine's threads
LANGUAGE_CODE, MAX_LANGUAGE_CODE = r"[A-Za-z0-9]+([-_][A-Za-z0-9]+)*", 32  # of a target language


@dataclass(frozen=True)
class TextRecipe:
    """Tokenization (section 5.1): the paper uses BPE with one vocabulary for both sides.

    `vocabulary_size` counts the special ids and the 256 bytes; the paper's is 37,000, for 4.5 million pairs. `targets`
    are the languages that one model translates into, each with a token that precedes the source; empty for a model of
    one language pair. `kind` "imported" is for models of other toolkits, whose tokenizers are not learned here.
    """

    kind: Literal["bpe", "unigram", "wordpiece", "imported"] = "bpe"
    """Kind of tokenizer; `imported` is for models of other toolkits (section 5.1)."""
    vocabulary_size: int = 8000
    """Number of tokens, with the special tokens and the 256 bytes (section 5.1)."""
    shared: bool = True
    """One vocabulary for source and target (section 5.1)."""
    targets: tuple[str, ...] = ()
    """Target languages of a model with several; empty for one language pair."""

    def __post_init__(self) -> None:
        """Reject a vocabulary that is too small, and invalid languages."""
        check_field_types(self, "text")
        check_at_least(1 if self.kind == "imported" else 300, "text.vocabulary_size", self.vocabulary_size)
        for code in self.targets:
            if len(code) > MAX_LANGUAGE_CODE or not re.fullmatch(LANGUAGE_CODE, code):
                raise RecipeError(
                    f"text.targets={list(self.targets)} names {code!r}, which is not a language code; use letters, "
                    "digits and hyphens, such as 'de' or 'zh-Hans'",
                    code="invalid_language_code",
                )
        if len({*self.targets}) != len(self.targets):
            raise RecipeError(
                f"text.targets={list(self.targets)} names a language twice; list each once", code="duplicate_language"
            )
        if self.kind != "imported" and self.vocabulary_size - len(self.targets) < 300:
            raise RecipeError(
                f"text.vocabulary_size={self.vocabulary_size} is too small with the tokens of {len(self.targets)} "
                f"target languages; use at least {300 + len(self.targets)}",
                code="out_of_range",
            )


@dataclass(frozen=True)
class DataRecipe:
    """From files of sentence pairs to batches (section 5.1): cleaning and batching.

    `batch_tokens` applies to source and target separately, EOS included; the paper has about 25,000 of each. `weights`
    are the number of passes over each corpus per epoch, and override the weights given when preparing.
    """

    max_tokens: int = 256
    """Pairs with more tokens on a side are dropped."""
    max_characters: int = 2000
    """Pairs with more characters on a side are dropped."""
    max_ratio: float = 4.0
    """Pairs are dropped if the longer side, in bytes, exceeds this times the shorter, plus 16."""
    min_script: float = 0.2
    """Pairs are dropped if less than this share of a side's letters is in its script."""
    source_script: str = "auto"
    """Script of the source, such as `latin`; `auto` detects it, `off` disables the check."""
    target_script: str = "auto"
    """Script of the target, such as `latin`; `auto` detects it, `off` disables the check."""
    drop_duplicates: bool = True
    """Drop pairs that occurred before."""
    drop_copies: bool = True
    """Drop pairs whose sides are equal."""
    valid_pairs: int = 2000
    """Pairs held out for validation if no validation set is given; at most one pair in twenty."""
    layout: Literal["padded", "packed"] = "padded"
    """Batches as padded rows, or packed end to end."""
    batch_tokens: int = 25_000
    """Largest number of source tokens, and of target tokens, in a batch (section 5.1)."""
    batch_sentences: int = 0
    """Largest number of sentences in a batch; 0 for no limit."""
    weights: tuple[float, ...] = ()
    """Passes through each corpus per epoch, instead of the weights given when preparing."""
    sampling: float = 0.0
    """Strength of subword sampling (BPE-dropout and its like) in training; 0 for none."""
    seed: int = 1
    """Seed of the order of pairs and of subword sampling."""
    workers: int = 1
    """Threads that make batches."""
    ahead: int = 8
    """Batches that are made in advance."""

    def __post_init__(self) -> None:
        """Reject values that are out of range or in conflict."""
        check_field_types(self, "data")
        check_fields(self, "data", 1, "max_tokens max_characters max_ratio batch_tokens")
        check_fields(self, "data", 1, "workers ahead", MAX_WORKERS)
        check_fields(self, "data", 0, "valid_pairs batch_sentences")
        check_seed("data.seed", self.seed)
        check_fractions(self, "data", "min_script sampling")
        for weight in self.weights:
            if not MIN_WEIGHT <= weight <= MAX_WEIGHT:
                raise RecipeError(
                    f"data.weights={list(self.weights)} must be from {MIN_WEIGHT} to {MAX_WEIGHT:,}; leave out a "
                    "corpus instead of giving it less weight",
                    code="out_of_range",
                )
        if self.batch_tokens <= self.max_tokens:
            raise RecipeError(
                f"data.batch_tokens={self.batch_tokens} is too small for a sentence of data.max_tokens="
                f"{self.max_tokens} tokens and EOS; use at least {self.max_tokens + 1}",
                code="out_of_range",
            )


@dataclass(frozen=True)
class TrainRecipe:
    """Training (section 5); the defaults are the paper's settings.

    `learning_rate` is the peak of the schedule; by default the paper's, 1 / sqrt(d_model * warmup_steps).
    `clip` 0 disables clipping; `average` k averages the last k checkpoints (section 6.1); `ema` 0 disables averaging.
    `alignment_weight` over 0 guides one cross-attention head by word alignments of the training data.
    `r_drop` over 0 is the weight of R-Drop, which passes each batch through the model twice (Liang et al. use 5).
    `patience` is the number of evaluations without a better `stop_on` that ends the run; 0 never stops early.
    """

    steps: int = 100_000
    """Number of training steps (section 5.2)."""
    label_smoothing: float = 0.1
    """Probability mass that is spread over the vocabulary (section 5.4)."""
    r_drop: float = 0.0
    """Weight of R-Drop, which passes each batch through the model twice; 0 for none."""
    alignment_weight: float = 0.0
    """Weight of guided alignment, a loss on one cross-attention head (Garg et al. use 0.05); 0 for none."""
    alignment_layer: int = 0
    """Decoder layer of the guided head, counted from 1; 0 is the last but one."""
    alignment_head: int = 1
    """Guided head of that layer, counted from 1."""
    optimizer: Literal["adam", "adamw", "muon"] = "adam"
    """Optimizer (section 5.3)."""
    beta1: float = 0.9
    """Decay rate of the optimizer's first moment (section 5.3)."""
    beta2: float = 0.98
    """Decay rate of the optimizer's second moment (section 5.3)."""
    epsilon: float = 1e-9
    """Number added to the denominator of the optimizer's update (section 5.3)."""
    weight_decay: float = 0.0
    """Weight decay; an L2 penalty with Adam."""
    schedule: Literal["inverse_sqrt", "cosine", "linear", "constant"] = "inverse_sqrt"
    """Learning rate after warm-up (section 5.3)."""
    warmup_steps: int = 4000
    """Steps in which the learning rate rises linearly (section 5.3)."""
    learning_rate: float | None = None
    """Peak learning rate; `1 / sqrt(d_model * warmup_steps)` by default (section 5.3)."""
    clip: float = 0.0
    """Largest norm of the gradient; 0 for no clipping."""
    accumulate: int = 1
    """Batches whose gradients are added up for one step."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of matrix products; `auto` is bfloat16 on a GPU and float32 on a CPU."""
    compile: bool = False
    """Compile the training step; on a GPU it becomes a CUDA graph."""
    parallel: Literal["auto", "ddp", "fsdp"] = "auto"
    """Distribution over several processes: replicated (DDP) or sharded (FSDP) weights (section 5.2)."""
    average: int = 5
    """Number of last checkpoints to average (section 6.1)."""
    ema: float = 0.0
    """Decay of an exponential moving average of the weights; 0 for none."""
    save_every: int = 1000
    """Steps between checkpoints (section 6.1)."""
    keep: int = 5
    """Number of checkpoints to keep."""
    evaluate_every: int = 1000
    """Steps between evaluations on the validation set."""
    log_every: int = 50
    """Steps between lines of the training log."""
    stop_on: Literal["loss", "bleu"] = "loss"
    """Figure that early stopping watches."""
    patience: int = 0
    """Evaluations without improvement after which training stops; 0 never stops early."""
    max_skips: int = 5
    """Consecutive steps with a loss or gradient that is not finite after which training stops."""
    seed: int = 1
    """Seed of the initial weights and of dropout."""
    lora: int = 0
    """Rank of LoRA adapters, trained instead of the weights of the model given by `--from`; 0 for none."""
    lora_alpha: float | None = None
    """Scale of the adapters, times their rank; twice the rank by default."""
    lora_projections: tuple[str, ...] = ()
    """Projections that get adapters, such as `["qkv", "output"]`; all by default."""

    def __post_init__(self) -> None:
        """Reject values that are out of range or in conflict."""
        check_field_types(self, "train")
        self._check_lora()
        check_fields(self, "train", 1, "steps accumulate average save_every evaluate_every log_every keep max_skips")
        check_fields(
            self, "train", 0, "warmup_steps weight_decay clip patience epsilon r_drop alignment_weight alignment_layer"
        )
        check_fields(self, "train", 1, "alignment_head")
        for name in ("weight_decay", "epsilon", "r_drop", "alignment_weight"):
            if getattr(self, name) == float("inf"):
                raise RecipeError(f"train.{name} must be finite; got inf", code="out_of_range")
        check_seed("train.seed", self.seed)
        check_fractions(self, "train", "label_smoothing beta1 beta2 ema")
        if self.learning_rate is not None and not 0 < self.learning_rate < float("inf"):
            raise RecipeError(
                f"train.learning_rate={self.learning_rate} must be above 0 and finite", code="out_of_range"
            )
        if self.learning_rate is None and not self.warmup_steps:
            raise RecipeError(
                "the default train.learning_rate depends on train.warmup_steps, which is 0; set either of them",
                code="missing_setting",
            )
        if self.schedule in ("cosine", "linear") and self.warmup_steps >= self.steps:
            raise RecipeError(
                f"train.warmup_steps={self.warmup_steps} is not below train.steps={self.steps}, so the rate cannot "
                f"decay; use fewer warmup_steps, or train.schedule='inverse_sqrt'",
                code="out_of_range",
            )
        if self.keep < self.average:
            raise RecipeError(
                f"train.average={self.average} needs that many checkpoints, but train.keep={self.keep} keeps fewer; "
                f"use train.keep={self.average}",
                code="out_of_range",
            )

    def _check_lora(self) -> None:
        """Reject settings of adapters that are out of range or have no effect."""
        check_fields(self, "train", 0, "lora")
        if self.lora_alpha is not None and not 0 < self.lora_alpha < float("inf"):
            raise RecipeError(f"train.lora_alpha={self.lora_alpha} must be above 0 and finite", code="out_of_range")
        if not self.lora and (self.lora_alpha is not None or self.lora_projections):
            raise RecipeError(
                "train.lora_alpha and train.lora_projections have no effect without train.lora; leave them out, or "
                "set train.lora=16",
                code="unused_setting",
            )

    @property
    def lora_scale(self) -> float:
        """The factor of the adapters' products."""
        return 2.0 if self.lora_alpha is None else self.lora_alpha / self.lora
