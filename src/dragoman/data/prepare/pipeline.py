"""From files of sentence pairs to prepared data: clean, hold out, learn the tokenizers, encode, write.

Text is streamed in chunks through all cores and lies on the disk between the steps, so memory does not grow with the
corpus (but for a few bytes a pair, to know duplicates by). All is written beside its place and renamed at the end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman import __version__
from dragoman.config import DataRecipe, Recipe
from dragoman.cpu import available_cores
from dragoman.data.corpora.cleaning import RULES, Cleaner, Hashes, Seen, examine
from dragoman.data.corpora.corpus import Corpus
from dragoman.data.corpora.reader import read, trees_of
from dragoman.data.corpora.scripts import detect, named
from dragoman.data.prepare import inputs as given
from dragoman.data.prepare.encoding import append_depths, append_texts, encode_splits, tokenizer_at
from dragoman.data.prepare.job import CHUNK, Cleaned, Job, Names
from dragoman.data.prepare.staging import staged
from dragoman.data.prepare.target_languages import (
    addressed,
    check_languages,
    numbered,
    source_tokenizer,
    with_targets,
)
from dragoman.data.prepare.tokenizers import settle_tokenizers, vocabulary_settings
from dragoman.data.prepare.workers import Workers
from dragoman.data.prepared import DEPTHS, FORMAT, MANIFEST, SIDES, Prepared
from dragoman.data.shards import Part, Writer
from dragoman.errors import DataError
from dragoman.files import sha256, write_atomically
from dragoman.progress import Reporter, SilentReporter
from dragoman.text.trees.dependency import Trees
from dragoman.values import MAX_INT

INLINE = 1 << 24  # bytes of input below which starting processes costs more than it gives
# The settings that decide what is written; the others decide how batches are made of it.
SETTINGS = (
    *("max_tokens", "max_characters", "max_ratio", "min_script", "source_script", "target_script"),
    *("drop_duplicates", "drop_copies", "valid_pairs"),
)


def prepare(
    corpora: Sequence[Corpus],
    recipe: Recipe,
    out: str | Path,
    *,
    valid: Corpus | Sequence[Corpus] | None = None,
    tokenizers: Path | None = None,
    anew: bool = False,
    processes: int | None = None,
    reporter: Reporter | None = None,
) -> Prepared:
    """Prepare the corpora into the directory `out`; nothing is done where it already holds just that.

    Without `valid`, `data.valid_pairs` pairs are held out, chosen by their hashes (at most one in twenty).
    There may be several, for several target languages. `tokenizers` is a directory with tokenizers to use instead of
    learning new ones. What `out` holds of other inputs is replaced only with `anew`.
    """
    if not isinstance(out, str | Path) or not isinstance(tokenizers, str | Path | None):
        raise DataError(f"out and tokenizers are names of directories; got {out!r} and {tokenizers!r}")
    out, tokenizers = Path(out), None if tokenizers is None else Path(tokenizers)
    validating = [] if valid is None else [valid] if isinstance(valid, Corpus) else [*valid]
    if not all(isinstance(corpus, Corpus) for corpus in validating):
        raise DataError(f"a validation set is a Corpus, such as Corpus('dev.en', 'dev.de'); got {valid!r}")
    if processes is not None and (type(processes) is not int or processes < 1):
        raise DataError(f"processes must be a whole number, 1 or more; got {processes!r}")
    if isinstance(corpora, Corpus) or not all(isinstance(corpus, Corpus) for corpus in corpora):
        raise DataError(f"corpora come as a list, such as [Corpus('train.en', 'train.de')]; got {corpora!r}")
    if not isinstance(recipe, Recipe):
        raise DataError(f"a Recipe says how to prepare, such as Recipe.load('base'); got {recipe!r}")
    if not corpora:
        raise DataError("there is no corpus to prepare; give at least one")
    everything = [*corpora, *validating]
    if len(validating) > 1 and not all(corpus.addressed for corpus in validating):
        raise DataError(
            f"there is one validation set, but {' and '.join(v.name for v in validating)} came; put them together, or "
            "say each one's target language for a model of several"
        )
    recipe = with_targets(recipe, everything, tokenizers)
    if 0 < sum(corpus.source_trees is not None for corpus in everything) < len(everything):
        without = ", ".join(corpus.name for corpus in everything if corpus.source_trees is None)
        raise DataError(f"trees are given for some files and not for {without}; give them for all, or for none")
    if recipe.text.targets and everything[0].source_trees is not None:
        raise DataError(
            "trees cannot be together with several target languages: the token of a language has no place in a tree; "
            "leave out the one or the other"
        )
    described = given.describe(everything, validating)
    inputs = {
        "corpora": described[: len(corpora)],
        "valid": described[len(corpora) :],
        "settings": {f"data.{key}": getattr(recipe.data, key) for key in SETTINGS}
        | vocabulary_settings(recipe, tokenizers),
    }
    if given.standing(out, inputs, anew):
        return replace(reweighted(Prepared.open(out), [corpus.weight for corpus in corpora]), reused=True)
    before = given.states(everything)
    size = sum(size for _, size, _ in before)
    processes = processes or (available_cores() if size > INLINE else 1)
    with staged(out) as staging, Workers(processes) as workers:
        job = Job(staging, recipe, workers, reporter or SilentReporter())
        job.reporter.start_stage("clean", size, "B")
        checked = clean_valid(job, validating) if validating else None
        train = clean_train(job, corpora, checked)
        learned = () if tokenizers is None else source_tokenizer(tokenizers).targets
        check_languages(train.languages, recipe.text.targets, learned)
        held = held_out_of(train, recipe.text.targets, 0 if validating else recipe.data.valid_pairs)
        names = settle_tokenizers(job, train.name, held, tokenizers)
        tokenizer_at.cache_clear()  # those of an earlier preparation stood in the same place
        job.reporter.start_stage("encode", len(train) + len(checked or ()), "pairs")
        encoded = encode_splits(job, train, held, checked, names)
        for now, then in zip(given.states(everything), before, strict=True):
            if now != then:
                raise DataError(f"{now[0]} changed while it was being read; prepare again when it is complete")
        write_manifest(job, inputs, names, encoded, report(train, checked, encoded))
    tokenizer_at.cache_clear()
    return Prepared.open(out)


def clean_train(job: Job, corpora: Sequence[Corpus], checked: Cleaned | None) -> Cleaned:
    """The training text, without what the rules drop and without what is in the validation set."""
    known = Seen()
    if checked is not None:
        known.add(checked.hashes)
    train = clean(job, "train-text", corpora, Cleaner(job.recipe.data, known))
    for part in train.parts:
        if part.start == part.stop:
            counts = ", ".join(
                f"{rule} {tally.count:,}" for rule, tally in train.cleaner.tallies.items() if tally.count
            )
            raise DataError(f"cleaning leaves no pair of {part.name}; dropped so far, by rule: {counts or 'none'}")
    return train


def clean_valid(job: Job, valid: Sequence[Corpus]) -> Cleaned:
    """The validation set, from which nothing but empty pairs may go: scores are measured on it."""
    lenient = replace(
        job.recipe.data,
        max_characters=MAX_INT,
        max_ratio=1e18,
        min_script=0.0,
        drop_copies=False,
        drop_duplicates=False,
    )
    checked = clean(job, "valid-text", valid, Cleaner(lenient))
    for part in checked.parts:
        if part.start == part.stop:
            raise DataError(f"the validation set {part.name} holds nothing but empty lines")
    return checked


def clean(job: Job, name: str, corpora: Sequence[Corpus], cleaner: Cleaner) -> Cleaned:
    """Read corpora once, and write the text that stays, normalized, with a hash of each pair."""
    targets = job.recipe.text.targets
    scripts = expected_scripts(job.recipe.data, corpora[0])
    parts, hashes, languages = [], [np.zeros(0, np.uint64)], [np.zeros(0, np.uint16)]
    with ExitStack() as open_files:
        writers = [open_files.enter_context(Writer(job.staging, f"{name}.{side}", "uint8")) for side in SIDES]
        laid = Writer(job.staging, f"{name}.{DEPTHS}", "uint8") if corpora[0].source_trees is not None else None
        if laid is not None:
            open_files.enter_context(laid)
        for corpus in corpora:
            start = writers[0].count
            trees = Trees(() if corpus.source_trees is None else trees_of(corpus.source_trees, job.reporter.advance))
            if targets and corpus is not corpora[0]:
                scripts = expected_scripts(job.recipe.data, corpus)
            said = addressed(corpus, CHUNK, targets, job.reporter.advance)
            chunks = ((s, t, cleaner.recipe, scripts, of) for s, t, of in said)
            for chunk in job.workers.map(examine, chunks):
                stay = np.flatnonzero(cleaner.keep(chunk))
                for writer, texts in zip(writers, (chunk.sources, chunk.targets), strict=True):
                    append_texts(writer, [texts[i] for i in stay])
                if laid is not None:
                    append_depths(laid, [trees.over(text) for text in chunk.sources], stay)
                hashes.append(chunk.hashes[stay])
                languages.append(numbered(chunk.languages, targets)[stay] if targets else languages[0])
            trees.refuse_more()
            parts.append(Part(corpus.name, start, writers[0].count, corpus.weight))
    of = np.concatenate(languages) if targets else None
    return Cleaned(name, tuple(parts), np.concatenate(hashes), cleaner, laid is not None, of)


def expected_scripts(recipe: DataRecipe, corpus: Corpus) -> tuple[frozenset[str], frozenset[str]]:
    """The scripts of both sides: as the recipe names them, or as the first pairs are written.

    Where each line says its own language, the first say nothing of the others, and any script may be there.
    """
    first: tuple[list[str], list[str]] = next(read(corpus, CHUNK), ([], []))
    wanted = []
    for asked, texts in zip((recipe.source_script, recipe.target_script), first, strict=True):
        free = asked == "off" or (asked == "auto" and corpus.to_key)
        wanted.append(frozenset() if free else detect(texts) if asked == "auto" else named(asked))
    return wanted[0], wanted[1]


def held_out_of(train: Cleaned, targets: Sequence[str], wanted: int) -> npt.NDArray[np.bool_]:
    """Which pairs are held out: as many of each target language, where there are several."""
    if train.languages is None:
        return held_out(train.hashes, wanted)
    held = np.zeros(len(train), bool)
    for place in range(len(targets)):
        of_language = np.flatnonzero(train.languages == place)
        held[of_language] = held_out(train.hashes[of_language], -(-wanted // len(targets)))
    return held


def held_out(hashes: Hashes, wanted: int) -> npt.NDArray[np.bool_]:
    """Which pairs are held out: those with the smallest hashes, so that the same pair is never on both sides.

    So copies of a pair go with it, and there may be more than was asked for. A pair that comes so often that with it a
    tenth of all would be held out stays among the training pairs.
    """
    wanted = min(wanted, len(hashes) // 20)
    if not wanted:
        return np.zeros(len(hashes), bool)
    held: npt.NDArray[np.bool_] = hashes <= np.partition(hashes, wanted - 1)[wanted - 1]
    if 10 * int(held.sum()) <= len(hashes):
        return held
    chosen: list[int] = []
    taken = 0
    for pair, copies in zip(*(each.tolist() for each in np.unique(hashes, return_counts=True)), strict=True):
        if taken < wanted and 10 * (taken + copies) <= len(hashes):
            chosen.append(pair)
            taken += copies
    return np.isin(hashes, np.array(chosen, hashes.dtype))


def report(train: Cleaned, checked: Cleaned | None, splits: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What was read and what each rule dropped, with examples: every pair read is kept or counted here."""
    told: dict[str, Any] = {"read": train.cleaner.read, "rules": tallies(train.cleaner)}
    if checked is not None:
        told |= {"valid_read": checked.cleaner.read, "valid_rules": tallies(checked.cleaner)}
    kept = sum(split["pairs"] for split in splits.values())
    read_in_all = train.cleaner.read + (checked.cleaner.read if checked else 0)
    dropped = train.cleaner.dropped + (checked.cleaner.dropped if checked else 0)
    assert kept + dropped == read_in_all, (kept, dropped, read_in_all)  # nothing is dropped silently
    return told


def tallies(cleaner: Cleaner) -> dict[str, Any]:
    """What each rule dropped, as JSON has it."""
    return {
        rule: {"why": RULES[rule], "dropped": t.count, "examples": t.examples} for rule, t in cleaner.tallies.items()
    }


def write_manifest(
    job: Job,
    inputs: dict[str, Any],
    names: Names,
    splits: dict[str, dict[str, Any]],
    told: dict[str, Any],
) -> None:
    """The last file: what the directory holds and where it came from; the text that was only on its way is removed."""
    for path in job.staging.glob("*-text.*"):
        path.unlink()
    tokenizers = {
        side: dict(zip(("name", "vocabulary_size", "fingerprint"), names[side], strict=True)) for side in SIDES
    }
    files = sorted(path for path in job.staging.rglob("*") if path.is_file())
    identity = json.dumps([inputs, tokenizers], sort_keys=True).encode()
    manifest = {
        "format": FORMAT,
        "dragoman": __version__,
        "fingerprint": hashlib.sha256(identity).hexdigest(),
        "inputs": inputs,
        "tokenizers": tokenizers,
        "splits": splits,
        "files": {
            path.relative_to(job.staging).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256(path)}
            for path in files
        },
        "report": told,
    }
    save_manifest(job.staging, manifest)


def save_manifest(directory: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest whole or not at all."""
    write_atomically(directory / MANIFEST, json.dumps(manifest, ensure_ascii=False, indent=1))


def reweighted(prepared: Prepared, weights: Sequence[float]) -> Prepared:
    """The same data with these weights, which are all that may change without preparing again."""
    parts = prepared.manifest["splits"]["train"]["parts"]
    if [part["weight"] for part in parts] != list(weights):
        for part, weight in zip(parts, weights, strict=True):
            part["weight"] = weight
        save_manifest(prepared.directory, prepared.manifest)
    return prepared
