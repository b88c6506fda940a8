"""Forecasters equal PyTorch's layers with copied weights; stepping equals teacher forcing; pieces equal loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.config.forecast import ForecasterRecipe
from dragoman.errors import RecipeError, ShapeError
from dragoman.forecast.baselines import LinearModel, SeasonalNaive
from dragoman.forecast.data.windows import WindowBatch, Windows
from dragoman.forecast.loss import ForecastLoss
from dragoman.forecast.model import DecoderForecaster, DirectForecaster, build_forecaster
from dragoman.forecast.normalization import InstanceNormalization
from dragoman.forecast.quantiles import ordered_quantiles, pinball_loss
from dragoman.models.seq2seq import AttentionMaps
from raising import raises

B, C, L, T, P, D, H = 3, 2, 24, 10, 4, 8, 2
CLOSE = {"atol": 2e-5, "rtol": 1e-5}
SIZES = (
    *(f"model.d_model={D}", f"model.n_heads={H}", "model.d_ff=12", "model.encoder_layers=2", "model.decoder_layers=2"),
    *("model.dropout=0.0", "model.attention_bias=true", f"forecast.look_back={L}", f"forecast.horizon={T}"),
    *(f"forecast.patch={P}", f"forecast.stride={P}"),
)


def recipe(*changes: str) -> ForecasterRecipe:
    return ForecasterRecipe.from_changes([*SIZES, *changes])


def random_forecaster(*changes: str) -> tuple[nn.Module, Tensor, Tensor, Tensor]:
    torch.manual_seed(3)
    model = build_forecaster(recipe(*changes), C).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight) * 0.3)
        for name, weight in model.named_parameters():
            if name.startswith("normalization.") or name.endswith("norm.weight"):
                weight.copy_(torch.rand_like(weight) + 0.5)
    features = 2 * len(model.settings.calendar)
    return model, 3 * torch.randn(B, C, L) + 7, torch.randn(B, C, T), torch.randn(B, L + T, features)


def copy_linear(theirs: nn.Linear, ours: nn.Linear) -> None:
    theirs.weight.data.copy_(ours.weight)
    theirs.bias.data.copy_(ours.bias)


def copy_norm(theirs: nn.LayerNorm, ours: nn.LayerNorm) -> None:
    theirs.load_state_dict(ours.state_dict())


def torch_encoder(model: nn.Module) -> nn.Module:
    layers = []
    for ours in model.encoder:
        layer = nn.TransformerEncoderLayer(D, H, 12, 0.0, batch_first=True)
        layer.self_attn.in_proj_weight.data.copy_(ours.attention.qkv.weight)
        layer.self_attn.in_proj_bias.data.copy_(ours.attention.qkv.bias)
        copy_linear(layer.self_attn.out_proj, ours.attention.output)
        copy_linear(layer.linear1, ours.feed_forward.inner)
        copy_linear(layer.linear2, ours.feed_forward.outer)
        copy_norm(layer.norm1, ours.around_attention.norm)
        copy_norm(layer.norm2, ours.around_feed_forward.norm)
        layers.append(layer)
    return nn.Sequential(*layers).train()  # without the fused path; there is no dropout


def sinusoid(n: int) -> Tensor:
    table = torch.zeros(n, D)
    for position in range(n):
        for i in range(0, D, 2):
            angle = position / 10000 ** (i / D)
            table[position, i], table[position, i + 1] = math.sin(angle), math.cos(angle)
    return table


def normalized(past: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    mean = past.mean(-1, keepdim=True)
    deviation = (((past - mean) ** 2).mean(-1, keepdim=True) + 1e-5).sqrt()
    return (past - mean) / deviation, mean, deviation


@pytest.mark.parametrize("stride", [P, 2])
def test_the_direct_forecaster_is_torchs_encoder_on_patches(stride: int) -> None:
    model, past, _, calendar = random_forecaster(f"forecast.stride={stride}")
    assert isinstance(model, DirectForecaster)
    x, mean, deviation = normalized(past)
    expected = torch.zeros(B, C, T)
    encoder = torch_encoder(model)
    for b in range(B):
        for c in range(C):
            values = x[b, c].tolist() + ([x[b, c, -1].item()] * stride if stride < P else [])
            patches = [values[i : i + P] for i in range(0, len(values) - P + 1, stride)]
            assert len(patches) == model.settings.n_patches
            tokens = torch.tensor(patches) @ model.embedding.weight.T + model.embedding.bias
            states = encoder((tokens + sinusoid(len(patches)))[None])
            expected[b, c] = F.linear(states.flatten(), model.head.weight, model.head.bias)
    expected = expected * deviation + mean
    torch.testing.assert_close(model.predict(past, calendar)[..., 0], expected, **CLOSE)


def test_the_decoder_forecaster_is_torchs_encoder_decoder() -> None:
    model, past, future, calendar = random_forecaster("forecast.mode=decoder", "forecast.normalization=none")
    assert isinstance(model, DecoderForecaster)
    memory = torch_encoder(model)(model.embedding(past.flatten(0, 1).view(B * C, L // P, P)) + sinusoid(L // P))
    known = torch.cat([past[..., -P:], future], -1).flatten(0, 1)
    steps = -(-T // P)
    x = model.target_embedding(known[:, : steps * P].view(B * C, steps, P)) + sinusoid(steps)
    hides = nn.Transformer.generate_square_subsequent_mask(steps)
    for ours in model.decoder:
        layer = nn.TransformerDecoderLayer(D, H, 12, 0.0, batch_first=True)
        layer.self_attn.in_proj_weight.data.copy_(ours.attention.qkv.weight)
        layer.self_attn.in_proj_bias.data.copy_(ours.attention.qkv.bias)
        copy_linear(layer.self_attn.out_proj, ours.attention.output)
        cross = (ours.cross.query, ours.cross.key_value)
        layer.multihead_attn.in_proj_weight.data.copy_(torch.cat([part.weight for part in cross]))
        layer.multihead_attn.in_proj_bias.data.copy_(torch.cat([part.bias for part in cross]))
        copy_linear(layer.multihead_attn.out_proj, ours.cross.output)
        copy_linear(layer.linear1, ours.feed_forward.inner)
        copy_linear(layer.linear2, ours.feed_forward.outer)
        for norm, around in zip(
            (layer.norm1, layer.norm2, layer.norm3),
            (ours.around_attention, ours.around_cross, ours.around_feed_forward),
            strict=True,
        ):
            copy_norm(norm, around.norm)
        x = layer(x, memory, tgt_mask=hides)
    expected = F.linear(x, model.head.weight, model.head.bias).flatten(1)[:, :T].view(B, C, T)
    torch.testing.assert_close(model(past, calendar, future)[..., 0], expected, **CLOSE)


@pytest.mark.parametrize(
    "positions", ["sinusoidal", "learned", "index", "normalized_index", "relative", "rotary", "alibi", "none"]
)
@pytest.mark.parametrize("patch", [P, 1])
def test_stepping_equals_teacher_forcing(positions: str, patch: int) -> None:
    model, past, _, calendar = random_forecaster(
        *("forecast.mode=decoder", f"model.positions={positions}", f"forecast.patch={patch}"),
        *(f"forecast.stride={patch}", 'forecast.calendar=["hour"]', "forecast.quantiles=[0.2,0.5,0.7]"),
        "forecast.normalization=instance_affine",
    )
    stepped = model.predict(past, calendar)
    forced = model(past, calendar, stepped[..., model.median])
    torch.testing.assert_close(forced, stepped, **CLOSE)
    other = model(past, calendar, stepped[..., model.median] + 9)  # the future is used, but not its own step
    torch.testing.assert_close(other[:, :, :patch], stepped[:, :, :patch], **CLOSE)
    assert (other[:, :, patch:] - stepped[:, :, patch:]).abs().max() > 1e-3


@pytest.mark.parametrize("mode", ["direct", "decoder"])
def test_columns_are_independent_and_share_weights(mode: str) -> None:
    model, past, _, calendar = random_forecaster(f"forecast.mode={mode}")
    both = model.predict(past, calendar)
    swapped = model.predict(past.flip(1), calendar)
    torch.testing.assert_close(swapped.flip(1), both, **CLOSE)
    changed = past.clone()
    changed[:, 1] += torch.randn(B, L)
    torch.testing.assert_close(model.predict(changed, calendar)[:, 0], both[:, 0], **CLOSE)


@pytest.mark.parametrize("mode", ["direct", "decoder"])
def test_instance_normalization_makes_forecasts_follow_level_and_scale(mode: str) -> None:
    model, past, _, calendar = random_forecaster(f"forecast.mode={mode}", "forecast.quantiles=[0.1,0.5,0.9]")
    torch.testing.assert_close(
        model.predict(5 * past - 40, calendar), 5 * model.predict(past, calendar) - 40, atol=2e-3, rtol=1e-4
    )


def test_instance_normalization_is_that_of_a_loop_and_is_undone() -> None:
    layer = InstanceNormalization(C, affine=True)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([2.0, -0.5]))
        layer.bias.copy_(torch.tensor([0.1, -3.0]))
    past = 4 * torch.randn(B, C, L) - 2
    level = layer.measure(past)
    found = layer.normalize(past, level)
    for b in range(B):
        for c in range(C):
            row = past[b, c].double().numpy()
            expected = (row - row.mean()) / np.sqrt(row.var() + 1e-5) * layer.weight[c].item() + layer.bias[c].item()
            np.testing.assert_allclose(found[b, c].detach(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(layer.restore(found[..., None], level)[..., 0], past, **CLOSE)
    quantiles = layer.restore(torch.tensor([0.0, 1.0, 2.0]).expand(B, C, T, 3), level)
    assert (quantiles.diff(dim=-1) > 0).all()


@pytest.mark.parametrize("mode", ["direct", "decoder"])
def test_quantiles_never_cross(mode: str) -> None:
    model, past, _, calendar = random_forecaster(
        f"forecast.mode={mode}", "forecast.quantiles=[0.05,0.2,0.5,0.9]", "forecast.normalization=instance_affine"
    )
    assert (model.predict(past, calendar).diff(dim=-1) > 0).all()


def test_ordered_quantiles_are_those_of_a_loop() -> None:
    raw = torch.randn(7, 5)
    found = ordered_quantiles(raw, 2)
    for row, got in zip(raw.tolist(), found.tolist(), strict=True):
        soft = [math.log1p(math.exp(x)) for x in row]
        assert got == pytest.approx(
            [row[2] - soft[1] - soft[0], row[2] - soft[1], row[2], row[2] + soft[3], row[2] + soft[3] + soft[4]],
            rel=1e-5, abs=1e-5,
        )  # fmt: skip


def test_the_pinball_loss_is_minimal_at_the_quantile() -> None:
    actual = torch.randn(5, 3)
    predicted = torch.randn(5, 3, 2)
    found = pinball_loss(predicted, actual, torch.tensor([0.5, 0.9]))
    for i in np.ndindex(5, 3):
        errors = [actual[i] - predicted[(*i, q)] for q in (0, 1)]
        expected = sum(max(q * e, (q - 1) * e) for q, e in zip((0.5, 0.9), errors, strict=True)) / 2
        torch.testing.assert_close(found[i], expected)
    sample = torch.randn(20_001)
    grid = torch.linspace(-2, 2, 401)
    losses = torch.stack([pinball_loss(x.expand(len(sample), 1), sample, torch.tensor([0.9])).mean() for x in grid])
    assert abs(grid[losses.argmin()] - sample.quantile(0.9)) < 0.02


def test_calendar_features_reach_every_step() -> None:
    for mode in ("direct", "decoder"):
        model, past, future, calendar = random_forecaster(
            f"forecast.mode={mode}", 'forecast.calendar=["hour","weekday"]'
        )
        calendar.requires_grad_()
        model(past, calendar, future).sum().backward()
        ahead = calendar.grad[:, L:].abs().sum(-1)
        used = ahead if mode == "direct" else ahead[:, [P - 1, 2 * P - 1, T - 1]]
        assert (used > 0).all()


def test_attention_maps_are_filled() -> None:
    for mode in ("direct", "decoder"):
        model, past, _, calendar = random_forecaster(f"forecast.mode={mode}")
        maps = AttentionMaps()
        model.predict(past, calendar, maps)
        assert [tuple(each.shape) for each in maps.encoder] == [(B * C, H, L // P, L // P)] * 2
        assert len(maps.cross) == (0 if mode == "direct" else 2 * -(-T // P))


def test_the_seasonal_naive_forecast_repeats_the_last_season() -> None:
    past = torch.arange(10.0)
    assert SeasonalNaive(4, 7)(past).tolist() == [6, 7, 8, 9, 6, 7, 8]
    assert SeasonalNaive(24, 3)(past[:2]).tolist() == [0, 1, 0]


def test_the_linear_model_is_ridge_regression_and_learns_a_recurrence() -> None:
    values = [1.0, 0.3]
    for _ in range(300):
        values.append(1.8 * values[-1] - 0.97 * values[-2] + 0.05)
    windows = Windows(torch.tensor([values, values[::-1]]), torch.zeros(len(values), 0), 6, 3)
    starts = np.arange(200)
    model = LinearModel.fit(windows, starts)
    x, y = (
        windows.past(torch.from_numpy(starts))[0].flatten(0, 1),
        windows.future(torch.from_numpy(starts)).flatten(0, 1),
    )
    inputs = torch.cat([x - x[:, -1:], torch.ones(len(x), 1)], 1).double().numpy()
    ridge = 1e-3 * np.mean(np.sum(inputs**2, 0)) * np.eye(7)
    rows = np.concatenate([inputs, np.linalg.cholesky(ridge).T])  # ridge as more rows of least squares
    targets = np.concatenate([(y - x[:, -1:]).double().numpy(), np.zeros((7, 3))])
    np.testing.assert_allclose(model.weight, np.linalg.lstsq(rows, targets, rcond=None)[0], rtol=1e-3, atol=1e-4)
    assert (model(x) - y).square().mean() < 0.05 * (x[:, -1:] - y).square().mean()


def test_wrong_settings_and_shapes() -> None:
    for code, *changes in (
        ("out_of_range", "forecast.patch=25"),
        ("out_of_range", "forecast.stride=5"),
        ("not_divisible", "forecast.look_back=23", "forecast.stride=2"),
        ("out_of_range", "forecast.quantiles=[0.9,0.5]"),
        ("missing_setting", "forecast.quantiles=[0.1,0.9]"),
        ("unused_setting", "forecast.quantiles=[0.5]", "forecast.loss=mae"),
        ("out_of_range", "forecast.split=[0.7,0.2,0.2]"),
        ("conflicting_settings", 'forecast.calendar=["hour","hour"]'),
        ("unknown_choice", 'forecast.calendar=["moon"]'),
        ("unused_setting", "train.r_drop=1.0"),
        ("conflicting_settings", "model.positions=syntax"),
        ("out_of_range", "model.positions=learned", "model.max_positions=5"),
        ("unknown_key", "text.kind=bpe"),
    ):
        with raises(RecipeError, code):
            recipe(*changes)
    model, past, _, calendar = random_forecaster()
    with raises(ShapeError, "shape_mismatch"):
        model.predict(past[..., 1:], calendar)


@pytest.mark.parametrize("mode", ["direct", "decoder"])
def test_the_loss_compiles_to_one_graph(mode: str) -> None:
    model, *_ = random_forecaster(
        *(f"forecast.mode={mode}", "model.norm=batch", 'forecast.calendar=["hour"]', "forecast.quantiles=[0.1,0.5]"),
        *("model.encoder_layers=1", "model.decoder_layers=1"),
    )
    windows = Windows(torch.randn(C, 60), torch.randn(60, 2), L, T)
    task, batch = ForecastLoss(model, windows), WindowBatch(torch.tensor([0, 7, 20]), 1, 1, 0)
    torch._dynamo.reset()
    compiled = torch.compile(task, backend="eager", fullgraph=True)(batch)
    plain = task(batch)
    torch.testing.assert_close((compiled.smoothed, compiled.plain), (plain.smoothed, plain.plain))
    predicted = model(*windows.past(batch.starts), windows.future(batch.starts))
    squared = (predicted[..., 1] - windows.future(batch.starts)).square().sum()
    torch.testing.assert_close(plain.plain, squared.detach())
