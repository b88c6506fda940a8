"""Sampled batches: the same in C, Python and processes, with seeds that depend on every counter."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, product

import numpy as np
import pytest
import torch

from dragoman.data.prepare.encoding import cached_tokenizer
from dragoman.data.prepare.pipeline import prepare_corpora
from dragoman.data.subword_sampling import pair_seeds
from dragoman.text.tokenizer import SubwordTokenizer
from small_corpora import RECIPE, put, some_pairs


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
def test_threads_in_c_processes_and_plain_python_make_the_same_batches(kind, tmp_path, monkeypatch):
    recipe = replace(RECIPE, text=replace(RECIPE.text, kind=kind))
    prepared = prepare_corpora([put(tmp_path, "a", some_pairs(60))], recipe, tmp_path / "out")
    runs, has_c = [], prepared.tokenizers[0].resamples_in_threads
    for in_c, workers in ((True, 1), (True, 3), (False, 1), (False, 2))[: 4 if kind == "bpe" else 3]:
        cached_tokenizer.cache_clear()
        with monkeypatch.context() as patch:
            if not in_c:  # as without a compiler; the processes have one, which makes no difference
                patch.setattr(SubwordTokenizer, "native_sampler", None)
            with prepared.loader(replace(recipe.data, sampling=0.3, workers=workers)) as loader:
                assert loader.sampler.workers.processes == (1 if in_c and has_c else workers)
                runs.append(list(islice(loader, 9)))
    for batches in runs[1:]:
        for a, b in zip(runs[0], batches, strict=True):
            assert torch.equal(a.source, b.source) and torch.equal(a.target_out, b.target_out)
    cached_tokenizer.cache_clear()  # of tokenizers that were told there is no compiler


def test_seeds_depend_on_every_counter():
    pairs = np.arange(50)
    found = [pair_seeds(seed, epoch, pairs, side) for seed, epoch, side in product((0, 1, 2**40), (0, 1, 2), (0, 1))]
    assert len(np.unique(np.concatenate(found))) == 18 * 50
    assert pair_seeds(3, 1, pairs[[7, 5]], 0).tolist() == pair_seeds(3, 1, pairs, 0)[[7, 5]].tolist()
