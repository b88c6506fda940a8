"""The C engine and the CUDA engine's steps, on the CPU, against PyTorch, over random models and requests.

python tests/torture/engine_parity.py --cases 3000 --seed 1

A case is a model, or an ensemble, of random sizes, settings and weights, and one request: a search (greedy, beam,
n-best; with prefixes, required and avoided phrases, recorded heads), sampling, scoring of pairs, or the attention of
all heads. In float32 the C engine must give PyTorch's tokens, scores within 1e-4 and weights within 1e-5; in float32
and int8 it must give the same bits in another batch and with another number of threads. The searches that the CUDA
engine supports are run by it as well, unrecorded and in float32, with the same tolerances.

Two candidates may be closer than rounding. If the tokens differ, PyTorch searches again in float64 with weights that
are changed by a millionth: a result that appears there is a tie, and counted as such.
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from sanitizers import draw_heads, draw_recipe, draw_rows, draw_sampling, draw_search

from dragoman.config import ModelRecipe
from dragoman.engines.cuda.engine import CudaEngine
from dragoman.engines.native import NativeEngine
from dragoman.engines.native_model import NativeModel, load_code
from dragoman.engines.specs import cuda_unavailable
from dragoman.engines.torch import TorchEngine
from dragoman.errors import ShapeError
from dragoman.modeldir.weights import Weights
from dragoman.models.loading import as_arrays, build_model
from dragoman.native import why_not
from dragoman.search.constraints.tables import BatchConstraints
from dragoman.search.ensemble import Ensemble
from dragoman.search.types import Hypothesis, Ids, Mean, RecordedHead, Search
from dragoman.text.special_tokens import EOS, PAD
from letters import random_letters, random_tables

Kind = Literal["search", "constraints", "sampling", "scoring", "maps"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SCORES, WEIGHTS = 1e-4, 1e-5  # what may differ
PERTURBED = (1e-7, 1e-6, 1e-6, 1e-6, 3e-6, 3e-6, 3e-6)  # relative changes of weights that reveal a tie


@dataclass
class Case:
    """A model, or an ensemble, in both engines, and a request."""

    kind: Kind
    recipes: list[ModelRecipe]
    models: list[Any]
    mean: Mean
    native: NativeEngine
    quantized: NativeEngine
    sources: Ids
    targets: Ids
    search: Search
    prefixes: Ids | None
    constraints: BatchConstraints | None
    record: Sequence[RecordedHead]

    def reference(self, models: Sequence[Any] | None = None) -> TorchEngine:
        """PyTorch's engine, with these models or its own."""
        models = models or self.models
        return TorchEngine(Ensemble(models, self.mean) if len(models) > 1 else models[0])

    def run(
        self, engine: NativeEngine | TorchEngine | CudaEngine, chosen: Sequence[int] | None = None
    ) -> list[list[Hypothesis]]:
        """What an engine finds for these sentences, or for all."""
        chosen = range(len(self.sources)) if chosen is None else chosen
        return engine.search(
            [self.sources[i] for i in chosen],
            self.search,
            None if self.prefixes is None else [self.prefixes[i] for i in chosen],
            None if self.constraints is None else [self.constraints[i] for i in chosen],
            record=() if isinstance(engine, TorchEngine) else self.record,
        )

    def __str__(self) -> str:
        sentences = f"{len(self.sources)} sentences, vocabulary {self.native.vocabulary}, {len(self.models)} models"
        return f"{self.kind}: {self.recipes}, {sentences}, {self.search}, {self.record}"


def draw_case(draw: Random, code: Any) -> Case:
    """A random case."""
    kind = draw.choice(KINDS)
    count = draw.choice((1, 1, 1, 2, 3)) if kind != "maps" else 1
    size = draw.choice((draw.randint(15, 40), draw.randint(15, 300), draw.randint(65, 130)))
    source_size = draw.choice((size, draw.randint(5, 200)))
    recipes = [draw_distinct_recipe(draw) for _ in range(count)]
    if any(recipe.tie == "all" for recipe in recipes):
        source_size = size
    vocabulary = (source_size, size)
    torch.manual_seed(draw.randrange(1 << 32))
    models = [random_model(recipe, vocabulary) for recipe in recipes]
    mean: Mean = draw.choice(get_args(Mean))
    sources = draw_rows(draw, draw.choice((1, 2, 7, draw.randint(1, 20))), source_size, draw_longest(draw))
    search = draw_search(draw)
    sampling = draw_sampling(draw) if kind == "sampling" else None
    search = Search(
        **{**vars(search), "beam": min(search.beam, 9), "n_best": min(search.n_best, 9), "sampling": sampling}
    )
    constraints: BatchConstraints | None = None
    if kind == "constraints" or (kind == "sampling" and draw.random() < 0.3):
        constraints = random_tables(random_letters(size, draw), len(sources), draw)
    prefixes = [[*filter(lambda id_: id_ > EOS, row)] for row in draw_rows(draw, len(sources), size, 6)]
    targets = draw_rows(draw, len(sources), size, draw_longest(draw))
    threads = draw.choice((1, 2, 3))
    engines = (native_engine(code, recipes, models, vocabulary, threads, quantize, mean) for quantize in (False, True))
    return Case(
        kind, recipes, models, mean, *engines, sources, targets, search,
        prefixes if draw.random() < 0.3 else None, constraints,
        draw_heads(draw, recipes[0]) if kind in ("search", "constraints") else (),
    )  # fmt: skip


def draw_longest(draw: Random) -> int:
    """The largest number of tokens; sometimes more than attention scores at a time (SPAN of attention.c)."""
    return draw.choice((3, 3, 9, 9, 25, 25, draw.randint(70, 150)))


def draw_distinct_recipe(draw: Random) -> ModelRecipe:
    """A recipe with enough features that hypotheses differ, and positions for all sentences.

    Of one or two features, a norm leaves constants or signs: all orders of the same tokens are equally likely.
    """
    while (recipe := draw_recipe(draw)).d_model < 4:
        pass
    return replace(recipe, max_positions=draw.randint(40, 250))


def random_model(recipe: ModelRecipe, vocabulary: tuple[int, int]) -> Any:
    """A model whose weights, biases and norms are all random, and large enough that its choices are clear."""
    model = build_model(recipe, vocabulary[1] if recipe.tie == "all" else vocabulary, PAD).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn_like(weight)
    return model


def native_engine(
    code: Any,
    recipes: Sequence[ModelRecipe],
    models: Sequence[Any],
    vocabulary: tuple[int, int],
    threads: int,
    quantize: bool,
    mean: Mean,
) -> NativeEngine:
    """The C engine with the weights of these models."""
    packed = []
    for recipe, model in zip(recipes, models, strict=True):
        floats = {name: np.array(w, np.float32) for name, w in as_arrays(model.state_dict()).items()}
        weights = Weights(Path("random"), [], floats, {})
        packed.append(NativeModel(code, recipe, vocabulary, weights, threads, quantize))
    return NativeEngine(packed, threads, quantize, mean)


def check_search(case: Case, draw: Random) -> str:
    """The same hypotheses, scores and recorded attention; returns "same", or "tie"."""
    expected = case.run(case.reference())
    found = case.run(case.native)
    outcome = check_hypotheses(case, found, expected)
    if runs_on_cuda(case):
        cuda = case.run(CudaEngine(case.models[0], torch.float32, "cpu"))
        outcome = max(outcome, check_hypotheses(case, cuda, expected))  # "tie" if one of them is
    for engine in (case.native, case.quantized):
        check_batches(case, engine, draw, found if engine is case.native else case.run(engine))
    return outcome


def check_hypotheses(case: Case, found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> str:
    """Compare an engine's hypotheses with the reference's, and its recorded attention; returns "same", or "tie"."""
    outcome = "same"
    for i, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if [one.ids for one in ours] != [one.ids for one in theirs]:
            assert is_tie(case, i, ours, theirs), f"sentence {i}: {ours} instead of {theirs}"
            outcome = "tie"
            continue
        for one, other in zip(ours, theirs, strict=True):
            close(one.score, other.score, SCORES)
            close(one.log_probability / (len(one.ids) + 1), other.log_probability / (len(one.ids) + 1), SCORES)
            assert one.truncated == other.truncated
    if case.record:
        pairs = [(case.sources[i], one.ids) for i, of in enumerate(found) for one in of]
        recorded = [one.maps for of in found for one in of]
        for i, weights in case.reference(case.models[:1]).cross_maps(pairs):
            for head, maps in zip(case.record, recorded[i], strict=True):
                layer = weights[head.layer]
                close(maps, layer.mean(0) if head.head is None else layer[head.head], WEIGHTS)
    return outcome


def runs_on_cuda(case: Case) -> bool:
    """Whether the CUDA engine supports the model and the search."""
    if len(case.models) > 1 or cuda_unavailable(case.recipes[0], "cuda") is not None:
        return False
    return case.search.sampling is None and case.search.beam <= case.native.vocabulary[1]


def check_batches(case: Case, engine: NativeEngine, draw: Random, found: list[list[Hypothesis]]) -> None:
    """The same bits for some of the sentences, in another order and with another number of threads."""
    chosen = draw.sample(range(len(found)), draw.randint(1, len(found)))
    threads, engine.threads = engine.threads, draw.choice((1, 2, 3))
    again = case.run(engine, chosen)
    engine.threads = threads
    assert again == [found[i] for i in chosen], f"other hypotheses in another batch: {chosen}"
    for i, hypotheses in zip(chosen, again, strict=True):
        for one, other in zip(hypotheses, found[i], strict=True):
            assert not case.record or one.maps.tobytes() == other.maps.tobytes(), "other weights in another batch"


def is_tie(case: Case, sentence: int, ours: list[Hypothesis], theirs: list[Hypothesis]) -> bool:
    """Whether both have the same scores, or ours is PyTorch's too, if its weights change by a millionth."""
    if np.allclose([one.score for one in ours], [one.score for one in theirs], rtol=1e-6, atol=1e-6):
        return True
    for number, size in enumerate(PERTURBED):
        torch.manual_seed(number)
        models = [copy.deepcopy(model).double() for model in case.models]
        with torch.no_grad():
            for weight in (weight for model in models for weight in model.parameters()):
                weight *= 1 + size * torch.randn_like(weight)
        (found,) = case.run(case.reference(models), [sentence])
        if [one.ids for one in found] == [one.ids for one in ours]:
            return True
    return False


def check_scoring(case: Case, draw: Random) -> str:
    """The same log-probabilities of given translations."""
    pairs = [*zip(case.sources, case.targets, strict=True)]
    expected, found = case.reference().log_probabilities(pairs), case.native.log_probabilities(pairs)
    for ours, theirs in zip(found, expected, strict=True):
        close(ours, theirs, SCORES)
    chosen = draw.sample(range(len(pairs)), draw.randint(1, len(pairs)))
    for engine in (case.native, case.quantized):
        before = found if engine is case.native else engine.log_probabilities(pairs)
        again = engine.log_probabilities([pairs[i] for i in chosen], draw.choice((1, 5)))
        assert again == [before[i] for i in chosen], f"other scores in another batch: {chosen}"
    return "same"


def check_maps(case: Case, draw: Random) -> str:
    """The same attention of every kind, layer and head."""
    pairs = [*zip(case.sources, case.targets, strict=True)]
    reference, cross = case.reference(), dict(case.native.cross_maps(pairs))
    for i, weights in reference.cross_maps(pairs):
        close(cross[i], weights, WEIGHTS)
    for i in draw.sample(range(len(pairs)), min(3, len(pairs))):
        found, expected = case.native.attention_maps(*pairs[i]), reference.attention_maps(*pairs[i])
        assert set(found) == set(expected)
        for kind, weights in expected.items():
            close(found[kind], weights, WEIGHTS)
        assert found["cross"].tobytes() == cross[i].tobytes(), "other weights in another batch"
    return "same"


def close(found: Any, expected: Any, tolerance: float) -> None:
    """Raise unless the numbers differ by at most `tolerance`, and a millionth of large ones."""
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=tolerance)


def run_case(seed: int, number: int, code: Any) -> str:
    """How a case ended: "same", "tie", or "skipped" for texts that are too long for the model's positions."""
    draw = Random(f"{seed}/{number}")
    case = draw_case(draw, code)
    try:
        if case.kind == "scoring":
            return f"{case.kind}: {check_scoring(case, draw)}"
        if case.kind == "maps":
            return f"{case.kind}: {check_maps(case, draw)}"
        return f"{case.kind}: {check_search(case, draw)}"
    except ShapeError as error:
        assert error.code == "text_too_long"
        return "skipped"
    except Exception:
        print(f"case {number} of seed {seed} failed: {case}", flush=True)
        raise


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one case")
    options = parser.parse_args()
    code = load_code()
    if code is None:
        print(f"there is no C engine here ({why_not('translate')}): nothing is tried")
        return 0
    code.model_new.restype = code.worker_new.restype = ctypes.c_void_p
    torch.set_num_threads(1)
    tally = Counter[str]()
    for number in range(options.cases) if options.only is None else [options.only]:
        try:
            tally[run_case(options.seed, number, code)] += 1
        except Exception:
            traceback.print_exc()
            tally["FAILED"] += 1
        if number % 500 == 499:
            print(f"{number + 1} cases, {tally['FAILED']} failed", flush=True)
    print(f"tried {tally.total()}, failed {tally['FAILED']}: {dict(sorted(tally.items()))}")
    return 1 if tally["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
