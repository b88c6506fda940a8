"""A Translator with the CUDA engine: an imported model with an output bias, constraints, prefixes, alignments.

On a GPU the steps are recorded; on a CPU they are run one by one.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.conversion.detect import read_source_model
from dragoman.conversion.imported_model import ImportOptions
from dragoman.engines.cuda.engine import CudaEngine
from dragoman.translation.translator import Translator
from opus_model import lines, write_opus

TEXTS = [*lines(0)[100:108]]
REQUESTS: dict[str, dict[str, Any]] = {
    "plain": {"beam": 3, "n_best": 2},
    "prefix": {"beam": 2, "prefix": "Das", "no_repeat": 2, "alignment": True, "attention": True},
    "constraints": {"beam": 3, "require": ["Haus"], "avoid": ["der", "die"], "no_repeat": 2},
}


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("imported")
    read_source_model(write_opus(place / "opus"), ImportOptions()).write(place / "model")
    return place / "model"


def translator(imported: Path, device: torch.device, engine: str) -> Translator:
    """On the CPU, the torch engine is replaced by the CUDA engine's steps, if these are meant."""
    if device.type == "cuda":
        return Translator.load(imported, device="cuda", engine=engine, precision="float32")
    found = Translator.load(imported, device="cpu", engine="torch")
    if engine == "cuda":
        steps = CudaEngine(found.engines.torch.model, torch.float32, "cpu")
        steps.capabilities = replace(steps.capabilities, devices=("cpu",))
        found.engines.loaded["torch"] = steps
    return found


def test_an_imported_model_translates_like_the_torch_engine(imported: Path, device: torch.device) -> None:
    fast, reference = (translator(imported, device, name) for name in ("cuda", "torch"))
    bias = reference.engines.torch.model.projection_bias()
    assert bias is not None and bias.detach().abs().max() > 1  # Marian's final_logits_bias
    for name, options in REQUESTS.items():
        options = {"max_length": 9, "min_length": 3, **options}
        found, expected = fast.translate(TEXTS, **options), reference.translate(TEXTS, **options)
        same = [(a, b) for a, b in zip(found, expected, strict=True) if a.text == b.text]
        assert len(same) >= (len(TEXTS) if device.type == "cpu" else len(TEXTS) - 1), name  # near ties
        for ours, theirs in same:
            assert ours.log_probability == pytest.approx(theirs.log_probability, abs=1e-3)
            assert (ours.met, ours.unmet, ours.alignment) == (theirs.met, theirs.unmet, theirs.alignment)
            if options.get("attention"):
                np.testing.assert_allclose(ours.attention, theirs.attention, atol=1e-4)
                np.testing.assert_allclose(ours.alignment_weights, theirs.alignment_weights, atol=1e-4)
        if name == "constraints":
            assert sum("Haus" in one.text for one in found) > len(TEXTS) // 2
            assert not any({"der", "die"} & {*one.text.split()} for one in found)
        if name == "prefix":
            assert all(one.text.startswith("Das") for one in found)
