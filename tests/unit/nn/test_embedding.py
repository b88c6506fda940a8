import pytest
import torch

from dragoman.errors import ShapeError
from dragoman.modeldir.weights import EMBEDDING_TABLES
from dragoman.nn import Embeddings
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
    with raises(ShapeError, "vocabulary_mismatch", "19 and 23 tokens", "tie='target'", "shared vocabulary"):
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
