"""The C engine's structures, and which models it supports."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Final

from dragoman.config import ModelRecipe

Workers = ctypes.Array[ctypes.c_void_p]  # the C side's memory of one thread, for each model
MAX_RECORDED: Final = 3  # heads whose attention is recorded in a search
ACTIVATION_CODES: Final = {"relu": 2, "gelu": 3, "silu": 4, "tanh": 5}
POSITION_CODES: Final = {"none": 0, "sinusoidal": 1, "learned": 2, "rotary": 3, "alibi": 4, "relative": 5}
SUPPORTED_FIELDS: Final = (
    *("d_model", "n_heads", "d_k", "d_v", "d_ff", "encoder_layers", "decoder_layers", "max_positions", "max_distance"),
    *("dropout", "attention_dropout", "feed_forward_dropout", "attention_bias", "norm_order", "norm_epsilon"),
    *("tie", "output_bias", "autoregression"),
)


class ModelConfig(ctypes.Structure):
    """`ModelConfig` of native/translate/model.h."""

    _fields_ = (
        *((n, ctypes.c_int32) for n in ("d_model", "heads", "d_k", "d_v", "d_ff", "encoder_layers", "decoder_layers")),
        *((n, ctypes.c_int32) for n in ("source_vocabulary", "target_vocabulary", "activation", "positions")),
        *((n, ctypes.c_int32) for n in ("max_positions", "pre_norm", "quantized", "threads", "max_distance", "ssru")),
        ("epsilon", ctypes.c_float),
    )


class TranslationJob(ctypes.Structure):
    """`TranslationJob` of native/translate/job.h."""

    _fields_ = (
        *((n, ctypes.c_int32) for n in ("sentences", "beam", "n_best", "min_length", "no_repeat", "max_length")),
        ("threads", ctypes.c_int32),
        *((n, ctypes.c_void_p) for n in ("source", "source_lengths", "limits", "prefix", "prefix_lengths")),
        *((n, ctypes.c_void_p) for n in ("normalizers", "tokens", "lengths", "scores", "log_probabilities")),
        *((n, ctypes.c_int32) for n in ("models", "mean")),
        ("workers", ctypes.c_void_p),
        *((n, ctypes.c_int32) for n in ("sampled", "top_k")),
        *((n, ctypes.c_double) for n in ("temperature", "top_p")),
        ("keys", ctypes.c_void_p),
        ("recorded", ctypes.c_int32),
        *((n, ctypes.c_int32 * MAX_RECORDED) for n in ("recorded_layers", "recorded_heads")),
        ("longest_source", ctypes.c_int32),
        *((n, ctypes.c_void_p) for n in ("maps", "spelling", "constraints", "stop")),
    )


def recorded_integers(values: Sequence[int]) -> ctypes.Array[ctypes.c_int32]:
    """A number for each recorded head, padded with zeros."""
    return (ctypes.c_int32 * MAX_RECORDED)(*values)


class ForcedJob(ctypes.Structure):
    """`ForcedJob` of native/translate/forced.h."""

    _fields_ = (
        ("sentences", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        *((n, ctypes.c_void_p) for n in ("source", "source_lengths", "target", "target_lengths")),
        *((n, ctypes.c_void_p) for n in ("log_probabilities", "encoder_maps", "decoder_maps", "cross_maps")),
        *((n, ctypes.c_int32) for n in ("models", "mean")),
        ("workers", ctypes.c_void_p),
    )


class VocabularySpelling(ctypes.Structure):
    """`VocabularySpelling` of native/translate/constraints.h."""

    _fields_ = (("width", ctypes.c_int32), *((n, ctypes.c_void_p) for n in ("stream", "first", "last")))


class PhraseTrie(ctypes.Structure):
    """`PhraseTrie` of native/translate/constraints.h."""

    _fields_ = tuple((n, ctypes.c_void_p) for n in ("first_edge", "edges", "shorter"))


class AvoidedAutomaton(ctypes.Structure):
    """`AvoidedAutomaton` of native/translate/constraints.h."""

    _fields_ = (("trie", PhraseTrie), ("full", ctypes.c_void_p))


class RequiredAutomaton(ctypes.Structure):
    """`RequiredAutomaton` of native/translate/constraints.h."""

    _fields_ = (
        *((n, ctypes.c_int32) for n in ("groups", "starts", "max_follows")),
        ("trie", PhraseTrie),
        *((n, ctypes.c_void_p) for n in ("ending", "length", "credit", "needed", "min_tokens", "saved", "nested")),
        *((n, ctypes.c_void_p) for n in ("first_follow", "follows", "start_tokens")),
    )


class SentenceConstraints(ctypes.Structure):
    """`SentenceConstraints` of native/translate/constraints.h."""

    _fields_ = (("required", ctypes.c_void_p), ("avoided", ctypes.c_void_p))


STRUCTURES: Final = (  # compared with C when the library is loaded
    *(ModelConfig, TranslationJob, ForcedJob),
    *(VocabularySpelling, PhraseTrie, AvoidedAutomaton, RequiredAutomaton, SentenceConstraints),
)


def unsupported_by_native(recipe: ModelRecipe) -> str | None:
    """The first part of a model that the engine does not support; fields not listed here must have their defaults."""
    codes = {"activation": ACTIVATION_CODES, "positions": POSITION_CODES}
    for field in fields(recipe):
        value = getattr(recipe, field.name)
        supported = field.name in SUPPORTED_FIELDS or value in codes.get(field.name, ())
        if not supported and (field.default is MISSING or value != field.default):
            return f"model.{field.name}={value!r}"
    return None
