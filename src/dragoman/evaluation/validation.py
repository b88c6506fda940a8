"""How good a model is getting, while it trains: loss, BLEU and a few translations of the validation set."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from dragoman.config import DataRecipe
from dragoman.data.prepared import Prepared
from dragoman.errors import DataError
from dragoman.evaluation.metrics import tokenizer_for
from dragoman.models import Seq2Seq, State
from dragoman.nn import Padded
from dragoman.search.beam import beam_search
from dragoman.search.types import Search
from dragoman.text import Tokenizer
from dragoman.text.special_tokens import PAD

GREEDY = Search(beam=1)


@dataclass(frozen=True)
class Validated:
    """Figures by name, and a few translations (source, ours, reference)."""

    figures: dict[str, float]
    samples: list[tuple[str, str, str]]


def refuse_nothing(prepared: Prepared, recipe: DataRecipe) -> None:
    """Refuse data without a validation set, before a step is made."""
    if "valid" in prepared.manifest["splits"] and len(prepared.split("valid")):
        return
    if given := prepared.report.get("valid_read"):
        raise DataError(
            f"of the {given:,} validation pairs that were given, none has at most data.max_tokens={recipe.max_tokens} "
            "tokens on both sides; give shorter ones, or raise data.max_tokens"
        )
    raise DataError(
        f"there is no validation set: of {len(prepared.split()):,} pairs, none are held out (one in twenty is, up to "
        f"data.valid_pairs={recipe.valid_pairs}); give one with --valid-source and --valid-target"
    )


class Validation:
    """The validation set, translated greedily each time it is asked for.

    `loss` is the mean cross-entropy of a target token without smoothing; `bleu` is sacreBLEU's, on text, cased;
    `exact` is the percentage of sentences that are the reference to the letter. No translation gets more tokens than
    `longest`, where the model has no more positions. With several target languages, `bleu_de` is that of German and
    `bleu` the mean of all of them, so that a language with few pairs counts as much as one with many.
    """

    def __init__(
        self,
        prepared: Prepared,
        recipe: DataRecipe,
        device: torch.device,
        sentences: int = 1000,
        longest: int | None = None,
    ) -> None:
        refuse_nothing(prepared, recipe)
        self.prepared, self.device, self.sentences, self.longest = prepared, device, sentences, longest
        self.recipe = replace(recipe, layout="padded", batch_tokens=max(4096, recipe.max_tokens + 1), sampling=0.0)

    def __call__(self, model: Seq2Seq[State], check: Callable[[], None] = lambda: None) -> Validated:
        """Evaluate the model as it is now; `check` is called before each batch, and may raise to break it off."""
        languages = Languages(self.prepared.tokenizers[0], self.sentences)
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
                wanted = languages.wanted(batch.source[:, 0].tolist())
                if not wanted:
                    continue
                chosen = torch.tensor(wanted, device=self.device)
                limits = here.source_lengths - 1 + GREEDY.extra_length  # the end mark is no token
                if self.longest is not None:
                    limits = limits.clamp(max=self.longest)
                if len(wanted) < len(batch.source):
                    source = Padded(here.source.shape[1], here.source_lengths[chosen])  # no trees with languages
                found = beam_search(model, here.source[chosen], source, limits[chosen], GREEDY)
                for i, best in zip(wanted, found, strict=True):
                    ours = target_words.decode(best[0].ids) if best else ""
                    read, reference = source_words.decode(batch.source[i].tolist()), batch.target_out[i].tolist()
                    row = (int(batch.pairs[i]), read, ours, target_words.decode(reference))
                    languages.rows[languages.of(int(batch.source[i, 0]))].append(row)
        return Validated({"loss": total / tokens, **languages.figures()}, languages.samples())


class Languages:
    """The translations of a validation set by target language, which the first token of a source tells; or of one.

    At most `sentences` are translated, as many of each language; a batch is translated whole, and may bring some more.
    """

    def __init__(self, tokenizer: Tokenizer, sentences: int) -> None:
        self.codes = {tokenizer.target_id(code): code for code in tokenizer.targets}
        self.quota = -(-sentences // max(1, len(self.codes)))
        self.rows: dict[int, list[tuple[int, str, str, str]]] = defaultdict(list)

    def of(self, head: int) -> int:
        """The language of a source that begins so; one and the same where there is one."""
        return head if head in self.codes else -1

    def wanted(self, heads: Sequence[int]) -> list[int]:
        """Which sentences of a batch, by their first tokens, are of a language that has not enough yet."""
        full = {head for head, rows in self.rows.items() if len(rows) >= self.quota}
        return [i for i, head in enumerate(heads) if self.of(head) not in full]

    def figures(self) -> dict[str, float]:
        """BLEU and exact, and of several languages each one's BLEU."""
        from sacrebleu.metrics.bleu import BLEU

        marks, right = {}, []
        for head, rows in sorted(self.rows.items()):
            rows.sort()
            ours, references = [row[2] for row in rows], [row[3] for row in rows]
            marks[head] = float(BLEU(tokenize=tokenizer_for(references)).corpus_score(ours, [references]).score)
            right += [a == b for a, b in zip(ours, references, strict=True)]
        found = {"bleu": sum(marks.values()) / len(marks), "exact": 100 * sum(right) / len(right)}
        return found | {f"bleu_{self.codes[head]}": mark for head, mark in marks.items() if head in self.codes}

    def samples(self) -> list[tuple[str, str, str]]:
        """A few translations, of every language at least one, with its code behind the source."""
        most = {1: 3, 2: 2}.get(len(self.rows), 1)
        found = []
        for head, rows in sorted(self.rows.items()):
            into = f"  → {self.codes[head]}" if self.codes else ""
            chosen = rows[:: max(1, len(rows) // most)][:most]
            found += [(source + into, ours, reference) for _, source, ours, reference in chosen]
        return found
