"""The recurrent model against loops written from the equations of its papers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman import AttentionMaps, Padded
from dragoman.config import ModelRecipe
from dragoman.models import Recurrent
from dragoman.models.recurrent import BidirectionalLayer, RecurrentLayer, reverse_sentences

RECIPE = ModelRecipe(architecture="recurrent", d_model=6, encoder_layers=3, decoder_layers=3, dropout=0.0)
SETTINGS = [(cell, attention, 3) for cell in ("lstm", "gru", "rnn") for attention in ("additive", "scaled_dot_product")]
VOCABULARY = 13


def run_cell(cell: Any, xs: list[Tensor]) -> list[Tensor]:
    """One sequence through one layer, token by token, gate by gate (Hochreiter & Schmidhuber; Cho et al.; Elman)."""
    W, U, b, c = (getattr(cell, f"{kind}_l0") for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    size = cell.hidden_size
    h = memory = torch.zeros(size)
    outputs = []
    for x in xs:
        from_input, from_past = (W @ x + b).view(-1, size), (U @ h + c).view(-1, size)
        if isinstance(cell, torch.nn.LSTM):
            keep_in, forget, new, out = (from_input + from_past).unbind()
            memory = torch.sigmoid(forget) * memory + torch.sigmoid(keep_in) * torch.tanh(new)
            h = torch.sigmoid(out) * torch.tanh(memory)
        elif isinstance(cell, torch.nn.RNN):
            h = torch.tanh(from_input[0] + from_past[0])
        else:
            reset, update = torch.sigmoid(from_input[:2] + from_past[:2]).unbind()
            new = torch.tanh(from_input[2] + reset * from_past[2])
            h = (1 - update) * new + update * h
        outputs.append(h)
    return outputs


def by_hand(model: Recurrent, source: list[int], target: list[int]) -> tuple[Tensor, Tensor]:
    """Logits and attention of one pair, from the equations: nothing of `dragoman` but the weights."""
    recipe, modules = model.recipe, dict(model.named_modules())
    table, d = model.embeddings.tables["shared"], recipe.d_model
    words = [table[i] * d**0.5 for i in source]
    ahead = run_cell(modules["encoder.0.forwards.cell"], words)
    back = run_cell(modules["encoder.0.backwards.cell"], words[::-1])[::-1]
    states = [torch.cat(both) for both in zip(ahead, back, strict=True)]
    for layer in range(1, recipe.encoder_layers):
        above = run_cell(modules[f"encoder.{layer}.cell"], states)
        states = above if layer == 1 else [x + y for x, y in zip(states, above, strict=True)]
    xs = run_cell(modules["decoder.0.cell"], [table[i] * d**0.5 for i in target])
    contexts, weights = [], []
    for s in xs:
        if recipe.attention == "additive":  # e_j = v . tanh(W s + U h_j), Bahdanau et al., appendix A.1.2
            A, B, v = (getattr(model.attention, name)[0] for name in ("query", "key", "vector"))
            scores = torch.stack([torch.tanh(s @ A + h @ B) @ v[:, 0] for h in states])
        else:  # e_j = s . W h_j, Luong et al.'s "general", with the Transformer's scale
            scores = torch.stack([s @ (modules["attention_keys"].weight @ h) / d**0.5 for h in states])
        alpha = scores.exp() / scores.exp().sum()
        weights.append(alpha)
        contexts.append(sum(a * h for a, h in zip(alpha, states, strict=True)))
    for layer in range(1, recipe.decoder_layers):
        seen = [torch.cat([x, c]) for x, c in zip(xs, contexts, strict=True)]
        xs = [x + y for x, y in zip(xs, run_cell(modules[f"decoder.{layer}.cell"], seen), strict=True)]
    readout: Any = modules["readout"]
    hidden = [torch.tanh(readout.weight @ torch.cat([x, c]) + readout.bias) for x, c in zip(xs, contexts, strict=True)]
    return torch.stack(hidden) @ table.T, torch.stack(weights)


def moved(model: Recurrent) -> Recurrent:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


@pytest.mark.parametrize(("cell", "attention", "layers"), [*SETTINGS, ("lstm", "additive", 1), ("gru", "additive", 2)])
def test_the_model_is_its_equations(cell: Any, attention: Any, layers: int) -> None:
    recipe = replace(RECIPE, cell=cell, attention=attention, encoder_layers=layers, decoder_layers=layers)
    model = moved(Recurrent(recipe, VOCABULARY))
    source, target = [[5, 9, 4, 11, 2], [7, 3, 2]], [[1, 8, 6, 12], [1, 10]]
    maps = AttentionMaps()
    logits = model(
        torch.tensor([source[0], [*source[1], 0, 0]]), torch.tensor([target[0], [*target[1], 0, 0]]), maps=maps
    )
    for row in range(2):
        expected, weights = by_hand(model, source[row], target[row])
        torch.testing.assert_close(logits[row, : len(target[row])], expected, atol=1e-5, rtol=1e-4)
        seen = maps.cross[0][row, 0, : len(target[row]), : len(source[row])]
        torch.testing.assert_close(seen, weights, atol=1e-6, rtol=1e-4)


def test_reading_both_ways_is_pytorchs_bidirectional_layer() -> None:
    for kind, cell in (("lstm", torch.nn.LSTM), ("gru", torch.nn.GRU), ("rnn", torch.nn.RNN)):
        ours, theirs = BidirectionalLayer(kind, 5, 7, 0.0), cell(5, 7, batch_first=True, bidirectional=True)  # type: ignore[arg-type]
        for name, weights in theirs.named_parameters():
            side = ours.backwards if name.endswith("_reverse") else ours.forwards
            weights.data.copy_(side.cell.get_parameter(name.removesuffix("_reverse")))
        x, lengths = torch.randn(3, 6, 5), torch.tensor([4, 6, 1])
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        expected, _ = torch.nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)
        real = torch.arange(6) < lengths[:, None]
        torch.testing.assert_close(ours(x, Padded(6, lengths))[real], expected[real])
        torch.testing.assert_close(ours(x, Padded(6)), theirs(x)[0])


def test_a_sentence_is_turned_and_its_padding_stays() -> None:
    x = torch.arange(12.0).view(2, 6, 1)
    lengths = torch.tensor([4, 0])
    assert reverse_sentences(x, Padded(6, lengths))[:, :, 0].tolist() == [[3, 2, 1, 0, 4, 5], [6, 7, 8, 9, 10, 11]]
    assert torch.equal(reverse_sentences(reverse_sentences(x, Padded(6, lengths)), Padded(6, lengths)), x)


def test_cells_start_remembering() -> None:
    lstm, gru, rnn = (RecurrentLayer(kind, 5, 7, 0.0).cell for kind in ("lstm", "gru", "rnn"))  # type: ignore[arg-type]
    i, f, g, o = lstm.get_parameter("bias_ih_l0").view(4, 7).tolist()  # PyTorch's order
    assert (i, f, g, o) == ([0.0] * 7, [1.0] * 7, [0.0] * 7, [0.0] * 7)
    assert not gru.get_parameter("bias_ih_l0").any()
    for cell, gates in ((lstm, 4), (gru, 3), (rnn, 1)):
        for gate in cell.get_parameter("weight_hh_l0").detach().view(gates, 7, 7):
            torch.testing.assert_close(gate @ gate.T, torch.eye(7), atol=1e-5, rtol=0)


def test_what_is_remembered_is_never_dropped() -> None:
    """Dropout on what comes in alone: with nothing coming in, training and evaluation are the same."""
    layer = RecurrentLayer("lstm", 5, 7, dropout=0.9)
    nothing, past = torch.zeros(2, 4, 5), (torch.randn(1, 2, 7), torch.randn(1, 2, 7))
    assert torch.equal(layer.train()(nothing, past)[0], layer.eval()(nothing, past)[0])
