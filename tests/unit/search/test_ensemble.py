"""Ensembles: the mean of the models' predictions in every search, against plain loops; and errors."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman import Padded, Translator
from dragoman.config import ModelRecipe
from dragoman.engines.torch import TorchEngine
from dragoman.engines.torch_forced import forced_log_probabilities
from dragoman.errors import DamagedError, ModelNotFoundError, SearchError
from dragoman.inspect.attention.maps import record_attention
from dragoman.models.loading import build_model
from dragoman.search.beam import beam_search
from dragoman.search.ensemble import Ensemble, EnsembleState, combine
from dragoman.search.types import Mean, Sampling, Search
from dragoman.text.special_tokens import BOS, EOS, PAD
from dragoman.text.trees.dependency import Tree
from forced_by_hand import by_hand
from raising import raises
from table_model import beam_from_definition
from tiny_model import LINES, write_tiny_model

MEANS: tuple[Mean, ...] = ("probabilities", "log-probabilities")
VOCABULARY = 17
SHORT = {"max_length": 9}
RECIPES = [
    ModelRecipe(d_model=12, n_heads=3, d_ff=19, encoder_layers=1, decoder_layers=2, dropout=0.0),
    ModelRecipe(architecture="recurrent", d_model=10, encoder_layers=2, decoder_layers=1, dropout=0.0),
    ModelRecipe(architecture="convolutional", d_model=14, encoder_layers=1, decoder_layers=2, positions="learned",
                max_positions=40, dropout=0.0),
]  # fmt: skip


def some_models(*seeds: int) -> list[Any]:
    found = []
    for seed, recipe in zip(seeds, RECIPES, strict=False):
        torch.manual_seed(seed)
        model = build_model(recipe, VOCABULARY, PAD).eval()
        with torch.no_grad():
            for p in model.parameters():
                p.add_(torch.randn_like(p) * 0.3)
        found.append(model)
    return found


class ByHand:
    """What `beam_from_definition` asks of a model: each time from the beginning, each model alone, in double."""

    vocabulary = VOCABULARY

    def __init__(self, models: Sequence[Any], sources: Sequence[Sequence[int]], mean: str) -> None:
        self.models, self.sources, self.mean = models, sources, mean
        self.log_probabilities = cache(self.found)

    def found(self, sentence: int, written: tuple[int, ...]) -> torch.Tensor:
        source, target = torch.tensor([[*self.sources[sentence], EOS]]), torch.tensor([[BOS, *written]])
        each = [model(source, target)[0, -1].double().softmax(-1) for model in self.models]
        if self.mean == "probabilities":
            return (sum(each) / len(each)).log()
        product = torch.stack(each).prod(0) ** (1 / len(each))
        return (product / product.sum()).log()


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize(
    "search",
    [
        Search(beam=1),
        Search(beam=4, n_best=3),
        Search(beam=3, n_best=3, length_penalty=1.2, min_length=3, no_repeat=2),
    ],
)
@pytest.mark.parametrize("prefixes", [None, [[4, 5], [], [6]]])
def test_every_search_is_what_the_definition_says(mean: Mean, search: Search, prefixes: list[list[int]] | None) -> None:
    models, sources = some_models(1, 2, 3), [[5, 9, 11, 4], [7], [8, 8, 13]]
    engine, by_definition = TorchEngine(Ensemble(models, mean)), ByHand(models, sources, mean)
    search = Search(**{**vars(search), "max_length": 6})
    with torch.inference_mode():
        found = engine.search(sources, search, prefixes)
        for i, best in enumerate(found):
            expected = beam_from_definition(by_definition, i, 6, search, prefixes[i] if prefixes else ())  # type: ignore[arg-type]
            assert [tuple(hypothesis.ids) for hypothesis in best] == [tokens for tokens, _ in expected]
            assert [hypothesis.score for hypothesis in best] == pytest.approx(
                [score for _, score in expected], abs=1e-4
            )


def test_the_models_are_of_different_minds() -> None:
    """Were they not, the searches above would show nothing."""
    models, sources = some_models(1, 2, 3), [[5, 9, 11, 4], [7], [8, 8, 13]]
    found = {
        str([best[0].ids for best in TorchEngine(model).search(sources, Search(max_length=6))])
        for model in (*models, *(Ensemble(models, mean) for mean in MEANS))
    }
    assert len(found) == 5


@pytest.mark.parametrize("mean", MEANS)
def test_stepping_is_teacher_forcing(mean: Mean) -> None:
    ensemble = Ensemble(some_models(4, 5, 6), mean)
    source = torch.tensor([[5, 9, 11, EOS], [7, EOS, PAD, PAD]])
    target = torch.tensor([[BOS, 6, 12, 4, 9], [BOS, 8, 5, 16, 3]])
    with torch.inference_mode():
        whole, layout = ensemble(source, target), Padded.of(source, PAD)
        state = ensemble.start(ensemble.encode(source, layout))
        for position in range(5):
            logits, state = ensemble.step(target[:, position], state)
            torch.testing.assert_close(logits, whole[:, position], atol=2e-5, rtol=1e-4)
        if mean == "probabilities":
            torch.testing.assert_close(whole.exp().sum(-1), torch.ones(2, 5), atol=1e-5, rtol=0)


def test_a_state_selects_in_all_models() -> None:
    ensemble = Ensemble(some_models(4, 5, 6))
    source = torch.tensor([[5, 9, EOS], [7, 8, EOS], [4, 4, EOS]])
    with torch.inference_mode():
        state = ensemble.start(ensemble.encode(source))
        _, state = ensemble.step(torch.tensor([BOS] * 3), state)
        rows, sentences = torch.tensor([2, 2, 0, 0]), torch.tensor([2, 0])
        logits, picked = ensemble.step(torch.tensor([5, 6, 7, 8]), state.select(rows, sentences))
        assert isinstance(picked, EnsembleState) and len(picked.states) == 3
        for row, (sentence, token) in enumerate([(2, 5), (2, 6), (0, 7), (0, 8)]):
            alone = ensemble.start(ensemble.encode(source[sentence : sentence + 1]))
            _, alone = ensemble.step(torch.tensor([BOS]), alone)
            expected, _ = ensemble.step(torch.tensor([token]), alone)
            torch.testing.assert_close(logits[row], expected[0], atol=2e-5, rtol=1e-4)


def test_the_two_means_by_numbers() -> None:
    one, other = torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([[0.1, 0.1, 0.8]])
    logits = [one.log() + 3, other.log() - 1]  # a constant of the row means nothing
    torch.testing.assert_close(combine(logits, "probabilities").exp(), torch.tensor([[0.3, 0.175, 0.525]]))
    product = (one * other).sqrt()
    torch.testing.assert_close(combine(logits, "log-probabilities").softmax(-1), product / product.sum())
    never = [torch.tensor([[0.0, -torch.inf]]), torch.tensor([[0.0, 0.0]])]  # impossible to one
    torch.testing.assert_close(combine(never, "probabilities").exp(), torch.tensor([[0.75, 0.25]]))
    torch.testing.assert_close(combine(never, "log-probabilities").softmax(-1), torch.tensor([[1.0, 0.0]]))


def test_models_over_other_tokens() -> None:
    other = build_model(RECIPES[0], VOCABULARY + 2, PAD)
    with raises(SearchError, "vocabulary_mismatch", "17 and 19 tokens"):
        Ensemble([*some_models(1), other])
    with raises(SearchError, "vocabulary_mismatch"):
        Ensemble([])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_tiny_model(folder / "one")
    write_tiny_model(folder / "two", "model.d_model=18", "model.norm_order=pre", seed=5)
    write_tiny_model(folder / "recurrent", "model.architecture=recurrent", "model.cell=gru", seed=6, noise=0.1)
    write_tiny_model(folder / "learned", "model.positions=learned", "model.max_positions=8", seed=7)
    write_tiny_model(folder / "syntax", "model.positions=syntax", seed=8, noise=0.4)
    write_tiny_model(folder / "apart", shared=False)
    return folder


def load(folder: Path, first: str, *others: str, engine: str = "torch", **more: Any) -> Translator:
    others_ = [folder / other for other in others]
    return Translator.load(folder / first, device="cpu", ensemble=others_, engine=engine, **more)


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize(
    "settings",
    [
        {"beam": 1},
        {"beam": 4, "n_best": 3},
        {"beam": 3, "no_repeat": 2, "min_length": 4},
        {"prefix": "der alte"},
        {"sampling": Sampling(seed=3), "n_best": 2},
        {"sampling": Sampling(seed=4, top_k=5, temperature=1.3)},
    ],
    ids=str,
)
def test_a_model_with_itself_is_that_model(folder: Path, mean: Mean, settings: dict[str, Any]) -> None:
    alone, twice = load(folder, "one", engine="torch"), load(folder, "one", "one", "one", mean=mean)
    for one, two in zip(*(each.translate(LINES, **SHORT, **settings) for each in (alone, twice)), strict=True):
        for a, b in zip((one, *one.alternatives), (two, *two.alternatives), strict=True):
            assert a.tokens == b.tokens
            assert a.score == pytest.approx(b.score, abs=1e-4)
            assert a.log_probability == pytest.approx(b.log_probability, abs=1e-4)


@pytest.mark.parametrize("mean", MEANS)
def test_scores_are_those_by_hand(folder: Path, mean: Mean) -> None:
    translator = load(folder, "one", "two", "recurrent", mean=mean)
    models = [load(folder, name).engines.torch.model for name in ("one", "two", "recurrent")]
    pairs = [("the old box", "der alte Kasten"), ("seven halls", ""), ("", "im Flur"), (LINES[0], LINES[4])]
    with torch.inference_mode():
        for (source, target), scored in zip(pairs, translator.score(pairs), strict=True):
            expected = by_hand(models, translator.source.encode(source), translator.target.encode(target), mean)
            assert scored.token_log_probabilities == pytest.approx(expected, abs=5e-4)
        for settings in ({"beam": 3, "n_best": 2}, {"sampling": Sampling(seed=9)}, {"prefix": "im Flur"}):
            for text, found in zip(LINES, translator.translate(LINES, split="never", **SHORT, **settings), strict=True):
                for one in (found, *found.alternatives):
                    written = translator.target.to_ids(one.tokens)
                    expected = by_hand(models, translator.source.encode(text), written, mean)
                    assert one.log_probability == pytest.approx(sum(expected), abs=2e-3)


def test_the_order_of_the_models_means_nothing(folder: Path) -> None:
    one = load(folder, "one", "two", "recurrent").translate(LINES, **SHORT)
    other = load(folder, "recurrent", "one", "two").translate(LINES, **SHORT)
    assert [each.text for each in one] == [each.text for each in other]
    assert [each.score for each in one] == pytest.approx([each.score for each in other], abs=1e-4)
    assert [each.text for each in one] != [each.text for each in load(folder, "one").translate(LINES, **SHORT)]


def test_two_vocabularies(folder: Path) -> None:
    alone, twice = load(folder, "apart", engine="torch"), load(folder, "apart", "apart")
    for one, two in zip(alone.translate(LINES, **SHORT), twice.translate(LINES, **SHORT), strict=True):
        assert one.tokens == two.tokens


def test_the_least_positions_of_all_are_the_limit(folder: Path) -> None:
    translator = load(folder, "one", "learned")
    assert (translator.longest, translator.longest_source, translator.longest_output) == (7, 7, 7)
    found = translator.translate(LINES[:1], length_penalty=3.0, min_length=5)[0]
    assert found.split
    with raises(SearchError, "text_too_long", "its target has", "positions for 7"):
        translator.score([("the", LINES[0])])
    with raises(SearchError, "out_of_range", "min_length=8", "7 tokens"):
        translator.translate("the", min_length=8)


def test_trees_are_read_by_those_that_read_them(folder: Path) -> None:
    translator = load(folder, "one", "syntax")
    box = ["the", "old", "box"]
    flat, deep = (Tree.of(box, heads) for heads in ([3, 3, 0], [2, 3, 0]))
    one, other = (translator.translate("the old box", trees=tree, **SHORT).log_probability for tree in (flat, deep))
    assert one != pytest.approx(other, abs=1e-4)
    with raises(SearchError, "missing_trees"):
        translator.translate("the old box")


def test_what_runs_and_goes_to_other_processes(folder: Path) -> None:
    translator = load(folder, "one", "two", mean="log-probabilities", threads=1)
    assert str(translator.running) == "torch engine, 2 models, float32, on cpu, 1 thread"
    assert repr(translator).endswith(f"ensemble=[{str(folder / 'two')!r}])")
    again = pickle.loads(pickle.dumps(translator))
    assert again.translate(LINES, **SHORT) == translator.translate(LINES, **SHORT)
    other = load(folder, "one", "two").translate(LINES, **SHORT)
    assert [t.score for t in again.translate(LINES, **SHORT)] != pytest.approx([t.score for t in other], abs=1e-3)
    named = Translator.load(
        folder / "one", device="cpu", ensemble=str(folder / "two"), mean="log-probabilities", engine="torch"
    )
    assert named.translate(LINES, **SHORT) == translator.translate(LINES, **SHORT)
    assert (
        str(Translator.load(folder / "one", device="cpu", ensemble=None, engine="torch").running).count("models") == 0
    )


def test_other_tokens_are_refused_by_the_file_that_differs(folder: Path, tmp_path: Path) -> None:
    with raises(SearchError, "vocabulary_mismatch", "apart/target.spm", "one/shared.spm"):
        load(folder, "one", "two", "apart")
    for file in (folder / "two").iterdir():  # the same files elsewhere are the same tokens
        (tmp_path / file.name).write_bytes(file.read_bytes())
    load(tmp_path.parent, tmp_path.name, str(folder / "two"))


@pytest.mark.parametrize(
    ("settings", "code", "mention"),
    [
        ({"engine": "cuda"}, "unsupported_by_engine", "an ensemble of 2 models; use"),
        ({"engine": "ctranslate2"}, "unsupported_by_engine", "an ensemble of 2 models; use 'native' or 'torch'"),
        ({"precision": "int8"}, "unsupported_by_engine", "'torch' does not support precision='int8'"),
        ({"mean": "probability"}, "unknown_choice", "did you mean 'probabilities'"),
        ({"engine": "natve"}, "unknown_choice", "did you mean 'native'"),
    ],
)
def test_what_an_ensemble_does_not_support(folder: Path, settings: dict[str, Any], code: str, mention: str) -> None:
    with raises(SearchError, code, mention):
        load(folder, "one", "two", **settings)


@pytest.mark.parametrize("ensemble", [5, [5], ["nothing"], "nothing", [None]])
def test_what_is_no_model(folder: Path, ensemble: Any) -> None:
    kind, code = (ModelNotFoundError, "model_not_found") if "nothing" in str(ensemble) else (SearchError, "wrong_type")
    with raises(kind, code):
        Translator.load(folder / "one", device="cpu", ensemble=ensemble)


def test_a_damaged_model_is_refused(folder: Path, tmp_path: Path) -> None:
    for file in (folder / "two").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"x" * (tmp_path / "model.safetensors").stat().st_size)
    with pytest.raises(DamagedError, match=r"model.safetensors was changed or damaged"):
        Translator.load(folder / "one", device="cpu", ensemble=tmp_path)


def test_attention_is_not_theirs(folder: Path) -> None:
    translator = load(folder, "one", "two")
    for settings in ({"attention": True}, {"alignment": True}):
        with raises(SearchError, "unsupported_ensemble"):
            translator.translate("the old box", **settings)
    with raises(SearchError, "unsupported_ensemble"):
        _ = translator.alignment_head
    with raises(SearchError, "unsupported_ensemble"):
        record_attention(translator, "the old box")


def test_one_model_in_an_ensemble_is_searched_as_alone() -> None:
    (model,) = some_models(1)
    source, limits = torch.tensor([[5, 9, 11, EOS], [7, 4, EOS, PAD]]), torch.tensor([6, 6])
    for mean in MEANS:
        found = [
            beam_search(each, source, Padded.of(source, PAD), limits, Search(n_best=2))
            for each in (model, Ensemble([model], mean))
        ]
        for one, other in zip(*found, strict=True):
            assert [h.ids for h in one] == [h.ids for h in other]
            assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-5)


@pytest.mark.parametrize("mean", MEANS)
def test_every_device_finds_the_same(device: torch.device, mean: Mean) -> None:
    sources, search = [[5, 9, 11, 4], [7], [8, 8, 13]], Search(n_best=2, max_length=6)
    here = TorchEngine(Ensemble(some_models(1, 2, 3), mean))
    there = TorchEngine(Ensemble(some_models(1, 2, 3), mean).to(device), device)
    pairs = [(source, [4, 12, 6][: i + 1]) for i, source in enumerate(sources)]
    found, expected = (forced_log_probabilities(engine, pairs) for engine in (there, here))
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, abs=1e-4)
    for one, other in zip(there.search(sources, search), here.search(sources, search), strict=True):
        assert [h.ids for h in one] == [h.ids for h in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)
