"""How good a model is getting, while it trains: loss, BLEU and a few translations of the validation set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from dragoman.config import DataRecipe
from dragoman.data.prepared import Prepared
from dragoman.decode.beam import beam_search
from dragoman.decode.settings import Search
from dragoman.errors import DataError
from dragoman.evaluate.scoring import tokeniser_for
from dragoman.models import Seq2Seq, State
from dragoman.nn import Padded
from dragoman.text.special import PAD

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
            "pieces on both sides; give shorter ones, or raise data.max_tokens"
        )
    raise DataError(
        f"there is no validation set: of {len(prepared.split()):,} pairs, none are held out (one in twenty is, up to "
        f"data.valid_pairs={recipe.valid_pairs}); give one with --valid-source and --valid-target"
    )


class Validation:
    """The validation set, translated greedily each time it is asked for.

    `loss` is the mean cross-entropy of a target piece without smoothing; `bleu` is sacreBLEU's, on text, cased;
    `exact` is the percentage of sentences that are the reference to the letter. No translation gets more pieces than
    `longest`, where the model has no more positions.
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
        from sacrebleu.metrics.bleu import BLEU

        rows: list[tuple[int, str, str, str]] = []
        total = tokens = 0.0
        source_words, target_words = self.prepared.tokenisers
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
                if len(rows) < self.sentences:
                    limits = here.source_lengths - 1 + GREEDY.extra_length  # the end mark is no piece
                    if self.longest is not None:
                        limits = limits.clamp(max=self.longest)
                    found = beam_search(model, here.source, source, limits, GREEDY)
                    sources = [source_words.decode(ids) for ids in batch.source.tolist()]
                    ours = [target_words.decode(best[0].pieces) if best else "" for best in found]
                    references = [target_words.decode(ids) for ids in batch.target_out.tolist()]
                    rows += zip(batch.pairs.tolist(), sources, ours, references, strict=True)
        rows.sort()
        ours, references = [row[2] for row in rows], [row[3] for row in rows]
        figures = {
            "loss": total / tokens,
            "bleu": float(BLEU(tokenize=tokeniser_for(references)).corpus_score(ours, [references]).score),
            "exact": 100 * sum(a == b for a, b in zip(ours, references, strict=True)) / len(rows),
        }
        return Validated(figures, [row[1:] for row in rows[:: max(1, len(rows) // 3)][:3]])
