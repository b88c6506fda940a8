"""Triton's kernels for prefixes, forbidden tokens and lexical constraints against those in PyTorch."""

from __future__ import annotations

from random import Random

import pytest
import torch

pytest.importorskip("triton")

from dragoman import Transformer
from dragoman.config import ModelRecipe
from dragoman.engines.cuda import kernels_triton
from dragoman.engines.cuda.engine import CudaEngine
from dragoman.engines.cuda.kernels_torch import TorchKernels
from dragoman.engines.cuda.kernels_triton import Tile, TritonKernels
from dragoman.engines.cuda.rules import BatchRules
from dragoman.engines.cuda.state import GraphShape, ModelWeights, SearchState
from dragoman.engines.torch import TorchEngine
from dragoman.search.constraints.batch import BatchAutomata, RequiredTensors
from dragoman.search.constraints.beam import ConstraintProgress
from dragoman.search.types import RecordedHead, Search
from dragoman.text.special_tokens import EOS
from letters import random_letters, random_tables

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
VOCABULARY = 83
LETTERS = random_letters(VOCABULARY, Random(7))


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels_triton, "LIKELIEST", Tile(32, 1))  # so that there are several


def some_model(**recipe: object) -> Transformer:
    torch.manual_seed(3)
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 24, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    model = Transformer(ModelRecipe(**{**sizes, **recipe}), VOCABULARY).eval()  # type: ignore[arg-type]
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.3)
    return model


def test_tokens_are_followed_alike() -> None:
    draw = Random(1)
    tables = [one for one in random_tables(LETTERS, 9, draw) if one is not None and one.required]
    required = RequiredTensors.from_tables(tables, DEVICE)
    automata = BatchAutomata(required.delta, tables[0].spelling)
    for lengths in (required.length, required.length[:, :0]):
        here = there = ConstraintProgress.begin(required)
        here.met, here.reached = (x[:, : lengths.shape[1]].contiguous() for x in (here.met, here.reached))
        for _ in range(6):
            tokens = torch.tensor([draw.randrange(EOS, VOCABULARY) for _ in tables], device=DEVICE)
            here = TritonKernels().follow(automata, here, tokens, lengths)
            there = TorchKernels().follow(automata, there, tokens, lengths)
            for name in ("states", "last", "length", "met", "reached"):
                assert torch.equal(getattr(here, name), getattr(there, name)), name
    assert int(here.length.min()) > 0


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("no_repeat", [0, 1, 2])
def test_select_with_prefixes_and_forbidden_tokens(beam: int, no_repeat: int) -> None:
    """A row that may write nothing else ends: with `no_repeat` 1, one row has written all other tokens."""
    w = ModelWeights(some_model().to(DEVICE))
    prefixes = [[5, 6], [], [7, 8, 9], [4]]
    rules = BatchRules(prefixes, no_repeat, None, 99)
    states = []
    for _ in range(2):
        torch.manual_seed(beam)
        s = SearchState(w, GraphShape(4, beam, source=4, steps=99, rules=rules.shape))
        s.begin_rules(rules)
        s.history.random_(EOS + 1, VOCABULARY)
        s.history[1 : VOCABULARY - EOS].copy_(torch.arange(EOS + 1, VOCABULARY)[:, None])
        s.lineage.random_(0, beam)
        s.position.copy_(torch.tensor([1, 88, 2, 6]))
        s.limit.copy_(torch.tensor([9, 95, 9, 6]))
        s.score.copy_(-torch.rand(4, beam) * 5)
        s.min_length.fill_(90)
        s.n_best.fill_(1)
        states.append(s)
    logits = torch.randn(4 * beam, len(w.projection.weight), device=DEVICE) * 3
    for s, kernels in zip(states, (TritonKernels(), TorchKernels()), strict=True):
        kernels.select(w, s, logits.clone())
    s, t = states
    for name in ("done", "position", "length", "finished", "history"):
        assert torch.equal(getattr(s, name), getattr(t, name)), name
    torch.testing.assert_close(s.score, t.score)
    assert (s.history[3, 2 * beam : 3 * beam] == 9).any()
    assert (s.length[1] == 89).any() == (no_repeat == 1)


@pytest.mark.parametrize("seed", range(2))
def test_whole_searches_with_rules_equal_the_reference_engine(seed: int) -> None:
    draw, model = Random(seed), some_model(output_bias=True)
    sources, prefixes, tables = [[5, 6, 7], [9]], [[], [17, 9]], random_tables(LETTERS, 2, draw)
    search = Search(beam=3, n_best=2, extra_length=3, no_repeat=2 * seed)
    engine = CudaEngine(model, torch.float32, DEVICE, kernels=TritonKernels())
    found = engine.search(sources, search, prefixes, tables, record=[RecordedHead(0, 1)])
    reference = TorchEngine(model.cpu())
    expected = reference.search(sources, search, prefixes, tables)
    assert [[h.ids for h in row] for row in found] == [[h.ids for h in row] for row in expected]
    for row, other in zip(found, expected, strict=True):
        assert [h.score for h in row] == pytest.approx([h.score for h in other], abs=1e-4)
    pairs = [(source, of[0].ids) for source, of in zip(sources, found, strict=True)]
    for i, weights in reference.cross_maps(pairs):
        assert found[i][0].maps[0] == pytest.approx(weights[0, 1], abs=1e-5)
