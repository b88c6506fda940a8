"""Random draws: against another implementation, their frequencies, and what they depend on."""

from __future__ import annotations

import pytest
import torch

from dragoman import Padded
from dragoman.engines.torch import TorchEngine
from dragoman.errors import SearchError
from dragoman.search.sampling import draw_tokens, sample, uniform
from dragoman.search.sampling_keys import hypothesis_keys, sampling_keys
from dragoman.search.types import Sampling, Search
from dragoman.text.special_tokens import BOS, EOS, PAD
from table_model import TableModel

MASK = (1 << 64) - 1


def split_mix(key: int, position: int) -> float:
    """The mixing of SplitMix64, twice, with whole numbers."""
    x = (key + (position + 1) * 0x9E3779B97F4A7C15) & MASK
    for _ in range(2):
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        x ^= x >> 31
    return (x >> 11) / (1 << 53)


def test_numbers_are_those_of_split_mix() -> None:
    keys = [0, 1, -1, 2**63 - 1, -(2**63), *sampling_keys([[5, 6], [5, 7], []], seed=3)]
    for position in (0, 1, 70, 5000):
        assert uniform(torch.tensor(keys), position).tolist() == [split_mix(key, position) for key in keys]


def test_keys_differ_by_source_and_seed() -> None:
    assert len({*sampling_keys([[1, 2], [12], [2, 1], []], 1), *sampling_keys([[1, 2], [12]], 2)}) == 6


@pytest.mark.parametrize(
    "sampling", [Sampling(), Sampling(temperature=0.5), Sampling(top_k=3), Sampling(top_p=0.6), Sampling(1.7, 4, 0.8)]
)
def test_frequencies_are_the_probabilities(sampling: Sampling) -> None:
    torch.manual_seed(1)
    logits = torch.randn(9) * 1.3
    logits[2] = -torch.inf
    likely = (logits.double() / sampling.temperature).softmax(-1)
    by_rank = likely.argsort(descending=True).tolist()
    if sampling.top_k:
        likely[by_rank[sampling.top_k :]] = 0
        likely /= likely.sum()
    held, kept = 0.0, []
    for token in by_rank:
        if held < sampling.top_p and likely[token] > 0:
            kept.append(token)
            held += float(likely[token])
    likely = torch.where(torch.isin(torch.arange(9), torch.tensor(kept)), likely, 0)
    likely /= likely.sum()
    n = 40_000
    numbers = uniform(torch.tensor(sampling_keys([[i] for i in range(n)], 1)), 3)
    found = draw_tokens(logits.expand(n, 9), numbers, sampling).bincount(minlength=9) / n
    assert torch.equal(found > 0, likely > 0)
    assert (found - likely).abs().max() < 4 * 0.5 / n**0.5  # four standard deviations of the widest


def test_a_draw_at_the_very_end_is_still_one_that_can_be_drawn() -> None:
    logits = torch.tensor([[0.0, 1.0, -torch.inf, -torch.inf]])
    for sampling in (Sampling(), Sampling(top_k=3), Sampling(top_p=0.99)):
        assert draw_tokens(logits, torch.tensor([1 - 2.0**-53], dtype=torch.float64), sampling).item() in (0, 1)


def run(model: TableModel, sources: list[list[int]], search: Search) -> list:
    assert search.sampling is not None
    keys = torch.from_numpy(hypothesis_keys(sources, search.sampling.seed, search.n_best))
    first = torch.tensor([[source[0]] for source in sources])
    return sample(model, first, Padded(1), torch.full((len(sources),), 9), search, keys)  # type: ignore[arg-type]


def test_draws_depend_on_seed_source_and_number_alone() -> None:
    model = TableModel(30, 9, 12, seed=5, sharpness=1.0)
    sources = [[i, 7 * i] for i in range(30)]
    search = Search(n_best=3, sampling=Sampling(seed=4))
    together = run(model, sources, search)
    mixed = torch.randperm(30).tolist()
    for size in (1, 7):
        for start in range(0, 30, size):
            here = mixed[start : start + size]
            assert run(model, [sources[i] for i in here], search) == [together[i] for i in here]
    assert run(model, sources, Search(n_best=3, sampling=Sampling(seed=5))) != together
    assert run(model, [[i, 7 * i + 1] for i in range(30)], search) != together
    assert sum(len({tuple(h.ids) for h in best}) > 1 for best in together) > 20
    single = run(model, sources, Search(n_best=1, sampling=Sampling(seed=4)))  # the first draw is among the three
    for one, three in zip(single, together, strict=True):
        assert one[0] in three
        assert [h.score for h in three] == sorted((h.score for h in three), reverse=True)


def test_scores_are_by_the_models_own_probabilities() -> None:
    model = TableModel(8, 9, 12, seed=6, sharpness=1.0)
    search = Search(sampling=Sampling(temperature=2.0, top_k=5), min_length=2, no_repeat=2)
    for i, best in enumerate(run(model, [[i, 1] for i in range(8)], search)):
        assert best[0].log_probability == pytest.approx(model.total(i, best[0].ids), rel=1e-4)
        assert len(best[0].ids) >= 2
        assert not {PAD, BOS, EOS} & set(best[0].ids)


def test_top_k_1_is_greedy() -> None:
    model = TableModel(12, 9, 12, seed=7)
    engine = TorchEngine(model)
    engine.padded = lambda rows: (torch.tensor([[row[0]] for row in rows]), Padded(1))  # type: ignore[method-assign]
    sources = [[i] for i in range(12)]
    greedy = engine.search(sources, Search(beam=1, extra_length=8))
    drawn = engine.search(sources, Search(beam=1, extra_length=8, sampling=Sampling(top_k=1)))
    assert [best[0].ids for best in greedy] == [best[0].ids for best in drawn]


@pytest.mark.parametrize("wrong", [{"temperature": 0.0}, {"top_k": -1}, {"top_p": 0.0}, {"top_p": 1.5}])
def test_what_cannot_be_drawn_from_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(SearchError, match=next(iter(wrong))):
        Sampling(**wrong)  # type: ignore[arg-type]
