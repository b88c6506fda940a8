import pytest
import torch

from dragoman.errors import ShapeError
from dragoman.modeldir.weights import EMBEDDING_TABLES
from dragoman.nn import ACTIVATIONS, Embeddings, FeedForward
from raising import raises


@pytest.mark.parametrize(("tie", "matrices"), [("all", 1), ("target", 2), ("none", 3)])
def test_ties_share_one_parameter(tie: str, matrices: int) -> None:
    embeddings = Embeddings(19, 19, 8, EMBEDDING_TABLES[tie])
    assert len(list(embeddings.parameters())) == matrices
    assert len(embeddings.state_dict()) == matrices
    ids = torch.tensor([3, 5])
    same = torch.equal(embeddings.source(ids), embeddings.target(ids))
    assert same == (tie == "all")
    tied_softmax = torch.allclose(embeddings.logits(torch.eye(8)).T[ids] * 8**0.5, embeddings.target(ids))
    assert tied_softmax == (tie != "none")


def test_embeddings_are_scaled_to_unit_variance() -> None:
    embeddings = Embeddings(500, 500, 64)
    x = embeddings.source(torch.arange(500))
    torch.testing.assert_close(x, embeddings.tables["shared"] * 8)
    assert 0.95 < x.var().item() < 1.05


def test_two_vocabularies_cannot_share_a_matrix() -> None:
    with raises(ShapeError, "vocabulary_mismatch", "19 and 23 tokens", "tie='target'"):
        Embeddings(19, 23, 8)
    assert Embeddings(19, 23, 8, EMBEDDING_TABLES["target"]).logits(torch.zeros(2, 8)).shape == (2, 23)


def test_an_output_bias_is_added_to_each_tokens_logit() -> None:
    embeddings = Embeddings(19, 23, 8, EMBEDDING_TABLES["target"], bias=True)
    assert embeddings.state_dict()["output_bias"].shape == (23,)
    hidden, plain = torch.randn(5, 8), Embeddings(19, 23, 8, EMBEDDING_TABLES["target"])
    plain.load_state_dict({n: w for n, w in embeddings.state_dict().items() if n != "output_bias"})
    torch.testing.assert_close(embeddings.logits(hidden), plain.logits(hidden))
    embeddings.output_bias.data.copy_(torch.arange(23.0))
    torch.testing.assert_close(embeddings.logits(hidden), plain.logits(hidden) + torch.arange(23.0))


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
