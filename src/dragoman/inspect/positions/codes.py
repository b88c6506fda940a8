"""Position codes as numbers: the values of each, and what it does to every pair of positions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from dragoman.config import IN_ATTENTION, ModelRecipe
from dragoman.config.model import PositionCodeName
from dragoman.errors import SearchError

Numbers = npt.NDArray[np.float64]
PairMeasure = Literal["similarity", "bias"]
ABOUT: Final[dict[PositionCodeName, str]] = {
    "sinusoidal": "Sines and cosines of many wavelengths, added to the embeddings (section 3.5). The dot product of "
    "two positions depends on their distance alone.",
    "learned": "A learned vector for each position, added to the embeddings. Positions beyond the last have none.",
    "index": "The position itself, added to every feature. It grows without bound: late in a sentence it is much "
    "larger than the embedding.",
    "normalized_index": "The position divided by the length of the sentence, added to every feature. It stays below 1, "
    "but a step to the next word has another size in each sentence. The length of a target is not known while it is "
    "written, so its position is divided by max_positions.",
    "relative": "A learned vector for each distance, added to keys and values inside attention (Shaw et al., 2018). "
    "Distances beyond the largest share its vector.",
    "rotary": "Queries and keys are rotated by angles that grow with the position (Su et al., 2021). Nothing is added, "
    "and their product depends on the distance alone.",
    "alibi": "Each head lowers its scores by its own slope times the distance (Press et al., 2022). Nothing is added.",
    "syntax": "In the encoder, the sinusoid of the position plus a learned code of the word's depth in its dependency "
    "tree (after Wang et al., 2019).",
    "none": "Nothing is added: the encoder reads a bag of words.",
}


@dataclass(frozen=True)
class PositionView:
    """A position code: its values `[rows, columns]`, and its effect on pairs of positions `[planes, L, L]`.

    Rows are positions from `first_row` on, or what `row_name` says. A plane is a head if the code differs by head. In
    `pairs`, the row is the query's position and the column the key's. A similarity is relative to that of a position
    with itself; a bias is added to the scores of attention.
    """

    code: PositionCodeName
    name: str
    values: Numbers
    pairs: Numbers
    parameters: int = 0
    row_name: str = "position"
    first_row: int = 0
    column_name: str = "dimension"
    measure: PairMeasure = "similarity"
    pairs_label: str = "dot product of two positions, relative to the mean of a position with itself"

    @property
    def length(self) -> int:
        """The number of positions in `pairs`."""
        return len(self.pairs[0])

    @property
    def distance_only(self) -> bool:
        """Whether the effect on a pair depends only on the distance between its positions."""
        scale = max(float(np.abs(self.pairs).max()), 1e-12)
        return all(float((high - low).max()) < 1e-4 * scale for _, low, high in map(by_distance, self.pairs))


def similarity(codes: Numbers) -> Numbers:
    """Dot products of all pairs of positions, divided by the mean squared norm; zeros if the code is zero."""
    products = codes @ codes.T
    norm = np.mean(np.diag(products))
    scaled: Numbers = products / norm if norm else products
    return scaled


def by_distance(pairs: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Mean, minimum and maximum over the pairs of each distance (key minus query) from -(L - 1) to L - 1."""
    diagonals = [np.diag(pairs, k) for k in range(1 - len(pairs), len(pairs))]
    mean, minimum, maximum = (np.array([f(d) for d in diagonals]) for f in (np.mean, np.min, np.max))
    return mean, minimum, maximum


def model_views(model: Any, length: int) -> list[PositionView]:
    """The position code of a model: one view for both sides if they are the same, otherwise one for each.

    Codes inside attention that have weights have a view for each layer.
    """
    recipe: ModelRecipe = model.recipe
    if recipe.architecture == "recurrent":
        message = "a recurrent model has no position code to draw; use a transformer or a convolutional model"
        raise SearchError(message, code="no_positions")
    if recipe.positions in IN_ATTENTION:
        stacks = {"encoder": model.encoder, "decoder": model.decoder}
        functions = {
            f"{s} layer {i}": layer.attention.function for s, of in stacks.items() for i, layer in enumerate(of, 1)
        }
        if recipe.positions != "relative":  # without weights, all layers are the same
            functions = {"": model.decoder[0].attention.function}
        return [attention_view(recipe, function, name, length) for name, function in functions.items()]
    return added_views(recipe, model.source_positions, model.target_positions, length)


def code_views(names: Iterable[PositionCodeName], recipe: ModelRecipe, length: int) -> list[PositionView]:
    """Position codes by name, at the sizes of a recipe; what would be learned has its initial random weights."""
    import torch

    from dragoman.models.parts import parts

    found: list[PositionView] = []
    for name in dict.fromkeys(names):
        chosen = replace(
            recipe, architecture="transformer", attention="scaled_dot_product", pattern="full", positions=name
        )
        if name == "learned":
            chosen = replace(chosen, max_positions=max(length, recipe.max_positions))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            make = parts(chosen)
            if name in IN_ATTENTION:
                views = [attention_view(chosen, make.encoder_attention().function, "", length)]
            else:
                source = make.source_positions()
                target = source if name == "learned" else make.target_positions()  # random: one side is enough
                views = added_views(chosen, source, target, length)
        found += [replace(view, name=f"{view.name}, untrained") if view.parameters else view for view in views]
    return found


def added_views(recipe: ModelRecipe, source: Any, target: Any, length: int) -> list[PositionView]:
    """What is added to the embeddings: the output for embeddings of zero."""
    from dragoman.nn import NormalizedIndexPositions, SyntaxPositions

    name = recipe.positions

    def view(code: Any, which: str = "", tokens: int = length) -> PositionView:
        values = added_code(code, recipe.d_model, tokens)
        label = f"{name}, {which}" if which else name
        return PositionView(name, label, values, similarity(values)[None], count_parameters(code))

    if isinstance(source, SyntaxPositions):
        depths = source.codes()[:length].detach().double().cpu().numpy()
        depth_view = PositionView(
            name, "syntax, depth", depths, similarity(depths)[None], count_parameters(source), row_name="depth"
        )
        return [view(source.order, "order"), depth_view]
    if isinstance(source, NormalizedIndexPositions):
        half = max(2, length // 2)
        sources = [view(source, f"source of {n} tokens", n) for n in dict.fromkeys((length, half))]
        return [*sources, view(target, "target")]
    both = [view(source, "source"), view(target, "target")]
    return [view(source)] if np.array_equal(both[0].values, both[1].values) else both


def added_code(code: Any, d_model: int, length: int) -> Numbers:
    """`[length, D]`: what a code adds to the embedding at each position of a sentence of this length."""
    import torch

    from dragoman.nn import Padded

    device = next((tensor.device for tensor in (*code.parameters(), *code.buffers())), torch.device("cpu"))
    with torch.inference_mode():
        values = code(torch.zeros(1, length, d_model, device=device), Padded(length))
    numbers: Numbers = values[0].double().cpu().numpy()
    return numbers


def attention_view(recipe: ModelRecipe, function: Any, which: str, length: int) -> PositionView:
    """A code inside self-attention: rotations, biases, or the vectors of distances."""
    import torch

    from dragoman.nn import LinearBias, Padded, RelativePositions, RotaryPositions
    from dragoman.nn.position.rotary import rotate

    name = recipe.positions
    label = f"{name}, {which}" if which else name
    distance = np.subtract.outer(np.arange(length), np.arange(length)).T  # the key's position minus the query's
    if isinstance(function, RelativePositions):
        table, farthest = function.key_table.detach().double().cpu().numpy(), function.max_distance
        to_same = table @ table[farthest] / (table[farthest] @ table[farthest])
        return PositionView(
            *(name, label, table, to_same[np.clip(distance, -farthest, farthest) + farthest][None]),
            *(count_parameters(function), "distance", -farthest),
            pairs_label="dot product of the pair's key vector with that of distance 0, relative to the latter's square",
        )
    if isinstance(function, LinearBias):
        slopes = function.slopes.double().cpu().numpy()
        bias = -slopes[:, None, None] * np.abs(distance)
        return PositionView(
            *(name, label, bias[:, -1, :].T, bias),
            column_name="head, for a query at the last position",
            measure="bias",
            pairs_label="added to the score of a query and a key",
        )
    assert isinstance(function, RotaryPositions)
    with torch.inference_mode():
        angles = function.angles.code(Padded(length), torch.device("cpu")).cpu()
        rotated = rotate(torch.ones(length, recipe.key_size), angles).double().numpy()
    return PositionView(
        *(name, label, angles.double().numpy(), (rotated @ rotated.T / recipe.key_size)[None]),
        column_name="sine and cosine of each angle",
        pairs_label="product of a query and an equal key, relative to the same position",
    )


def count_parameters(code: Any) -> int:
    """The number of weights of a code."""
    return sum(weights.numel() for weights in code.parameters())


def plane_names(view: PositionView) -> Sequence[str]:
    """The names of the planes of `pairs`: heads, or nothing if there is one."""
    return [""] if len(view.pairs) == 1 else [f"head {i}" for i in range(1, len(view.pairs) + 1)]
