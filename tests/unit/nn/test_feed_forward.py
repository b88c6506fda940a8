import pytest
import torch

from dragoman.nn import ACTIVATIONS, FeedForward


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_feed_forward_is_its_equation(name: str) -> None:
    net = FeedForward(6, 11, ACTIVATIONS[name])
    torch.nn.init.normal_(net.inner.bias), torch.nn.init.normal_(net.outer.bias)
    x = torch.randn(2, 5, 6)
    reference = {"relu": lambda z: z.clamp(min=0), "gelu": lambda z: z * 0.5 * (1 + torch.erf(z / 2**0.5))}
    reference |= {"silu": lambda z: z / (1 + (-z).exp()), "tanh": lambda z: 1 - 2 / ((2 * z).exp() + 1)}
    inner = reference[name](x @ net.inner.weight.T + net.inner.bias)
    torch.testing.assert_close(net(x), inner @ net.outer.weight.T + net.outer.bias, atol=1e-5, rtol=1e-5)
    alone = torch.stack([net(x[:, i]) for i in range(5)], 1)  # position-wise: no position knows of another
    torch.testing.assert_close(net(x), alone, atol=1e-6, rtol=1e-5)
