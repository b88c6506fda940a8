"""Position codes as numbers, against their equations and against what the modules do in attention; the picture."""

from __future__ import annotations

import math
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from dragoman.config import ModelRecipe
from dragoman.config.model import PositionCodeName
from dragoman.errors import SearchError
from dragoman.inspect.positions.codes import ABOUT, by_distance, code_views, model_views, similarity
from dragoman.inspect.positions.picture import draw_positions
from dragoman.models import Convolutional, Recurrent, Transformer
from dragoman.nn import Padded, everything, look
from raising import raises

PNG, SVG = b"\x89PNG\r\n\x1a\n", b"<?xml"
SIZES = {"d_model": 8, "n_heads": 2, "d_ff": 12, "encoder_layers": 1, "decoder_layers": 2}


def small(**changes: object) -> Transformer:
    return Transformer(ModelRecipe(**{**SIZES, **changes}), 11).eval()  # type: ignore[arg-type]


def test_sinusoids_are_the_papers_and_depend_on_distance_alone(tmp_path: Path) -> None:
    (view,) = model_views(small(), 13)
    for pos in range(13):
        for i in range(4):
            angle = pos / 10000 ** (2 * i / 8)
            np.testing.assert_allclose(view.values[pos, 2 * i : 2 * i + 2], [np.sin(angle), np.cos(angle)], atol=1e-6)
    mean, least, greatest = by_distance(view.pairs[0])
    np.testing.assert_allclose(least, greatest, atol=1e-5)
    expected = [np.cos([k / 10000 ** (2 * i / 8) for i in range(4)]).mean() for k in range(-12, 13)]
    np.testing.assert_allclose(mean, expected, atol=1e-5)
    assert view.distance_only and view.parameters == 0
    draw_positions([view], tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)


def test_learned_positions_have_a_view_for_each_side(tmp_path: Path) -> None:
    model = small(positions="learned", max_positions=9)
    source, target = model_views(model, 9)
    assert (source.name, target.name) == ("learned, source", "learned, target")
    np.testing.assert_allclose(target.values, model.target_positions.table.detach().numpy(), atol=1e-6)
    assert np.diag(similarity(source.values)).mean() == pytest.approx(1)
    assert not source.distance_only and source.parameters == 9 * 8
    draw_positions([source, target], tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_bytes().startswith(SVG)


def test_the_index_grows_and_the_normalized_one_depends_on_the_length() -> None:
    (index,) = model_views(small(positions="index"), 6)
    np.testing.assert_allclose(index.values, np.arange(6)[:, None] * np.ones(8))
    whole, half, target = model_views(small(positions="normalized_index", max_positions=50), 6)
    np.testing.assert_allclose(whole.values[:, 0], np.arange(6) / 6, atol=1e-7)
    np.testing.assert_allclose(half.values[:, 0], np.arange(3) / 3, atol=1e-7)
    np.testing.assert_allclose(target.values[:, 0], np.arange(6) / 50, atol=1e-7)
    assert not any(view.distance_only for view in (index, whole, half, target))


def test_the_biases_of_alibi_are_those_that_attention_adds() -> None:
    model = small(positions="alibi", n_heads=4)
    (view,) = model_views(model, 7)
    q = torch.zeros(1, 4, 7, 2)  # equal scores: the logarithm of a weight is the bias and a constant
    sees = look(Padded(7), Padded(7), everything, torch.device("cpu"))
    weights = model.encoder[0].attention.function(q, q, q, sees, weights=True).weights[0].double()
    logs = (weights / weights.diagonal(dim1=1, dim2=2)[:, :, None]).log()
    np.testing.assert_allclose(view.pairs, logs.numpy(), atol=1e-4)
    assert (view.measure, view.pairs.shape, view.values.shape) == ("bias", (4, 7, 7), (7, 4))
    np.testing.assert_allclose(view.values[:, 2], view.pairs[2, -1])


def test_rotary_similarities_are_the_scores_of_equal_queries_and_keys() -> None:
    model = small(positions="rotary")
    (view,) = model_views(model, 7)
    same = torch.ones(1, 2, 7, 4)
    sees = look(Padded(7), Padded(7), everything, torch.device("cpu"))
    weights = model.encoder[0].attention.function(same, same, same, sees, weights=True).weights[0, 0].double()
    scores = weights.log() * math.sqrt(4) / 4  # of unit products, up to a constant in each row
    np.testing.assert_allclose(view.pairs[0] - view.pairs[0][:, :1], (scores - scores[:, :1]).numpy(), atol=1e-5)
    assert view.distance_only


def test_relative_positions_have_a_view_for_each_layer() -> None:
    model = small(positions="relative", max_distance=2)
    views = model_views(model, 6)
    assert [view.name for view in views] == [
        *("relative, encoder layer 1", "relative, decoder layer 1", "relative, decoder layer 2")
    ]
    table = model.decoder[1].attention.function.key_table.detach().double().numpy()
    view = views[2]
    np.testing.assert_allclose(view.values, table)
    assert (view.first_row, view.row_name, view.parameters) == (-2, "distance", 2 * table.size)
    for query in range(6):
        for key in range(6):
            distance = min(2, max(-2, key - query))
            expected = table[distance + 2] @ table[2] / (table[2] @ table[2])
            assert view.pairs[0, query, key] == pytest.approx(expected)
    assert view.distance_only


def test_every_code_can_be_drawn_by_name(tmp_path: Path) -> None:
    recipe = ModelRecipe(d_model=16, n_heads=2)
    views = code_views(get_args(PositionCodeName), recipe, 5)
    assert {view.code for view in views} == {*get_args(PositionCodeName)} == {*ABOUT}
    assert all(("untrained" in view.name) == (view.parameters > 0) for view in views)
    assert all(np.isfinite(view.values).all() and np.isfinite(view.pairs).all() for view in views)
    again = code_views(get_args(PositionCodeName), recipe, 5)
    assert all(np.array_equal(one.values, other.values) for one, other in zip(views, again, strict=True))
    (nothing,) = (view for view in views if view.code == "none")
    assert not nothing.values.any() and not nothing.pairs.any()
    draw_positions([view for view in views if view.code in ("alibi", "relative")], tmp_path / "two.png")
    assert (tmp_path / "two.png").read_bytes().startswith(PNG)


def test_which_models_have_positions() -> None:
    sizes = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1}
    with raises(SearchError, "no_positions", "recurrent"):
        model_views(Recurrent(ModelRecipe(architecture="recurrent", **sizes), 11), 5)  # type: ignore[arg-type]
    convolutional = Convolutional(ModelRecipe(architecture="convolutional", **sizes), 11)  # type: ignore[arg-type]
    assert model_views(convolutional, 5)[0].code == "sinusoidal"


@pytest.mark.gpu
def test_a_model_on_a_gpu_stays_there_when_its_positions_were_looked_at() -> None:
    model = small(positions="learned", max_positions=9).cuda()
    assert model_views(model, 9)[0].values.shape == (9, 8)
    assert model.source_positions.table.is_cuda
