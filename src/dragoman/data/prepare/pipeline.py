"""From files of sentence pairs to prepared data: clean, hold out, learn the tokenizers, encode, write.

Each file is read once: it is hashed and its pairs are counted while they are cleaned. Text is streamed in chunks
through all cores and stored on disk between steps, so memory does not grow with the corpus (except for a few bytes per
pair, to detect duplicates). Everything is written to a staging directory, which is renamed at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.config import DataRecipe, Recipe
from dragoman.cpu import available_cores
from dragoman.data.alignment.pharaoh import PharaohReader
from dragoman.data.corpora.cleaning import Cleaner, Hashes, HashSet, check_chunk, detect_scripts, parse_script
from dragoman.data.corpora.corpus import Corpus
from dragoman.data.corpora.reader import read_trees_file
from dragoman.data.prepare import inputs as sources
from dragoman.data.prepare.encoding import append_bytes, append_word_links, cached_tokenizer, encode_splits
from dragoman.data.prepare.staging import (
    PAIRS_PER_CHUNK,
    CleanText,
    PrepareContext,
    make_report,
    set_weights,
    staging_directory,
    write_data_manifest,
)
from dragoman.data.prepare.target_languages import (
    Chunk,
    check_languages,
    language_indices,
    read_with_languages,
    source_tokenizer,
    with_targets,
)
from dragoman.data.prepare.tokenizers import make_tokenizers, tokenizer_settings
from dragoman.data.prepare.workers import Workers
from dragoman.data.prepared import DEPTHS, LINKS, SIDES, TOKENIZERS, Prepared
from dragoman.data.shards import SentenceWriter, SplitPart
from dragoman.errors import DataError
from dragoman.progress import Reporter, SilentReporter
from dragoman.text.trees.dependency import TreeAligner
from dragoman.values import MAX_INT

INLINE = 1 << 24  # bytes of input; for less, starting processes costs more than it gains
# The settings that determine what is written; the others determine how it is batched.
PREPARATION_SETTINGS = (
    *("max_tokens", "max_characters", "max_ratio", "min_script", "source_script", "target_script"),
    *("drop_duplicates", "drop_copies", "valid_pairs"),
)


def prepare_corpora(
    corpora: Sequence[Corpus],
    recipe: Recipe | Callable[[int], Recipe],
    out: str | Path,
    *,
    valid: Corpus | Sequence[Corpus] | None = None,
    tokenizers: Path | None = None,
    anew: bool = False,
    processes: int | None = None,
    reporter: Reporter | None = None,
) -> Prepared:
    """Prepare the corpora into the directory `out`; do nothing if it already contains exactly that.

    Without `valid`, `data.valid_pairs` pairs are held out, chosen by their hashes (at most one in twenty). There may be
    several validation sets, for several target languages. `tokenizers` is a directory with tokenizers to use instead of
    learning new ones. Data in `out` from other inputs are replaced only with `anew`.

    `recipe` may be a function of the number of training pairs, which is known once the text has been read, before
    tokenizers are learned. It is also called with 0, for the settings of cleaning; [data] must not depend on the
    number.
    """
    check_arguments(out, tokenizers, processes)
    out, tokenizers = Path(out), None if tokenizers is None else Path(tokenizers)
    validation = [] if valid is None else [valid] if isinstance(valid, Corpus) else [*valid]
    check_corpora(corpora, validation)

    def recipe_for(pairs: int) -> Recipe:
        return recipe if isinstance(recipe, Recipe) else recipe(pairs)

    everything = [*corpora, *validation]
    initial = with_targets(recipe_for(0), everything, tokenizers)
    targets = initial.text.targets
    if targets and everything[0].source_trees is not None:
        raise DataError(
            "source trees cannot be combined with several target languages: a language token has no place in a tree; "
            "drop one of them",
            code="conflicting_settings",
        )

    def resolve(pairs: int) -> tuple[Recipe, dict[str, Any]]:
        """The recipe for this many pairs, and all inputs, whose files have been hashed by now."""
        resolved = recipe_for(pairs)
        assert resolved.data == initial.data, "[data] must not depend on the number of pairs"
        resolved = replace(resolved, text=replace(resolved.text, targets=targets))
        settings = {f"data.{key}": getattr(resolved.data, key) for key in PREPARATION_SETTINGS}
        settings |= tokenizer_settings(resolved, tokenizers)
        described = sources.describe_inputs(everything, hashes)
        n = len(corpora)
        return resolved, {"corpora": described[:n], "valid": described[n:], "settings": settings}

    reporter = reporter or SilentReporter()
    hashes = sources.InputHashes(reporter.advance)
    sources.check_inputs(everything, validation, hashes)
    manifest = sources.find_prepared(out, anew)
    if manifest is not None:
        _, inputs = resolve(manifest["report"]["read"])
        if sources.is_up_to_date(out, manifest["inputs"], inputs, anew):
            return replace(set_weights(Prepared.open(out), [corpus.weight for corpus in corpora]), reused=True)
    before = sources.file_states(everything)
    size = sum(size for _, size, _ in before)
    processes = processes or (available_cores() if size > INLINE else 1)
    with staging_directory(out) as staging, Workers(processes) as workers:
        context = PrepareContext(staging, initial, workers, reporter)
        reporter.start_stage("clean", size, "B")
        valid_text = clean_valid(context, validation, hashes) if validation else None
        train_text = clean_train(context, corpora, valid_text, hashes)
        final, inputs = resolve(train_text.cleaner.n_read)
        context = replace(context, recipe=final)
        learned = () if tokenizers is None else source_tokenizer(tokenizers).targets
        check_languages(train_text.languages, targets, learned)
        held_out = hold_out(train_text, targets, 0 if validation else final.data.valid_pairs)
        entries = make_tokenizers(context, train_text.name, held_out, tokenizers)
        cached_tokenizer.cache_clear()  # tokenizers of an earlier preparation had the same path
        reporter.start_stage("encode", len(train_text) + len(valid_text or ()), "pairs")
        splits = encode_splits(context, train_text, held_out, valid_text, entries)
        sources.check_unchanged(everything, before)
        write_data_manifest(context, inputs, entries, splits, make_report(train_text, valid_text, splits))
    cached_tokenizer.cache_clear()
    return Prepared.open(out)


def check_arguments(out: str | Path, tokenizers: str | Path | None, processes: int | None) -> None:
    """Reject values of the wrong type, and a directory of tokenizers that does not exist."""
    if not isinstance(out, str | Path) or not isinstance(tokenizers, str | Path | None):
        raise DataError(f"out and tokenizers must be directories; got {out!r} and {tokenizers!r}", code="wrong_type")
    if processes is not None and (type(processes) is not int or processes < 1):
        raise DataError(f"processes must be a whole number, 1 or more; got {processes!r}", code="out_of_range")
    if tokenizers is not None and not Path(tokenizers).is_dir():
        raise DataError(
            f"{tokenizers} is not a directory of tokenizers; give `{TOKENIZERS}` inside prepared data, or a model",
            code="tokenizer_not_found",
        )


def check_corpora(corpora: Sequence[Corpus], valid: Sequence[Corpus]) -> None:
    """Reject anything but a list of corpora, and corpora that cannot be combined."""
    if isinstance(corpora, Corpus) or not all(isinstance(corpus, Corpus) for corpus in corpora):
        raise DataError(
            f"corpora must be a list, such as [Corpus('train.en', 'train.de')]; got {corpora!r}", code="wrong_type"
        )
    if not corpora:
        raise DataError("there is no corpus to prepare; give at least one", code="no_data")
    if len(valid) > 1 and not all(corpus.names_target for corpus in valid):
        raise DataError(
            f"{' and '.join(corpus.name for corpus in valid)}: give one validation set, or a target language for each",
            code="several_validation_sets",
        )
    everything = [*corpora, *valid]
    if 0 < sum(corpus.alignment is not None for corpus in corpora) < len(corpora):
        raise DataError("give alignments for all corpora or for none", code="missing_option")
    without = [corpus.name for corpus in everything if corpus.source_trees is None]
    if 0 < len(without) < len(everything):
        raise DataError(
            f"source trees are missing for {', '.join(without)}; give them for all corpora or for none",
            code="missing_trees",
        )


def clean_train(
    context: PrepareContext, corpora: Sequence[Corpus], valid_text: CleanText | None, hashes: sources.InputHashes
) -> CleanText:
    """Clean the training text, without the pairs of the validation set."""
    held_out = HashSet()
    if valid_text is not None:
        held_out.add(valid_text.hashes)
    train = clean(context, "train-text", corpora, Cleaner(context.recipe.data, held_out), hashes)
    for part in train.parts:
        if part.start == part.stop:
            counts = ", ".join(f"{rule} {d.count:,}" for rule, d in train.cleaner.dropped_by.items() if d.count)
            raise DataError(
                f"cleaning leaves no pairs of {part.name}; dropped so far, by rule: {counts or 'none'}",
                code="no_pairs_left",
            )
    return train


def clean_valid(context: PrepareContext, valid: Sequence[Corpus], hashes: sources.InputHashes) -> CleanText:
    """Clean the validation set; only empty pairs are dropped, because it is the benchmark."""
    lenient = replace(
        context.recipe.data,
        max_characters=MAX_INT,
        max_ratio=1e18,
        min_script=0.0,
        drop_copies=False,
        drop_duplicates=False,
    )
    text = clean(context, "valid-text", valid, Cleaner(lenient), hashes)
    for part in text.parts:
        if part.start == part.stop:
            raise DataError(f"the validation set {part.name} has only empty lines", code="no_pairs_left")
    return text


def clean(
    context: PrepareContext, name: str, corpora: Sequence[Corpus], cleaner: Cleaner, hashes: sources.InputHashes
) -> CleanText:
    """Read corpora once, and write the pairs to keep, normalized, with a hash of each."""
    targets = context.recipe.text.targets
    scripts: tuple[frozenset[str], frozenset[str]] | None = None
    parts, pair_hashes, languages = [], [np.zeros(0, np.uint64)], [np.zeros(0, np.uint16)]
    with ExitStack() as open_files:

        def writer_of(kind: str, dtype: str = "uint8") -> SentenceWriter:
            return open_files.enter_context(SentenceWriter(context.staging, f"{name}.{kind}", dtype))

        writers = [writer_of(side) for side in SIDES]
        depths = None if corpora[0].source_trees is None else writer_of(DEPTHS)
        aligned = name == "train-text" and corpora[0].alignment is not None
        links = writer_of(LINKS, "uint32") if aligned else None
        for corpus in corpora:
            start = writers[0].count
            path = corpus.source_trees
            trees = None if path is None else TreeAligner(read_trees_file(path, hashes.open))
            pharaoh = (
                None if links is None or corpus.alignment is None else PharaohReader(corpus.alignment, hashes.open)
            )
            chunks = read_with_languages(corpus, PAIRS_PER_CHUNK, targets, hashes.open)
            first: Chunk = next(chunks, ([], [], []))
            if scripts is None or targets:
                scripts = expected_scripts(context.recipe.data, corpus, first)
            tasks = ((s, t, cleaner.recipe, scripts, of) for s, t, of in chain([first], chunks))
            for chunk in context.workers.map(check_chunk, tasks):
                kept = np.flatnonzero(cleaner.filter(chunk))
                for writer, texts in zip(writers, (chunk.sources, chunk.targets), strict=True):
                    append_bytes(writer, [texts[i].encode() for i in kept])
                if depths is not None and trees is not None:
                    of_bytes = [trees.byte_depths(text) for text in chunk.sources]
                    append_bytes(depths, [of_bytes[i] for i in kept])
                if links is not None and pharaoh is not None:
                    read = pharaoh.take(len(chunk.sources))
                    append_word_links(links, [read[i] for i in kept])
                pair_hashes.append(chunk.hashes[kept])
                languages.append(language_indices(chunk.languages, targets)[kept] if targets else languages[0])
            for finished in (trees, pharaoh):
                if finished is not None:
                    finished.check_finished()
            parts.append(SplitPart(corpus.name, start, writers[0].count, corpus.weight))
    indices = np.concatenate(languages) if targets else None
    return CleanText(
        name, tuple(parts), np.concatenate(pair_hashes), cleaner, depths is not None, indices, links is not None
    )


def expected_scripts(recipe: DataRecipe, corpus: Corpus, first: Chunk) -> tuple[frozenset[str], frozenset[str]]:
    """The scripts of both sides: from the recipe, or detected in the first pairs.

    If each line names its own language, the first lines are not representative, and any script is allowed.
    """
    found = []
    for script, texts in zip((recipe.source_script, recipe.target_script), first[:2], strict=True):
        any_script = script == "off" or (script == "auto" and corpus.to_key)
        found.append(frozenset() if any_script else detect_scripts(texts) if script == "auto" else parse_script(script))
    return found[0], found[1]


def hold_out(train: CleanText, targets: Sequence[str], wanted: int) -> npt.NDArray[np.bool_]:
    """A mask of the pairs to hold out: the same number for each target language."""
    if train.languages is None:
        return choose_held_out(train.hashes, wanted)
    mask = np.zeros(len(train), bool)
    for index in range(len(targets)):
        of_language = np.flatnonzero(train.languages == index)
        mask[of_language] = choose_held_out(train.hashes[of_language], -(-wanted // len(targets)))
    return mask


def choose_held_out(hashes: Hashes, wanted: int) -> npt.NDArray[np.bool_]:
    """A mask of the pairs with the smallest hashes, so that equal pairs are never in both splits.

    Copies of a pair are held out with it, so there may be more than `wanted`. A pair so frequent that a tenth of all
    pairs would be held out with it stays in training.
    """
    wanted = min(wanted, len(hashes) // 20)
    if not wanted:
        return np.zeros(len(hashes), bool)
    mask: npt.NDArray[np.bool_] = hashes <= np.partition(hashes, wanted - 1)[wanted - 1]
    if 10 * int(mask.sum()) <= len(hashes):
        return mask
    chosen: list[int] = []
    count = 0
    for pair, copies in zip(*(each.tolist() for each in np.unique(hashes, return_counts=True)), strict=True):
        if count < wanted and 10 * (count + copies) <= len(hashes):
            chosen.append(pair)
            count += copies
    return np.isin(hashes, np.array(chosen, hashes.dtype))
