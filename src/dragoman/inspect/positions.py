"""The position code as pictures (section 3.5): its values, and how alike two places look at some distance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.errors import SearchError
from dragoman.inspect.pictures import pyplot, save

Codes = npt.NDArray[np.float64]


def position_codes(model: Any, length: int) -> dict[str, Codes]:
    """`[length, D]`: what the model adds to an embedding at each place; one entry where both sides have the same.

    Whatever the code is, it is asked for what it makes of nothing. A code for trees is two: order and depth.
    """
    import torch

    from dragoman.nn import Padded, SyntaxPositions

    if not hasattr(model, "source_positions"):
        raise SearchError(
            f"a {model.recipe.architecture} model reads a token after the other and needs no position code; there is "
            "none to draw"
        )
    nothing = torch.zeros(1, length, model.recipe.d_model, device=model.projection().device)
    found: dict[str, Codes] = {}
    with torch.inference_mode():
        for side, code in (("source", model.source_positions), ("target", model.target_positions)):
            if isinstance(code, SyntaxPositions):
                found["depth in the tree"] = code.codes()[:length].double().cpu().numpy()
                code = code.order
            found[side] = code(nothing, Padded(length))[0].double().cpu().numpy()
    if not any(codes.any() for codes in found.values()):
        raise SearchError(
            f"this model has model.positions={model.recipe.positions!r}, which adds nothing to the embeddings; "
            "there is no code to draw"
        )
    same = np.array_equal(found["source"], found["target"])
    if same:
        found = {"source and target": found.pop("source"), **found}
        del found["target"]
    return found


def similarity(codes: Codes) -> Codes:
    """Dot products of every two places, over the mean of their squares: 1 is the same place."""
    products = codes @ codes.T
    scaled: Codes = products / np.mean(np.diag(products))
    return scaled


def by_distance(codes: Codes) -> tuple[Codes, Codes, Codes]:
    """Mean, least and greatest similarity of places that are 0, 1, 2... apart."""
    all_pairs = similarity(codes)
    diagonals = [np.diag(all_pairs, k) for k in range(len(codes))]
    mean, least, most = (np.array([f(d) for d in diagonals]) for f in (np.mean, np.min, np.max))
    return mean, least, most


def draw_positions(codes: dict[str, Codes], path: str | Path, title: str = "") -> str:
    """For each side: the code as a heat map, the similarity of every two places, and its fall with distance."""
    figure, axes = pyplot().subplots(
        len(codes), 3, figsize=(13, 3.9 * len(codes) + 0.3), layout="constrained", squeeze=False
    )
    for (heat, square, curve), (side, code) in zip(axes, codes.items(), strict=True):
        most = np.abs(code).max()
        image = heat.imshow(code, aspect="auto", cmap="RdBu_r", vmin=-most, vmax=most, interpolation="nearest")
        figure.colorbar(image, ax=heat, pad=0.02)
        heat.set(title=f"{side}: the code", xlabel="dimension", ylabel="position")
        alike = similarity(code)
        span = np.abs(alike).max()
        image = square.imshow(alike, cmap="RdBu_r", vmin=-span, vmax=span, interpolation="nearest")
        figure.colorbar(image, ax=square, pad=0.02)
        square.set(title="dot product of two positions, itself = 1", xlabel="position", ylabel="position")
        mean, least, greatest = by_distance(code)
        curve.fill_between(range(len(mean)), least, greatest, color="#3b6ea8", alpha=0.2, linewidth=0)
        curve.plot(mean, color="#3b6ea8")
        curve.axhline(0, color="0.6", linewidth=0.8)
        curve.set(title="by distance: mean, least and greatest", xlabel="positions apart", xlim=(0, len(mean) - 1))
        curve.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title)
    return save(figure, path)
