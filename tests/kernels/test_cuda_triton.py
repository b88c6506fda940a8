"""Triton's kernels against those in PyTorch, part by part: by Triton's interpreter, and on a GPU where there is one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from dragoman import Transformer
from dragoman.config import ModelRecipe
from dragoman.engines.cuda import kernels_triton
from dragoman.engines.cuda.engine import CudaEngine
from dragoman.engines.cuda.kernels_torch import TorchKernels
from dragoman.engines.cuda.kernels_triton import Tile, TritonKernels
from dragoman.engines.cuda.state import Affine, GraphShape, ModelWeights, NormWeights, SearchState
from dragoman.engines.torch import TorchEngine
from dragoman.search.types import Search
from dragoman.text.special_tokens import EOS

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
VOCABULARY = 83


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels_triton, "LIKELIEST", Tile(32, 1))  # so that there are several
    monkeypatch.setattr(kernels_triton, "FEW_ROWS_TILE", 1024)


def some_weights(norm_order: str = "post", **recipe: object) -> ModelWeights:
    sizes = {"d_model": 24, "n_heads": 3, "d_k": 5, "d_v": 7, "d_ff": 37, "encoder_layers": 1, "decoder_layers": 2}
    model = Transformer(ModelRecipe(**{**sizes, **recipe}, norm_order=norm_order), VOCABULARY).eval().to(DEVICE)  # type: ignore[arg-type]
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.2)
    return ModelWeights(model)


def some_state(w: ModelWeights, sentences: int = 4, beam: int = 3) -> SearchState:
    """In the middle of a search, with everything there is: an ended slot, an empty slot, a sentence that is done."""
    s = SearchState(w, GraphShape(sentences, beam, source=40, steps=45))
    for x in (s.keys, s.values, s.source):
        x.normal_()
    s.lineage.random_(0, beam)
    s.history.random_(EOS + 1, VOCABULARY)
    s.position.copy_(torch.tensor([37, 5, 0, 8])[:sentences])
    s.limit.copy_(torch.tensor([40, 5, 9, 9])[:sentences])
    s.source_length.copy_(torch.tensor([40, 3, 33, 1])[:sentences])
    s.score.copy_(-torch.rand(sentences, beam) * 5)
    s.score[2, 1:] = -torch.inf
    if beam > 1:
        s.finished[0, 1] = 1
    s.length[0] = 11
    s.done[3] = 1
    s.min_length.fill_(2)
    s.n_best.fill_(1)
    s.normalizer.copy_(((5 + torch.arange(47)) / 6) ** 0.6)
    return s


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("beam", [1, 3])
def test_embed(beam: int) -> None:
    w = some_weights()
    s = some_state(w, beam=beam)
    close(TritonKernels().embed(w, s), TorchKernels().embed(w, s))


@pytest.mark.parametrize(
    ("rows", "order", "activation"), [(2, "pre", "relu"), (2, "post", "silu"), (3, "post", "relu"), (3, "pre", "silu")]
)
def test_enter_linear_and_logits(rows: int, order: str, activation: str) -> None:
    w = some_weights(order, activation=activation, output_bias=activation == "silu")
    x, y = torch.randn(2, rows, 24, device=DEVICE)
    norm = NormWeights(*torch.randn(2, 24, device=DEVICE), 1e-5)
    fast, plain = TritonKernels(few_rows=2), TorchKernels()
    for inside in (norm, None):
        for added in (y, None) if inside is not None else (None,):
            for into, active in ((w.layers[0].inner, True), (w.layers[1].qkv, False)):
                found = fast.enter(w, x, added, inside, into, active=active)
                expected = plain.enter(w, x, added, inside, into, active=active)
                close(found[0], expected[0])
                close(found[1], expected[1])
            close(fast.logits(w, x, added, inside), plain.logits(w, x, added, inside))
    wide = torch.randn(rows, 37, device=DEVICE)
    for by in (w.layers[1].outer, Affine(w.layers[1].outer.weight)):
        close(fast.linear(wide, by), plain.linear(wide, by))


@pytest.mark.parametrize("beam", [1, 3])
def test_attention(beam: int) -> None:
    w = some_weights()
    s, t = some_state(w, beam=beam), some_state(w, beam=beam)
    for name in ("keys", "values", "source", "lineage"):
        getattr(t, name).copy_(getattr(s, name))
    qkv, q = torch.randn(4 * beam, 3 * (5 + 5 + 7), device=DEVICE), torch.randn(4 * beam, 15, device=DEVICE)
    going = slice(0, 3 * beam)  # what is made of a sentence that is done means nothing
    close(TritonKernels().attend_own(w, s, 1, qkv)[going], TorchKernels().attend_own(w, t, 1, qkv)[going])
    close(s.keys, t.keys)
    close(s.values, t.values)
    close(TritonKernels().attend_source(w, s, 1, q)[going], TorchKernels().attend_source(w, t, 1, q)[going])


@pytest.mark.parametrize("tokens", [7, 67])
def test_attention_within_sources(tokens: int) -> None:
    w, lengths = some_weights(), torch.tensor([tokens, 3], dtype=torch.int32, device=DEVICE)
    qkv = torch.randn(2 * tokens, 3 * (5 + 5 + 7), device=DEVICE)
    close(TritonKernels().attend_all(w, qkv, lengths), TorchKernels().attend_all(w, qkv, lengths))


@pytest.mark.parametrize("beam", [1, 3, 5])
@pytest.mark.parametrize("wanted", [1, 2])
def test_select(beam: int, wanted: int) -> None:
    w = some_weights()
    for seed in range(3):
        torch.manual_seed(seed)
        s, t = some_state(w, beam=beam), SearchState(w, GraphShape(4, beam, 40, 45))
        s.n_best.fill_(min(wanted, beam))
        for name in ("lineage", "history", "integers", "floats"):
            getattr(t, name).copy_(getattr(s, name))
        logits = torch.randn(4 * beam, len(w.projection.weight), device=DEVICE) * 3
        logits[:, EOS] += 3.0 * seed
        TritonKernels().select(w, s, logits)
        TorchKernels().select(w, t, logits)
        for name in ("done", "position", "length", "finished", "history"):
            assert torch.equal(getattr(s, name), getattr(t, name)), name
        for sentence, last in ((0, 38), (1, 6), (2, 1)):
            assert torch.equal(s.lineage[sentence, :, :last], t.lineage[sentence, :, :last])
        close(s.score, t.score)


@pytest.mark.parametrize("order", ["pre", "post"])
def test_whole_searches_equal_the_reference_engine(order: str) -> None:
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 24, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    model = Transformer(ModelRecipe(**sizes, norm_order=order), VOCABULARY).eval()  # type: ignore[arg-type]
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.3)
    sources = [[5, 6, 7], [9]]
    engine = CudaEngine(model, torch.float32, DEVICE, kernels=TritonKernels())
    search = Search(beam=3, n_best=2, extra_length=1)
    found, expected = engine.search(sources, search), TorchEngine(model.cpu()).search(sources, search)
    assert [[h.ids for h in row] for row in found] == [[h.ids for h in row] for row in expected]
    for row, other in zip(found, expected, strict=True):
        assert [h.score for h in row] == pytest.approx([h.score for h in other], abs=1e-4)
