"""The CTranslate2 engine, for machines without a C compiler; the model is converted on first use.

It runs its own beam search; its hypotheses are then ranked by our score. Hypotheses truncated at the length limit are
scored again with their EOS token. Greedy search is the same up to rounding.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from dragoman.config import ModelRecipe, Recipe
from dragoman.engines.base import check_supported, unusual_part
from dragoman.engines.native import default_threads
from dragoman.engines.specs import CTRANSLATE2
from dragoman.errors import DamagedError, DragomanError, MissingExtraError, SearchError
from dragoman.files import MANIFEST, check_new_directory, manifest_entries, staged, write_manifest
from dragoman.modeldir.info import read_info
from dragoman.modeldir.layout import RECIPE
from dragoman.modeldir.locate import read_recipe
from dragoman.modeldir.weights import EMBEDDING_TABLES, check_tensors, map_weights, tensor_layout
from dragoman.native.cache import cache_directory, private_directory, read_private
from dragoman.search.types import Hypothesis, Ids, Search, StopFlag
from dragoman.text.special_tokens import BOS, EOS, PAD, UNK
from dragoman.values import plural, suggest

if TYPE_CHECKING:
    from dragoman.search.constraints.tables import BatchConstraints

CTRANSLATE2_ACTIVATIONS: Final = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH", "tanh": "Tanh"}
MAX_POSITIONS: Final = 4096  # CTranslate2 needs a table of sines and cosines
Tensors = Mapping[str, NDArray[np.float32]]
MODEL: Final = "model"  # the folder of a converted model in its place of the cache
SPECIAL_NAMES: Final = {PAD: "<pad>", BOS: "<s>", EOS: "</s>", UNK: "<unk>"}


class CTranslate2Engine:
    """A model converted for CTranslate2, given as the content of its files, with one worker per thread."""

    name = "ctranslate2"
    capabilities = CTRANSLATE2

    def __init__(self, files: Mapping[str, bytes], threads: int | None = None) -> None:
        import ctranslate2

        self.threads = workers = threads or default_threads()
        self.batch = CTRANSLATE2.preferred_batch * workers
        self.translator: Any = ctranslate2.Translator(
            "model", files=dict(files), inter_threads=workers, intra_threads=1
        )
        self.precision = str(self.translator.compute_type)  # differs from the requested one if the CPU lacks it
        self.ids = {name: i for i, name in SPECIAL_NAMES.items()}

    @classmethod
    def load(cls, directory: Path, threads: int | None = None, quantize: bool = True) -> CTranslate2Engine | None:
        """Load a verified model directory; None if CTranslate2 is not installed or does not support the model."""
        try:
            import ctranslate2
        except ImportError:
            return None
        if unsupported_by_ctranslate2(Recipe.load(directory / RECIPE).model):
            return None
        kind = "int8" if quantize else "float32"
        key = (ctranslate2.__version__, kind, (directory / MANIFEST).read_bytes())
        cached = private_directory(cache_directory() / "ctranslate2")
        return cls(
            converted_files(directory, cached / hashlib.sha256(repr(key).encode()).hexdigest()[:20], kind), threads
        )

    def search(
        self,
        sources: Ids,
        search: Search,
        prefixes: Ids | None = None,
        constraints: BatchConstraints | None = None,
        stop: StopFlag | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the best hypotheses for each source, best first."""
        check_supported(self, search, prefixes, constraints)
        limits = [search.limit(len(source)) for source in sources]
        if stop is not None:
            stop.check()  # CTranslate2 itself cannot be interrupted
        found = self._translate(sources, search, max(limits, default=0))
        for i, (limit, outputs) in enumerate(zip(limits, found, strict=True)):
            if limit == 0 or any(len(output.ids) > limit for output in outputs):  # another sentence has a higher limit
                if stop is not None:
                    stop.check()
                found[i] = self._translate([sources[i]], search, limit)[0]
        self._score_unfinished(sources, found)
        return [self._rank(outputs, search, limit) for outputs, limit in zip(found, limits, strict=True)]

    def _translate(self, sources: Ids, search: Search, limit: int) -> list[list[Output]]:
        """Translate with CTranslate2; outputs of `limit` tokens have no EOS token."""
        if limit == 0:
            return [[Output([], 0.0)] for _ in sources]
        penalty = search.length_penalty if search.beam > 1 else 0.0  # one hypothesis is not ranked: score by log P
        try:
            results = self.translator.translate_batch(
                [source_tokens(source) for source in sources],
                beam_size=search.beam,
                num_hypotheses=search.beam,
                length_penalty=penalty,
                max_input_length=0,
                max_decoding_length=limit,
                min_decoding_length=search.min_length,
                max_batch_size=CTRANSLATE2.preferred_batch,
                suppress_sequences=[[SPECIAL_NAMES[PAD]], [SPECIAL_NAMES[BOS]]],
                return_scores=True,
            )
        except (RuntimeError, ValueError, LookupError, ArithmeticError) as error:  # C++ exceptions via pybind11
            longest = max(map(len, sources))
            raise SearchError(
                f"CTranslate2 failed on {plural(len(sources), 'sentence')}, the longest of {plural(longest, 'token')}, "
                f"with at most {plural(limit, 'output token')} and beam {search.beam}: {error}; split long lines "
                "(split='auto'), or use the engine 'native' or 'torch'",
                code="engine_failed",
            ) from None
        return [
            [
                Output(
                    [self.ids[token] if token in self.ids else int(token) for token in tokens],
                    None if len(tokens) == limit else score * (len(tokens) + 1) ** penalty,
                )
                for tokens, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in results
        ]

    def _score_unfinished(self, sources: Sequence[Sequence[int]], found: Sequence[Sequence[Output]]) -> None:
        """Rescore outputs that were truncated at the limit, with their EOS token, as the other engines do."""
        cut = [
            (source, output)
            for source, outputs in zip(sources, found, strict=True)
            for output in outputs
            if output.log_probability is None
        ]
        if not cut:
            return
        scored = self.translator.score_batch(
            [source_tokens(source) for source, _ in cut],
            [[SPECIAL_NAMES.get(i, str(i)) for i in output.ids] for _, output in cut],
            max_input_length=0,
            max_batch_size=CTRANSLATE2.preferred_batch,
        )
        for (_, output), result in zip(cut, scored, strict=True):
            output.log_probability = sum(result.log_probs)

    def _rank(self, outputs: Sequence[Output], search: Search, limit: int) -> list[Hypothesis]:
        """The best hypotheses by our score; as in the other engines, one as long as the limit counts as truncated."""
        ranked = []
        for output in outputs:
            length, total = len(output.ids), output.log_probability or 0.0
            ranked.append(Hypothesis(output.ids, total / search.normalizer(length + 1), total, length == limit))
        return sorted(ranked, key=lambda h: -h.score)[: search.n_best]


@dataclass
class Output:
    """The ids of a hypothesis and its log-probability; None while the EOS token is not scored."""

    ids: list[int]
    log_probability: float | None


def source_tokens(ids: Sequence[int]) -> list[str]:
    """The names of a source's tokens, EOS included."""
    return [*[SPECIAL_NAMES.get(i, str(i)) for i in ids], SPECIAL_NAMES[EOS]]


def unsupported_by_ctranslate2(recipe: ModelRecipe) -> str | None:
    """The first part of a model that CTranslate2 does not support."""
    if part := unusual_part(recipe, CTRANSLATE2.position_codes):
        return part
    if recipe.n_heads * recipe.key_size != recipe.d_model or recipe.n_heads * recipe.value_size != recipe.d_model:
        return "heads whose width is not d_model / n_heads"
    return None


def converted_files(directory: Path, cached: Path, kind: str) -> dict[str, bytes]:
    """The files of the converted model; it is converted if `cached` does not have it, byte for byte."""
    if cached.is_dir():
        try:
            return read_converted(cached)
        except DamagedError as error:
            logging.getLogger("dragoman").warning("%s; converting the model again", error)
    with staged(cached) as staging:
        to_ctranslate2(directory, staging / MODEL, kind)
        for file in (staging / MODEL).iterdir():
            file.chmod(0o600)
        write_manifest(staging / MODEL)
    return read_converted(cached)


def read_converted(cached: Path) -> dict[str, bytes]:
    """The content of each file of a converted model in the cache, verified by SHA-256 as it is read."""
    folder, files = private_directory(cached / MODEL), {}
    try:
        read_private(folder / MANIFEST)
        for name, entry in manifest_entries(folder).items():
            files[name] = read_private(folder / name)
            if (len(files[name]), hashlib.sha256(files[name]).hexdigest()) != entry:
                raise DamagedError(f"{folder / name} was damaged: its SHA-256 is not the one in {MANIFEST}")
    except (FileNotFoundError, ValueError) as error:  # also a damaged name in the manifest
        raise DamagedError(f"{folder} was damaged ({error})") from None
    return files


def to_ctranslate2(
    directory: str | Path, out: str | Path, quantization: str | None = None, tokens: Sequence[str] | None = None
) -> None:
    """Write the model of a verified `directory` to the new directory `out`; `quantization` is "int8", "float16"...

    Without `tokens`, a token is named by its id, and the four special tokens by their usual names.
    """
    try:
        from ctranslate2.specs import TransformerSpec, common_spec, model_spec
    except ImportError:
        raise MissingExtraError("ctranslate2", "ctranslate2", "converting to CTranslate2") from None
    directory, out = Path(directory), Path(out)
    if quantization is not None and quantization not in model_spec.ACCEPTED_MODEL_TYPES:
        raise DragomanError(
            f"unknown quantization {quantization!r}{suggest(quantization, sorted(model_spec.ACCEPTED_MODEL_TYPES))}",
            code="unknown_choice",
        )
    check_new_directory(out)
    recipe = read_recipe(directory).model
    if part := unsupported_by_ctranslate2(recipe):
        message = f"CTranslate2 does not support {part}; convert a model with the paper's layers"
        raise DragomanError(message, code="unsupported_model")
    weights = map_weights(directory)
    if weights is None:
        message = f"the weights of {directory} are not float32; pass a model written by `dragoman train`"
        raise DragomanError(message, code="unsupported_precision")
    source, target = read_info(directory).vocabulary_sizes
    shapes = {name: weight.shape for name, weight in weights.items()}
    check_tensors(weights.path, shapes, (tensor for tensor in tensor_layout(recipe, (source, target)) if tensor))
    for side, size in (("source", source), ("target", target)):
        if tokens is not None and len(tokens) != size:
            message = f"got {plural(len(tokens), 'token')}, but the {side} vocabulary of {directory} has {size:,}"
            raise DragomanError(message, code="count_mismatch")
    layers, pre_norm = (recipe.encoder_layers, recipe.decoder_layers), recipe.norm_order == "pre"
    activation = getattr(common_spec.Activation, CTRANSLATE2_ACTIVATIONS[recipe.activation])
    spec = TransformerSpec.from_config(layers, recipe.n_heads, pre_norm=pre_norm, activation=activation)
    fill_weights(spec, recipe, {name: weight.copy() for name, weight in weights.items()})  # quantized in place
    if recipe.norm_epsilon != ModelRecipe().norm_epsilon:
        spec.config.layer_norm_epsilon = recipe.norm_epsilon
    source_names, target_names = ([SPECIAL_NAMES.get(i, str(i)) for i in range(size)] for size in (source, target))
    spec.register_source_vocabulary(list(tokens or source_names))
    spec.register_target_vocabulary(list(tokens or target_names))
    spec.validate()
    spec.optimize(quantization=quantization)
    with staged(out) as directory_to_write:
        spec.save(str(directory_to_write))
        shutil.copy(directory / RECIPE, directory_to_write / RECIPE)


def fill_weights(spec: Any, recipe: ModelRecipe, weights: Tensors) -> None:
    """Assign the weights to CTranslate2's specification."""
    embeddings = [weights[f"embeddings.tables.{name}"] for name in EMBEDDING_TABLES[recipe.tie]]
    spec.encoder.embeddings[0].weight, spec.decoder.embeddings.weight = embeddings[:2]
    spec.decoder.projection.weight = embeddings[2]
    if recipe.output_bias:
        spec.decoder.projection.bias = weights["embeddings.output_bias"]
    for side, part in (("source", spec.encoder), ("target", spec.decoder)):
        learned = weights.get(f"{side}_positions.table")
        codes = position_table(MAX_POSITIONS, recipe.d_model) if learned is None else learned
        part.position_encodings.encodings = codes
    if recipe.norm_order == "pre":
        copy_norm(spec.encoder.layer_norm, weights, "encoder_norm")
        copy_norm(spec.decoder.layer_norm, weights, "decoder_norm")
    for side, layers in (("encoder", spec.encoder.layer), ("decoder", spec.decoder.layer)):
        for i, layer in enumerate(layers):
            at = f"{side}.{i}"
            copy_linear(layer.self_attention.linear[0], weights, f"{at}.attention.qkv")
            copy_linear(layer.self_attention.linear[1], weights, f"{at}.attention.output")
            copy_norm(layer.self_attention.layer_norm, weights, f"{at}.around_attention.norm")
            if side == "decoder":
                for j, name in enumerate(("query", "key_value", "output")):
                    copy_linear(layer.attention.linear[j], weights, f"{at}.cross.{name}")
                copy_norm(layer.attention.layer_norm, weights, f"{at}.around_cross.norm")
            copy_linear(layer.ffn.linear_0, weights, f"{at}.feed_forward.inner")
            copy_linear(layer.ffn.linear_1, weights, f"{at}.feed_forward.outer")
            copy_norm(layer.ffn.layer_norm, weights, f"{at}.around_feed_forward.norm")


def copy_linear(spec: Any, weights: Tensors, name: str) -> None:
    """Copy a matrix, and its bias if it has one."""
    spec.weight = weights[f"{name}.weight"]
    if f"{name}.bias" in weights:
        spec.bias = weights[f"{name}.bias"]


def copy_norm(spec: Any, weights: Tensors, name: str) -> None:
    """Copy the gain and bias of a layer norm."""
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


def position_table(positions: int, d_model: int) -> NDArray[np.float32]:
    """The position code of section 3.5, `[positions, d_model]`."""
    angle = np.arange(positions)[:, None] * 10000.0 ** (-np.arange(0, d_model, 2) / d_model)
    return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(positions, d_model).astype(np.float32)
