"""Probes: run some sentences through each engine, store what they give, and compare it on another machine."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

from dragoman.config import Recipe
from dragoman.config.recipe import guided_head
from dragoman.engines.base import Engine
from dragoman.engines.forced import ForcedEngine, attention_layer, select_head
from dragoman.engines.select import EngineSelector, has_gpu
from dragoman.engines.specs import SPECS
from dragoman.errors import DragomanError, SearchError
from dragoman.modeldir.layout import RECIPE, load_tokenizers, verify_model
from dragoman.modeldir.probe_file import UNIT, Attention, Probe, ProbeResult, ProbeSet, read_probes
from dragoman.search.types import RecordedHead, Search
from dragoman.text import Tokenizer
from dragoman.text.special_tokens import EOS
from dragoman.text.trees.token_depths import ParsedIds
from dragoman.translation.alignment_head import trial_sources
from dragoman.translation.options import LengthLimits

PROBE_SENTENCES: Final = 24
MAX_TOKENS: Final = 40  # of a probe's source, with those of its translation beyond the source's
EXTRA_LENGTH: Final = 20
REFERENCE: Final = "torch float32"
STORED: Final = (("torch", "float32"), ("native", "float32"), ("native", "int8"))
TOLERANCE: Final = {"float32": 2e-3, "int8": 0.1, "bfloat16": 0.5}  # of log-probabilities
Status = Literal["identical", "same", "approximate", "differs", "unavailable"]


@dataclass(frozen=True)
class EngineCheck:
    """How the results of an engine on this machine compare with the stored ones.

    "same" is within rounding; "approximate" is an engine without stored results that differs in some.
    """

    engine: str
    precision: str
    device: str
    status: Status
    compared_with: str = ""
    equal: int = 0
    probes: int = 0
    log_probability_difference: float = 0.0
    attention_difference: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class VerificationReport:
    """The checks of all engines; `machine` is the one that stored the probes."""

    machine: str
    checks: Sequence[EngineCheck]

    @property
    def passed(self) -> bool:
        """Whether no engine differs."""
        return all(check.status != "differs" for check in self.checks)


def store_probes(directory: Path, texts: Sequence[str] = ()) -> None:
    """Store what the engines of this machine give for some sentences; without texts, for words of the vocabulary."""
    recipe, (source, _) = Recipe.load(directory / RECIPE), load_tokenizers(directory)
    limit = LengthLimits.of([recipe]).source or MAX_TOKENS + 1
    longest = min(MAX_TOKENS, limit - len(language_ids(source, 0)))
    guided = guided_head(recipe)
    layer, head = guided if guided is not None else (attention_layer(recipe.model.cross_attention_shape[0]), None)
    chosen = [(text, source.encode(text)) for text in texts if text.strip()]
    chosen = [(text, ids) for text, ids in chosen if 0 < len(ids) <= longest][:PROBE_SENTENCES]
    if not chosen:
        found = [(text, source.encode(text)) for text in vocabulary_texts(source)]
        chosen = [(text, ids) for text, ids in found if len(ids) <= longest]
    sources = [(*language_ids(source, number), *ids) for number, (_, ids) in enumerate(chosen)]
    results: dict[str, list[ProbeResult]] = {}
    for name, precision in STORED:
        engine = load_engine(directory, name, precision, "cpu")
        if not isinstance(engine, str):
            results[f"{name} {precision}"] = run_probes(engine, sources, recipe, RecordedHead(layer, head))
    if not results:
        return
    probes = [
        Probe(text, ids, {name: of[number] for name, of in results.items()})
        for number, ((text, _), ids) in enumerate(zip(chosen, sources, strict=True))
    ]
    ProbeSet(Search.beam, layer, head, machine_name(), probes).write(directory)


def vocabulary_texts(tokenizer: Tokenizer) -> list[str]:
    """Frequent words of a vocabulary in random order, or, where it has few words, its last tokens."""
    size = tokenizer.vocabulary_size
    last = [range(max(EOS + 1, stop - 6), stop) for stop in range(size, max(size - 48, EOS + 2), -6)]
    return [tokenizer.decode(list(ids)) for ids in trial_sources(tokenizer)[:PROBE_SENTENCES] or last]


def probe_texts(directory: Path) -> list[str]:
    """The texts of a model's probes, for a model that is made of it."""
    stored = read_probes(directory)
    return [] if stored is None else [probe.text for probe in stored.probes]


def verify_probes(directory: Path) -> VerificationReport:
    """Verify the files of a model, run its probes in each engine, and compare the results with the stored ones."""
    verify_model(directory)
    stored = read_probes(directory)
    if stored is None or not stored.probes:
        raise DragomanError(
            f"{directory} has no probes: an earlier version wrote it, or writing was interrupted. Its files are as "
            "their manifest says",
            code="no_probes",
        )
    recipe, (source, _) = Recipe.load(directory / RECIPE), load_tokenizers(directory)
    for number, probe in enumerate(stored.probes):
        if (*language_ids(source, number), *source.encode(probe.text)) != probe.ids:
            raise DragomanError(
                f"{directory} tokenizes its probe {probe.text!r} differently on this machine; compare the versions of "
                "sentencepiece and tokenizers",
                code="verification_failed",
            )
    return VerificationReport(stored.machine, list(check_engines(directory, recipe, stored)))


def check_engines(directory: Path, recipe: Recipe, stored: ProbeSet) -> Iterator[EngineCheck]:
    """Check each engine and precision that this machine may have."""
    head = RecordedHead(stored.layer, stored.head)
    for spec in SPECS:
        device = "cuda" if has_gpu() and "gpu" in spec.capabilities.devices else "cpu"
        for precision in spec.capabilities.precisions:
            if precision == "bfloat16" and device == "cpu":
                continue  # slow, and on some CPUs not available
            engine = load_engine(directory, spec.name, precision, device)
            if isinstance(engine, str):
                yield EngineCheck(spec.name, precision, device, "unavailable", reason=engine)
                continue
            results = run_probes(engine, [probe.ids for probe in stored.probes], recipe, head, stored.beam)
            yield compare(spec.name, precision, device, results, stored)


def compare(engine: str, precision: str, device: str, results: Sequence[ProbeResult], stored: ProbeSet) -> EngineCheck:
    """Compare results with those of the same engine and precision, or else with the reference's."""
    own = f"{engine} {precision}"
    known = stored.probes[0].results
    name = own if own in known and device == "cpu" else REFERENCE if REFERENCE in known else next(iter(known))
    pairs = [(result, probe.results[name]) for result, probe in zip(results, stored.probes, strict=True)]
    equal = [(ours, theirs) for ours, theirs in pairs if ours.ids == theirs.ids]
    apart = max((abs(a.log_probability - b.log_probability) for a, b in equal), default=0.0)
    attention = max((map_difference(a.attention, b.attention) for a, b in equal), default=0.0)
    status: Status
    if name == own and len(equal) == len(pairs) and apart == attention == 0.0:
        status = "identical"
    elif len(equal) == len(pairs) and apart <= TOLERANCE[precision] and attention <= TOLERANCE[precision]:
        status = "same"
    elif name != own and (precision != "float32" or 2 * len(equal) >= len(pairs)):  # near ties are decided either way
        status = "approximate"
    else:
        status = "differs"
    return EngineCheck(engine, precision, device, status, name, len(equal), len(pairs), apart, attention)


def map_difference(one: Attention, other: Attention) -> float:
    """The largest difference of two maps, from 0 to 1; 0 if an engine records no maps."""
    if not one or not other:
        return 0.0
    if [len(row) for row in one] != [len(row) for row in other]:
        return 1.0
    numbers = zip((a for row in one for a in row), (b for row in other for b in row), strict=True)
    return max(abs(a - b) for a, b in numbers) / UNIT


def run_probes(
    engine: Engine, sources: Sequence[Sequence[int]], recipe: Recipe, head: RecordedHead, beam: int = Search.beam
) -> list[ProbeResult]:
    """The best hypothesis of each source, all in one batch: it is the same batch on every machine."""
    given = [ParsedIds(ids, [0] * len(ids)) if recipe.model.reads_trees else ids for ids in sources]
    search = Search(beam=beam, extra_length=EXTRA_LENGTH, max_length=LengthLimits.of([recipe]).output)
    best = [found[0] for found in engine.search(given, search)]
    attention: dict[int, Attention] = {}
    if engine.capabilities.attention and recipe.model.attention != "none":
        pairs = [(ids, one.ids) for ids, one in zip(given, best, strict=True)]
        for number, weights in cast(ForcedEngine, engine).cross_maps(pairs):
            rows = select_head(weights, head)
            attention[number] = tuple(tuple(round(UNIT * float(weight)) for weight in row) for row in rows)
    return [
        ProbeResult(tuple(one.ids), float(one.log_probability), attention.get(number, ()))
        for number, one in enumerate(best)
    ]


def load_engine(directory: Path, name: str, precision: str, device: str) -> Engine | str:
    """An engine with one thread per core, or the reason why it is not available for this model here."""
    spec = next(spec for spec in SPECS if spec.name == name)
    if reason := spec.unavailable(Recipe.load(directory / RECIPE).model, device):
        return reason
    try:
        return EngineSelector(directory, device, name, None, precision).get(name) or "not available"
    except (SearchError, ModuleNotFoundError) as error:  # PyTorch is optional
        return str(error)


def language_ids(tokenizer: Tokenizer, number: int) -> tuple[int, ...]:
    """The token of the target language of a probe, in turn; none for a model of one language pair."""
    targets = tokenizer.targets
    return (tokenizer.target_id(targets[number % len(targets)]),) if targets else ()


def machine_name() -> str:
    """The processor and operating system."""
    return f"{platform.machine()} {platform.system()}, Python {platform.python_version()}"
