"""Those who translate in benchmarks/translate_cpu.py: each gives a function from sources, beam and length to tokens."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

VOCABULARY = 37_000
OURS, PEERS = ("ours int8", "ours float32"), ("CTranslate2 int8", "CTranslate2 float32", "Hugging Face")
Sources = Sequence[Sequence[int]]
Translate = Callable[[Sources, int, int], list[list[int]]]  # sources, beam, forced length of the output


def model(work: Path, preset: str, positions: str = "sinusoidal") -> Path:
    """A model of a preset's sizes with random weights, made once."""
    place = work / (preset if positions == "sinusoidal" else f"{preset}-{positions}")
    if not place.is_dir():
        import torch

        from dragoman.config import PRESETS, Recipe
        from dragoman.files import staged, write_manifest
        from dragoman.modeldir.info import ModelInfo
        from dragoman.modeldir.save import write_model_files
        from dragoman.models.loading import as_arrays, build_model

        torch.manual_seed(1)
        recipe = replace(PRESETS[preset], positions=positions)
        weights = build_model(recipe, VOCABULARY, 0).state_dict()
        with staged(place) as directory:
            write_model_files(directory, Recipe(model=recipe), ModelInfo(VOCABULARY), as_arrays(weights))
            write_manifest(directory)
    return place


def ours(directory: Path, quantize: bool) -> list[Translate]:
    from dragoman.engines.native import NativeEngine
    from dragoman.native import why_not
    from dragoman.search.types import Search

    engine = NativeEngine.load(directory, None, quantize)
    if engine is None:
        raise SystemExit(f"the native engine is not available: {why_not('translate')}")

    def translate(sources: Sources, beam: int, length: int) -> list[list[int]]:
        found = engine.search(sources, Search(beam=beam, min_length=length, max_length=length))
        return [best[0].ids for best in found]

    return [translate]


def ctranslate2(directory: Path, work: Path, quantize: bool) -> list[Translate]:
    """Settings to choose from: one worker, or one for each core with several sizes of batch."""
    import ctranslate2

    from dragoman.engines.ctranslate2_conversion import to_ctranslate2

    kind = "int8" if quantize else "float32"
    place = work / f"{directory.name}-ctranslate2-{kind}"
    if not place.is_dir():
        to_ctranslate2(directory, place, kind)

    @cache
    def made(workers: int, intra: int) -> ctranslate2.Translator:
        return ctranslate2.Translator(str(place), compute_type=kind, inter_threads=workers, intra_threads=intra)

    def with_settings(workers: int, intra: int, batch: int) -> Translate:
        def translate(sources: Sources, beam: int, length: int) -> list[list[int]]:
            found = made(workers, intra).translate_batch(
                [[*map(str, source), "</s>"] for source in sources],
                beam_size=beam,
                min_decoding_length=length,
                max_decoding_length=length,
                max_input_length=0,
                max_batch_size=batch,
            )
            return [[int(token) if token.isdigit() else 3 for token in f.hypotheses[0]] for f in found]

        return translate

    cores = len(os.sched_getaffinity(0))
    return [with_settings(1, 1, 0), with_settings(1, cores, 0)] + [with_settings(cores, 1, b) for b in (16, 32)]


def hugging_face(directory: Path) -> list[Translate]:
    """MarianMTModel of the same sizes, on one thread or on all."""
    import torch
    import transformers

    from dragoman.config import Recipe
    from dragoman.modeldir.info import read_info

    recipe = Recipe.load(directory / "recipe.toml").model
    config = transformers.MarianConfig(
        vocab_size=read_info(directory).vocabulary_sizes[0], d_model=recipe.d_model,
        encoder_layers=recipe.encoder_layers, decoder_layers=recipe.decoder_layers,
        encoder_attention_heads=recipe.n_heads,
        decoder_attention_heads=recipe.n_heads, encoder_ffn_dim=recipe.d_ff, decoder_ffn_dim=recipe.d_ff,
        activation_function="relu", max_position_embeddings=4096, scale_embedding=True, pad_token_id=0, eos_token_id=2,
        decoder_start_token_id=1, forced_eos_token_id=None, bos_token_id=1,
    )  # fmt: skip
    made = transformers.MarianMTModel(config).eval()

    def with_threads(threads: int) -> Translate:
        @torch.inference_mode()
        def translate(sources: Sources, beam: int, length: int) -> list[list[int]]:
            torch.set_num_threads(threads)
            rows = torch.tensor([[*source, 2] for source in sources])
            found = made.generate(
                input_ids=rows, attention_mask=torch.ones_like(rows), num_beams=beam, do_sample=False,
                min_new_tokens=length, max_new_tokens=length,
            )  # fmt: skip
            return [row[1:] for row in found.tolist()]

        return translate

    return [with_threads(threads) for threads in sorted({1, len(os.sched_getaffinity(0))})]


def settings_of(name: str, work: Path, preset: str) -> list[Translate]:
    """The settings of a contender to choose from, for a preset."""
    return settings_for(name, work, model(work, preset))


def settings_for(name: str, work: Path, directory: Path) -> list[Translate]:
    """The settings of a contender to choose from, for a model."""
    if name in OURS:
        return ours(directory, name == OURS[0])
    if name == PEERS[2]:
        return hugging_face(directory)
    return ctranslate2(directory, work, name == PEERS[0])
