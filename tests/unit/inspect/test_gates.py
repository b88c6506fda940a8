"""The importance of heads against models with a changed W^O, explicit products, and finite differences."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.engines.torch import TorchEngine
from dragoman.engines.torch_forced import forced_batches, forced_log_probabilities, small_batch
from dragoman.inspect.heads.gates import GatedModel, HeadId
from dragoman.models import Transformer
from dragoman.translation.translator import Translator
from forced_by_hand import by_hand
from small_model import model_at

PAIRS = [((5, 6, 7), (8, 9)), ((10,), (11, 12, 13, 14)), ((9, 8, 7, 6, 5), (4, 5, 6)), ((12, 13), (7,))]
D_V = 2  # of model_at: d_model 6 in 3 heads
VARIATIONS: list[dict[str, Any]] = [
    {},
    {"norm_order": "pre", "attention_bias": "true", "encoder_layers": 2},
    {"positions": "rotary", "d_k": 4, "d_v": 5},
    {"positions": "relative"},
    {"positions": "alibi"},
    {"attention": "additive"},
    {"pattern": "low_rank", "rank": 3},
    {"pattern": "local", "window": 1},
]


def engine_of(place: Path, **changes: Any) -> TorchEngine:
    engine: TorchEngine = Translator.load(model_at(place, **changes), device="cpu", engine="torch").engines.torch
    torch.manual_seed(4)
    with torch.no_grad():
        for weights in engine.model.parameters():
            weights.add_(torch.randn_like(weights) * 0.3)  # so that heads matter
    return engine


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> TorchEngine:
    return engine_of(tmp_path_factory.mktemp("gates") / "model")


def output_of(model: Transformer, place: HeadId) -> Any:
    layer = (model.encoder if place.kind == "encoder" else model.decoder)[place.layer - 1]
    return (layer.cross if place.kind == "cross" else layer.attention).output


def cost(model: Any, pairs: Any = PAIRS) -> float:
    return -sum(sum(by_hand([model], *pair)) for pair in pairs)


@pytest.mark.parametrize("changes", VARIATIONS, ids=lambda changes: " ".join(map(str, changes.values())) or "paper")
@torch.no_grad()
def test_removing_is_zeros_in_the_columns_of_the_output_projection(changes: dict[str, Any], tmp_path: Path) -> None:
    engine = engine_of(tmp_path / "model", **changes)
    gates = GatedModel(engine.model)
    layers = {"encoder": engine.model.recipe.encoder_layers, "decoder": 2, "cross": 2}
    assert gates.heads == [
        HeadId(kind, layer, head)
        for kind, count in layers.items()
        for layer in range(1, count + 1)
        for head in (1, 2, 3)
    ]
    rises = sum(gates.ablations(batch) for batch in forced_batches(engine, PAIRS))
    whole = cost(engine.model)
    for place, rise in zip(gates.heads, rises.tolist(), strict=True):
        changed = copy.deepcopy(engine.model)
        columns = output_of(changed, place).weight
        size = columns.shape[1] // 3
        columns[:, size * (place.head - 1) : size * place.head] = 0.0
        assert rise == pytest.approx(cost(changed) - whole, abs=2e-4), place
    assert max(rises.abs()) > 0.05  # else nothing was tried


@torch.no_grad()
def test_many_are_removed_together_and_translate_so(engine: TorchEngine) -> None:
    gates = GatedModel(engine.model)
    gone = [HeadId("encoder", 1, 2), HeadId("cross", 2, 3), HeadId("decoder", 1, 1)]
    changed = copy.deepcopy(engine.model)
    for place in gone:
        output_of(changed, place).weight[:, D_V * (place.head - 1) : D_V * place.head] = 0.0
    found = gates.loss_without(gone, list(forced_batches(engine, PAIRS)))
    assert found == pytest.approx(cost(changed), abs=1e-4)
    gates.remove(gone)
    stepping = [sum(by_hand([gates.model], *pair)) for pair in PAIRS]
    assert -sum(stepping) == pytest.approx(found, abs=1e-4)


def explicit(model: Transformer, pair: Any, values: torch.Tensor, places: list[HeadId]) -> torch.Tensor:
    """The cost of one pair with gates multiplied into the columns of every W^O: a product that is written out."""
    names = {id(module): name for name, module in model.named_modules()}
    changed: dict[str, torch.Tensor] = {}
    for place, value in zip(places, values, strict=True):
        output = output_of(model, place)
        name = f"{names[id(output)]}.weight"
        mask = torch.zeros(output.in_features)
        mask[D_V * (place.head - 1) : D_V * place.head] = 1.0
        changed[name] = changed.get(name, output.weight) * (1 - mask + mask * value)
    source, target = torch.tensor([[*pair[0], 2]]), torch.tensor([[1, *pair[1]]])
    logits = torch.func.functional_call(model, changed, (source, target))
    follows = torch.tensor([*pair[1], 2])
    return -logits[0].log_softmax(-1).gather(1, follows[:, None]).sum()


def test_slopes_are_those_of_an_explicit_product_sentence_by_sentence(engine: TorchEngine) -> None:
    gates = GatedModel(engine.model)
    seen = []
    for batch in forced_batches(engine, PAIRS, small_batch(engine)):
        found = gates.gradients(batch)
        for row, number in enumerate(batch.indices):
            values = torch.ones(len(gates.heads), requires_grad=True)
            expected = torch.autograd.grad(explicit(engine.model, PAIRS[number], values, gates.heads), values)[0]
            torch.testing.assert_close(found[row].float(), expected, atol=2e-5, rtol=1e-3)
            seen.append(number)
    assert sorted(seen) == [0, 1, 2, 3]


def test_slopes_are_those_of_finite_differences(engine: TorchEngine) -> None:
    gates = GatedModel(engine.model)
    (batch,) = forced_batches(engine, PAIRS[:1])
    found, step = gates.gradients(batch)[0], 0.02
    for i, place in enumerate(gates.heads):
        costs = []
        for value in (1 + step, 1 - step):
            gates.remove([])
            gates.by_kind[place.kind][place.layer - 1].gates[place.head - 1] = value
            costs.append(gates.losses(batch).sum().item())
        gates.remove([])
        assert float(found[i]) == pytest.approx((costs[0] - costs[1]) / (2 * step), abs=3e-3, rel=0.02), place


def test_neither_company_nor_padding_changes_a_cost_or_a_slope(engine: TorchEngine) -> None:
    gates = GatedModel(engine.model)
    (together,) = forced_batches(engine, PAIRS)
    costs, slopes = gates.losses(together), gates.gradients(together)
    for row, number in enumerate(together.indices):
        (alone,) = forced_batches(engine, [PAIRS[number]])
        torch.testing.assert_close(gates.losses(alone)[0], costs[row], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(gates.gradients(alone)[0], slopes[row], atol=1e-5, rtol=1e-4)
        likely = forced_log_probabilities(engine, [PAIRS[number]])[0]
        assert float(costs[row].detach()) == pytest.approx(-sum(likely), abs=1e-5)


def test_the_model_itself_stays_as_it_is(engine: TorchEngine) -> None:
    model = engine.model
    before = dict(model.named_modules())
    gates = GatedModel(model)
    (batch,) = forced_batches(engine, PAIRS)
    gates.ablations(batch)
    gates.gradients(batch)
    assert dict(model.named_modules()) == before
    own, others = dict(model.named_parameters()), dict(gates.model.named_parameters())
    assert own.keys() == others.keys() and all(own[name] is others[name] for name in own)
    assert all(weights.grad is None for weights in model.parameters())
    assert all(torch.equal(gated.gates, torch.ones(3)) for of in gates.by_kind.values() for gated in of)
