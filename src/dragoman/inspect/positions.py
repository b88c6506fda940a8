"""Pictures of the position code (section 3.5): its values, and the similarity of positions by distance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.errors import SearchError
from dragoman.inspect.pictures import load_pyplot, save_figure

Codes = npt.NDArray[np.float64]


def position_codes(model: Any, length: int) -> dict[str, Codes]:
    """`[length, D]`: what the model adds to an embedding at each position; one entry if both sides are the same.

    The code is the output for zero embeddings. A code for trees has two parts: order and depth.
    """
    import torch

    from dragoman.nn import Padded, SyntaxPositions

    if not hasattr(model, "source_positions"):
        message = f"a {model.recipe.architecture} model has no position code to draw; use a transformer"
        raise SearchError(message, code="no_positions")
    zeros = torch.zeros(1, length, model.recipe.d_model, device=model.projection().device)
    found: dict[str, Codes] = {}
    with torch.inference_mode():
        for side, code in (("source", model.source_positions), ("target", model.target_positions)):
            if isinstance(code, SyntaxPositions):
                found["depth in the tree"] = code.codes()[:length].double().cpu().numpy()
                code = code.order
            found[side] = code(zeros, Padded(length))[0].double().cpu().numpy()
    if not any(codes.any() for codes in found.values()):
        raise SearchError(
            f"model.positions={model.recipe.positions!r} adds no code to the embeddings, so there is nothing to draw; "
            "use a model with positions='sinusoidal', 'learned' or 'syntax'",
            code="no_positions",
        )
    same = np.array_equal(found["source"], found["target"])
    if same:
        found = {"source and target": found.pop("source"), **found}
        del found["target"]
    return found


def similarity(codes: Codes) -> Codes:
    """Dot products of all pairs of positions, divided by the mean squared norm."""
    products = codes @ codes.T
    scaled: Codes = products / np.mean(np.diag(products))
    return scaled


def similarity_by_distance(codes: Codes) -> tuple[Codes, Codes, Codes]:
    """Mean, minimum and maximum similarity of positions that are 0, 1, 2... apart."""
    all_pairs = similarity(codes)
    diagonals = [np.diag(all_pairs, k) for k in range(len(codes))]
    mean, minimum, maximum = (np.array([f(d) for d in diagonals]) for f in (np.mean, np.min, np.max))
    return mean, minimum, maximum


def draw_positions(codes: dict[str, Codes], path: str | Path, title: str = "") -> str:
    """Draw for each side the code, the similarity of all pairs of positions, and the similarity by distance."""
    figure, axes = load_pyplot().subplots(
        len(codes), 3, figsize=(13, 3.9 * len(codes) + 0.3), layout="constrained", squeeze=False
    )
    for (heat, square, curve), (side, code) in zip(axes, codes.items(), strict=True):
        maximum = np.abs(code).max()
        image = heat.imshow(code, aspect="auto", cmap="RdBu_r", vmin=-maximum, vmax=maximum, interpolation="nearest")
        figure.colorbar(image, ax=heat, pad=0.02)
        heat.set(title=f"{side}: the code", xlabel="dimension", ylabel="position")
        similarities = similarity(code)
        span = np.abs(similarities).max()
        image = square.imshow(similarities, cmap="RdBu_r", vmin=-span, vmax=span, interpolation="nearest")
        figure.colorbar(image, ax=square, pad=0.02)
        square.set(title="dot product of two positions (1: same position)", xlabel="position", ylabel="position")
        mean, low, high = similarity_by_distance(code)
        curve.fill_between(range(len(mean)), low, high, color="#3b6ea8", alpha=0.2, linewidth=0)
        curve.plot(mean, color="#3b6ea8")
        curve.axhline(0, color="0.6", linewidth=0.8)
        curve.set(title="by distance: mean, minimum, maximum", xlabel="positions apart", xlim=(0, len(mean) - 1))
        curve.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title)
    return save_figure(figure, path)
