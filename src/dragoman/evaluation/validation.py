"""Validation during training: loss, BLEU and sample translations of the validation set."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from dragoman.config import DataRecipe
from dragoman.data.prepared import Prepared
from dragoman.errors import DataError
from dragoman.evaluation.metrics import choose_tokenizer
from dragoman.models import Seq2Seq, State
from dragoman.nn import Padded
from dragoman.search.beam import beam_search
from dragoman.search.types import Search
from dragoman.text import Tokenizer
from dragoman.text.special_tokens import PAD

GREEDY = Search(beam=1)


@dataclass(frozen=True)
class ValidationResult:
    """Figures by name, and sample translations (source, hypothesis, reference)."""

    figures: dict[str, float]
    samples: list[tuple[str, str, str]]


def check_validation_set(prepared: Prepared, recipe: DataRecipe) -> None:
    """Reject data without a validation set before training starts."""
    if "valid" in prepared.manifest["splits"] and len(prepared.split("valid")):
        return
    if count := prepared.report.get("valid_read"):
        raise DataError(
            f"none of the {count:,} validation pairs has at most data.max_tokens={recipe.max_tokens} tokens on both "
            "sides; give shorter ones, or raise data.max_tokens",
            code="no_validation_set",
        )
    raise DataError(
        f"there is no validation set: {len(prepared.split()):,} pairs are too few to hold some out (one in twenty, up "
        f"to data.valid_pairs={recipe.valid_pairs}); give --valid-source and --valid-target",
        code="no_validation_set",
    )


class Validation:
    """Compute the loss and greedy translations of the validation set.

    `loss` is the mean cross-entropy per target token without smoothing; `bleu` is sacreBLEU's, cased; `exact` is the
    percentage of translations that equal the reference. Translations have at most `max_length` tokens, for models
    with as many positions. With several target languages, `bleu_de` is for German and `bleu` the mean of all, so
    languages with few pairs count as much as those with many.
    """

    def __init__(
        self,
        prepared: Prepared,
        recipe: DataRecipe,
        device: torch.device,
        sentences: int = 1000,
        max_length: int | None = None,
    ) -> None:
        check_validation_set(prepared, recipe)
        self.prepared, self.device, self.sentences, self.max_length = prepared, device, sentences, max_length
        tokens = max(4096 if device.type == "cpu" else 16384, recipe.max_tokens + 1)  # a GPU waits for short batches
        self.recipe = replace(recipe, layout="padded", batch_tokens=tokens, sampling=0.0)

    def __call__(self, model: Seq2Seq[State], check: Callable[[], None] = lambda: None) -> ValidationResult:
        """Validate the model; `check` is called before each batch, and may raise to stop."""
        languages = TranslationsByLanguage(self.prepared.tokenizers[0], self.sentences)
        total = tokens = 0.0
        source_words, target_words = self.prepared.tokenizers
        with self.prepared.loader(self.recipe, "valid", epochs=1, pin=False) as loader, torch.inference_mode():
            for batch in loader:
                check()
                here = batch.to(self.device)
                source = Padded(here.source.shape[1], here.source_lengths, depths=here.source_depths)
                target = Padded(here.target_in.shape[1], here.target_lengths)
                logits = model(here.source, here.target_in, source, target).float()
                plain = torch.nn.functional.cross_entropy(
                    logits.flatten(0, 1), here.target_out.flatten(), ignore_index=PAD, reduction="sum"
                )
                total += float(plain)
                tokens += batch.target_tokens
                selected = languages.select(batch.source[:, 0].tolist())
                if not selected:
                    continue
                chosen = torch.tensor(selected, device=self.device)
                limits = here.source_lengths - 1 + GREEDY.extra_length  # without the EOS token
                if self.max_length is not None:
                    limits = limits.clamp(max=self.max_length)
                if len(selected) < len(batch.source):
                    depths = None if here.source_depths is None else here.source_depths[chosen]
                    source = Padded(here.source.shape[1], here.source_lengths[chosen], depths=depths)
                found = beam_search(model, here.source[chosen], source, limits[chosen], GREEDY)
                for i, best in zip(selected, found, strict=True):
                    hypothesis = target_words.decode(best[0].ids) if best else ""
                    read, reference = source_words.decode(batch.source[i].tolist()), batch.target_out[i].tolist()
                    row = (int(batch.pairs[i]), read, hypothesis, target_words.decode(reference))
                    languages.rows[languages.language(int(batch.source[i, 0]))].append(row)
        return ValidationResult({"loss": total / tokens, **languages.figures()}, languages.samples())

    def estimate_seconds(self, model: Seq2Seq[State]) -> float:
        """Estimate the time of an evaluation from its first batch and the share of the tokens that it has.

        For an untrained model: translations are assumed to be as long as the references.
        """
        split = self.prepared.split("valid")
        pairs, tokens = len(split), int(split.target.lengths.sum()) + len(split)  # each with its EOS token
        with self.prepared.loader(self.recipe, "valid", epochs=1, pin=False) as loader, torch.inference_mode():
            batch = next(iter(loader))
            here = batch.to(self.device)
            source = Padded(here.source.shape[1], here.source_lengths, depths=here.source_depths)
            target = Padded(here.target_in.shape[1], here.target_lengths)
            times = [time.perf_counter()]
            model(here.source, here.target_in, source, target).sum().item()
            times.append(time.perf_counter())
            limits = here.target_lengths if self.max_length is None else here.target_lengths.clamp(max=self.max_length)
            beam_search(model, here.source, source, limits, GREEDY)
            times.append(time.perf_counter())
        forward, search = times[1] - times[0], times[2] - times[1]
        return (forward + search * min(1.0, self.sentences / pairs)) * tokens / int(batch.target_lengths.sum())


class TranslationsByLanguage:
    """Translations by target language (given by the first source token), or of a single language.

    At most `sentences` are translated, equally many for each language.
    """

    def __init__(self, tokenizer: Tokenizer, sentences: int) -> None:
        self.codes = {tokenizer.target_id(code): code for code in tokenizer.targets}
        self.quota = max(1, sentences // max(1, len(self.codes)))
        self.rows: dict[int, list[tuple[int, str, str, str]]] = defaultdict(list)

    def language(self, first_token: int) -> int:
        """The language token of a source; -1 if there is a single language."""
        return first_token if first_token in self.codes else -1

    def select(self, first_tokens: Sequence[int]) -> list[int]:
        """The sentences of a batch whose language, given by the first token, needs more."""
        left = {language: self.quota - len(rows) for language, rows in self.rows.items()}
        selected = []
        for i, language in enumerate(map(self.language, first_tokens)):
            left[language] = left.get(language, self.quota) - 1
            if left[language] >= 0:
                selected.append(i)
        return selected

    def figures(self) -> dict[str, float]:
        """BLEU and exact matches, and BLEU for each language if there are several."""
        from sacrebleu.metrics.bleu import BLEU

        bleu, exact = {}, []
        for language, rows in sorted(self.rows.items()):
            rows.sort()
            hypotheses, references = [row[2] for row in rows], [row[3] for row in rows]
            bleu[language] = float(
                BLEU(tokenize=choose_tokenizer(references)).corpus_score(hypotheses, [references]).score
            )
            exact += [a == b for a, b in zip(hypotheses, references, strict=True)]
        found = {"bleu": sum(bleu.values()) / len(bleu), "exact": 100 * sum(exact) / len(exact)}
        return found | {
            f"bleu_{self.codes[language]}": value for language, value in bleu.items() if language in self.codes
        }

    def samples(self) -> list[tuple[str, str, str]]:
        """A few translations, at least one of every language, with its code after the source."""
        count = {1: 3, 2: 2}.get(len(self.rows), 1)
        found = []
        for language, rows in sorted(self.rows.items()):
            into = f"  → {self.codes[language]}" if self.codes else ""
            chosen = rows[:: max(1, len(rows) // count)][:count]
            found += [(source + into, hypothesis, reference) for _, source, hypothesis, reference in chosen]
        return found
