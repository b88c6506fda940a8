import pytest
import torch
from torch import Tensor, nn

from dragoman.data.batch import Batch
from dragoman.nn.kernels.cpu_bf16 import torch_bfloat16_works
from dragoman.nn.linear import Linear
from dragoman.training.loss.cross_entropy import LossSum
from dragoman.training.optim.bf16_adam import Bf16Weights, WithWeights


@pytest.fixture
def needs_bfloat16() -> None:
    """Skips where they crash; a fixture, because the check starts a process, which collecting tests should not."""
    if not torch_bfloat16_works():
        pytest.skip("this CPU has no bfloat16 products")


class Task(nn.Module):
    """Two linear maps and a norm between them, which takes a tensor for a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = Linear(5, 7), nn.LayerNorm(7), Linear(7, 3, bias=False)
        self.table = nn.Parameter(torch.randn(3))
        self.frozen = Linear(3, 3).requires_grad_(False)

    def forward(self, batch: Tensor) -> LossSum:
        y = self.frozen(self.second(self.norm(self.first(batch)))) * self.table
        return LossSum(y.float().square().sum(), y.detach().float().sum())


def autocast() -> torch.autocast:
    return torch.autocast("cpu", torch.bfloat16)


def batches() -> list[Batch]:
    torch.manual_seed(4)
    return [torch.randn(11, 5) for _ in range(3)]  # type: ignore[misc]


def test_only_what_products_use_and_training_moves_is_halved() -> None:
    task = Task()
    assert set(Bf16Weights(task, torch.bfloat16).named) == {"first.weight", "first.bias", "second.weight"}
    assert not Bf16Weights(task, None).named
    assert not Bf16Weights(task, torch.float32).named
    task.frozen.weight = task.norm.extra = task.second.weight  # used twice: one place may want all of its precision
    assert set(Bf16Weights(task, torch.bfloat16).named) == {"first.weight", "first.bias"}


@pytest.mark.usefixtures("needs_bfloat16")
def test_loss_and_gradients_are_autocasts() -> None:
    task = Task()
    with autocast():
        expected = task(batches()[0]).smoothed
    expected.backward()
    gradients = [p.grad for p in task.parameters()]
    task.zero_grad()
    bf16 = Bf16Weights(task, torch.bfloat16)
    with torch.no_grad():
        for half in bf16.copies:
            half.zero_()
    bf16.refresh()
    with autocast():
        found = WithWeights(task)(batches()[0], bf16.named).smoothed
    found.backward()
    bf16.collect(add=False)
    assert torch.equal(found, expected)
    for parameter, wanted in zip(task.parameters(), gradients, strict=True):
        if wanted is None:
            assert parameter.grad is None
        else:
            assert parameter.grad is not None and parameter.grad.dtype == torch.float32
            torch.testing.assert_close(parameter.grad, wanted, atol=0.0, rtol=2**-8)  # a bias's sum may stay unrounded


@pytest.mark.usefixtures("needs_bfloat16")
def test_gradients_of_several_batches_are_summed_in_the_weights_precision() -> None:
    task = Task()
    bf16, alone = Bf16Weights(task, torch.bfloat16), []
    called = WithWeights(task)
    for batch in batches():
        with autocast():
            called(batch, bf16.named).smoothed.backward()
        alone.append(bf16.named["first.weight"].grad)
        bf16.collect(add=False)
        assert bf16.named["first.weight"].grad is None
    for number, batch in enumerate(batches()):
        with autocast():
            called(batch, bf16.named).smoothed.backward()
        bf16.collect(add=number > 0)
    assert alone[0] is not None and alone[1] is not None and alone[2] is not None
    wanted = alone[0].float() + alone[1].float() + alone[2].float()
    assert task.first.weight.grad is not None
    assert torch.equal(task.first.weight.grad, wanted)
    assert not torch.equal(wanted, (alone[0] + alone[1] + alone[2]).float())


def test_a_weight_that_nothing_used_has_no_gradient() -> None:
    task = Task()
    bf16 = Bf16Weights(task, torch.bfloat16)
    bf16.named["first.bias"].grad = torch.ones(7, dtype=torch.bfloat16)
    bf16.collect(add=False)
    assert [p.grad is not None for p in bf16.master] == [False, True, False]
    bf16.named["first.weight"].grad = torch.full((7, 5), 2.0, dtype=torch.bfloat16)
    bf16.collect(add=True)
    assert [None if p.grad is None else p.grad.flatten()[0].item() for p in bf16.master] == [2.0, 1.0, None]
    bf16.collect(add=False)
    assert all(p.grad is None for p in bf16.master)
