"""Adam by the kernel against PyTorch's, for weights whose gradients are in half precision."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

pytest.importorskip("triton")

from dragoman.config import TrainRecipe
from dragoman.training.optim import bf16_adam
from dragoman.training.optim.bf16_adam import Bf16Adam, Bf16Weights, supports_bf16_adam
from dragoman.training.optim.optimizer import Optimizer

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
KINDS = [torch.bfloat16, torch.float16]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bf16_adam, "WEIGHTS_PER_PROGRAM", 128)
    monkeypatch.setattr(bf16_adam, "WEIGHTS_PER_BLOCK", 32)


class Model(nn.Module):
    """Matrices that fill chunks, that do not, and a table that is not for the kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 3)
        self.first, self.second = nn.Linear(32, 16), nn.Linear(7, 19)
        self.idle = nn.Linear(3, 2, bias=False)


def setting(recipe: TrainRecipe, kind: torch.dtype) -> tuple[Model, Optimizer, Bf16Weights]:
    torch.manual_seed(5)
    model = Model().to(DEVICE)
    return model, Optimizer(model, recipe), Bf16Weights(model, kind)


def is_rounded(half: torch.Tensor, whole: torch.Tensor) -> bool:
    """Whether `half` is `whole` in its precision; Triton's interpreter cuts bfloat16 off instead of rounding."""
    if half.device.type == "cpu" and half.dtype == torch.bfloat16:
        return bool(((half.float() - whole).abs() <= whole.abs() / 128).all())
    return torch.equal(half, whole.detach().to(half.dtype))


def number(value: float) -> torch.Tensor:
    return torch.tensor(value, device=DEVICE)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "decay", "beta2"), [("adam", 0.0, 0.98), ("adam", 0.1, 0.9999), ("adamw", 0.1, 0.98)])
def test_steps_are_those_of_pytorch(name: str, decay: float, beta2: float, kind: torch.dtype) -> None:
    recipe = TrainRecipe(optimizer=name, weight_decay=decay, beta2=beta2, epsilon=1e-6)  # type: ignore[arg-type]
    model, optimizer, bf16 = setting(recipe, kind)
    theirs = [p.detach().clone().double().requires_grad_() for p in bf16.master]
    common = {"lr": 0.0, "betas": (recipe.beta1, recipe.beta2), "eps": recipe.epsilon, "weight_decay": decay}
    reference = (torch.optim.Adam if name == "adam" else torch.optim.AdamW)(theirs, **common)  # type: ignore[arg-type]
    ours = Bf16Adam(bf16, optimizer)
    for step in range(1, 6):
        rate, divisor = 0.01 * step, 1.0 + step
        for half, exact in zip(bf16.copies, theirs, strict=True):
            if half.shape != model.idle.weight.shape:
                half.grad = torch.randn_like(half)
                exact.grad = half.grad.double() / divisor
        assert len(ours.gradients()) == 4
        reference.param_groups[0]["lr"] = rate
        reference.step()
        ours.step(number(rate), number(divisor), number(0.0))
        assert not ours.gradients()
    for whole, half, exact in zip(bf16.master, bf16.copies, theirs, strict=True):
        torch.testing.assert_close(whole.double(), exact, atol=2e-6, rtol=1e-5)
        if half.shape != model.idle.weight.shape:
            assert is_rounded(half, whole)
    moments = optimizer.inner[0].state[model.second.weight]
    assert float(moments["step"]) == 5
    assert float(optimizer.inner[0].state[model.idle.weight]["step"]) == 0
    exact_moments = next(reference.state[p] for p in theirs if p.shape == model.second.weight.shape)
    for what, least in (("exp_avg", 1e-6), ("exp_avg_sq", 1e-9)):
        torch.testing.assert_close(moments[what].double(), exact_moments[what], atol=least, rtol=1e-5)


def test_a_step_that_is_skipped_changes_nothing() -> None:
    model, optimizer, bf16 = setting(TrainRecipe(), torch.bfloat16)
    ours = Bf16Adam(bf16, optimizer)
    kept = []
    for skip in (0.0, 1.0):
        for half in bf16.copies:
            half.grad = torch.randn_like(half)
        if skip:
            bf16.copies[0].grad.fill_(float("nan"))  # type: ignore[union-attr]
        ours.step(number(0.1), number(1.0), number(skip))
        state = {
            **dict(model.named_parameters()),
            **optimizer.state(),
            **{f"half {n}": h for n, h in bf16.named.items()},
        }
        kept.append({name: tensor.detach().clone() for name, tensor in state.items()})
    for name, before in kept[0].items():
        assert torch.equal(before, kept[1][name]), name
    assert all(tensor.isfinite().all() for tensor in kept[1].values())


def test_pytorch_goes_on_from_its_moments_and_it_from_pytorchs() -> None:
    recipe = TrainRecipe(epsilon=1e-6)
    gradients = [torch.randn(16, 32).bfloat16().to(DEVICE) for _ in range(4)]
    found = []
    for by_kernel in ((False, False, False, False), (True, True, False, False), (False, False, True, True)):
        model, optimizer, bf16 = setting(recipe, torch.bfloat16)
        place = next(i for i, whole in enumerate(bf16.master) if whole is model.first.weight)
        for kernel, gradient in zip(by_kernel, gradients, strict=True):
            if kernel:
                bf16.copies[place].grad = gradient.clone()
                Bf16Adam(bf16, optimizer).step(number(0.02), number(1.0), number(0.0))
            else:
                model.first.weight.grad = gradient.float()
                optimizer.step(0.02)
                model.first.weight.grad = None
        found.append(model.first.weight.detach().clone())
        assert float(optimizer.state()["first.weight/step"]) == 4
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], atol=2e-6, rtol=1e-5)


def tokens(kind: torch.dtype) -> dict[str, torch.Tensor]:
    """The same gradient [16, 32] as it may come: by itself, inside something larger, and column by column."""
    plain = torch.randn(16, 32, device=DEVICE).to(kind)
    inside = torch.cat([plain.new_zeros(3), plain.flatten()])[3:].view(16, 32)
    return {"plain": plain, "inside": inside, "columns": plain.t().contiguous().t()}


def test_gradients_may_lie_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bf16_adam, "WEIGHTS_PER_PROGRAM", 512)
    monkeypatch.setattr(bf16_adam, "WEIGHTS_PER_BLOCK", 512)
    found = []
    torch.manual_seed(11)
    for gradient in tokens(torch.bfloat16).values():
        model, optimizer, bf16 = setting(TrainRecipe(), torch.bfloat16)
        ours = Bf16Adam(bf16, optimizer)
        bf16.named["first.weight"].grad = gradient
        ours.step(number(0.1), number(1.0), number(0.0))
        assert not (ours.host_table[:, :5] % 16).any()  # the kernel reads 16 bytes at once
        found.append(model.first.weight.detach())
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def test_a_step_without_any_gradient_changes_nothing() -> None:
    _, optimizer, bf16 = setting(TrainRecipe(), torch.bfloat16)
    before = [whole.detach().clone() for whole in bf16.master]
    Bf16Adam(bf16, optimizer).step(number(0.1), number(1.0), number(0.0))
    assert all(torch.equal(whole, kept) for whole, kept in zip(bf16.master, before, strict=True))
    assert float(optimizer.state()["first.weight/step"]) == 0


class Called(TorchDispatchMode):
    """Which of PyTorch's operators are called inside the block."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_steps_are_counted_by_an_operator_that_does_not_ask_the_host() -> None:
    _, optimizer, bf16 = setting(TrainRecipe(), torch.bfloat16)
    ours = Bf16Adam(bf16, optimizer)
    for half in bf16.copies:
        half.grad = torch.randn_like(half)
    with Called() as called:
        ours.step(number(0.1), number(1.0), number(0.0))
    counted = [name for name in called.names if "_foreach_add_" in name]
    assert counted == ["aten._foreach_add_.List"]  # that of a tensor reads it, which a recorded graph does not allow


def test_weights_that_it_cannot_read_are_left_to_pytorch() -> None:
    model, optimizer, bf16 = setting(TrainRecipe(), torch.bfloat16)
    Bf16Adam(bf16, optimizer)
    moved = optimizer.inner[0].state
    assert supports_bf16_adam(bf16, optimizer, batches=1)
    moved[model.first.weight]["step"].fill_(3)  # and others never: they have no gradients
    assert supports_bf16_adam(bf16, optimizer, batches=1)
    moved[model.second.weight]["step"].fill_(2)
    assert not supports_bf16_adam(bf16, optimizer, batches=1)

    drawn = torch.randn(16 * 32 + 1, device=DEVICE)
    for weight in (drawn[1:].view(16, 32), drawn[:-1].view(32, 16).t(), drawn[:-1].view(16, 32).double()):
        model = Model().to(DEVICE)
        model.first.weight = nn.Parameter(weight)
        assert not supports_bf16_adam(Bf16Weights(model, torch.bfloat16), Optimizer(model, TrainRecipe()), batches=1)


def test_what_it_is_for() -> None:
    _, optimizer, bf16 = setting(TrainRecipe(), torch.bfloat16)
    assert supports_bf16_adam(bf16, optimizer, batches=1)
    assert supports_bf16_adam(bf16, setting(TrainRecipe(optimizer="adamw"), torch.bfloat16)[1], batches=1)
    assert not supports_bf16_adam(bf16, optimizer, batches=2)
    assert not supports_bf16_adam(setting(TrainRecipe(), torch.float32)[2], optimizer, batches=1)
    model, muon, _ = setting(TrainRecipe(optimizer="muon"), torch.bfloat16)
    assert not supports_bf16_adam(Bf16Weights(model, torch.bfloat16), muon, batches=1)
