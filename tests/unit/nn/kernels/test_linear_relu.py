import torch
import torch.nn.functional as F
from torch._dynamo.testing import CompileCounter

from dragoman.nn.kernels.linear_relu import linear_relu


def test_values_and_gradients_are_those_of_the_two_after_each_other(device: torch.device) -> None:
    sizes = ((5, 8), (11, 8), (11,))
    x, weight, bias = (torch.randn(size, device=device, dtype=torch.float64, requires_grad=True) for size in sizes)
    probe = torch.randn(5, 11, device=device, dtype=torch.float64)
    ours, theirs = linear_relu(x, weight, bias), F.relu(F.linear(x, weight, bias))
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(*(torch.autograd.grad((y * probe).sum(), (x, weight, bias)) for y in (ours, theirs)), strict=True):
        torch.testing.assert_close(a, b)


def test_compiled_code_serves_any_number_of_rows() -> None:
    counter = CompileCounter()
    compiled = torch.compile(linear_relu, backend=counter, dynamic=True, fullgraph=True)
    for rows in (5, 7, 9):
        assert compiled(torch.randn(rows, 8), torch.randn(11, 8), torch.randn(11)).shape == (rows, 11)
    assert counter.frame_count == 1
