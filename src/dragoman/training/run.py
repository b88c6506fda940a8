"""One run from prepared data to a finished model directory.

my-model/            the model: recipe.toml, model.safetensors, model.json, tokenizers, card.md, manifest.json
my-model/training/   what made it: run.json, metrics.jsonl, curve.png, checkpoints/, prepared/
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from dragoman.config import Recipe, TrainRecipe
from dragoman.data.prepared import Prepared
from dragoman.errors import DamagedError, DragomanError, RecipeError, TrainingError
from dragoman.files import MANIFEST, exclusive_lock
from dragoman.modeldir.info import ModelInfo, read_info
from dragoman.modeldir.layout import TRAINING
from dragoman.modeldir.locate import read_recipe
from dragoman.modeldir.save import save_model
from dragoman.modeldir.verify import verify_model
from dragoman.models.loading import as_arrays, build_model, load_weights
from dragoman.text import vocabulary_sizes
from dragoman.text.special_tokens import PAD
from dragoman.training.checkpoints.checkpoint import Checkpoints, average
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.model_info import trained_model_info
from dragoman.training.reporting.card import training_card
from dragoman.training.reporting.curve import draw_curve
from dragoman.training.reporting.progress import Progress, Watch
from dragoman.training.run_record import LOCK, RUN, Begun, agree_with_before, refuse_foreign
from dragoman.training.steps.allocator import keep_freed_memory
from dragoman.training.trainer import HIGHER_IS_BETTER, Evaluate, Trainer


def finished(out: Path) -> bool:
    """Whether `out` holds a finished model."""
    if not (out / MANIFEST).exists():
        return False
    try:
        verify_model(out)
    except DamagedError as error:
        raise DamagedError(
            f"{error}; remove {out / MANIFEST} and run the same command to write it from the checkpoints again",
            code=error.code,
        ) from None
    return True


def train(
    prepared: Prepared,
    recipe: Recipe,
    out: Path,
    *,
    evaluate: Evaluate,
    watch: Watch,
    ranks: Ranks,
    start_from: Path | None = None,
) -> None:
    """Train until done and write the model; begin anew, or go on where an earlier call stopped."""
    check_lengths(prepared, recipe)
    if recipe.model.reads_trees and not prepared.has_trees:
        raise TrainingError(
            f"model.positions='syntax' needs the trees of the source sentences, and {prepared.directory} was "
            "prepared without; prepare it with --source-trees"
        )
    if ranks.device.type == "cpu":
        keep_freed_memory()
    torch.manual_seed(recipe.train.seed)
    model = build_model(recipe.model, vocabulary_of(prepared), PAD)
    base = None
    if start_from is not None:
        begin_from(model, start_from, recipe.text.targets)
        base = read_info(start_from)
    with ExitStack() as held:
        # Only now: whoever is told that a setting cannot be, and changes it, has not begun with another.
        ranks.tell(lambda: begin(held, out, Begun.now(recipe, prepared, start_from, ranks), watch))
        trainer = Trainer(
            model,
            recipe.train,
            out / TRAINING,
            lambda state: prepared.loader(recipe.data, rank=ranks.rank, world=ranks.world, state=state),
            d_model=recipe.model.d_model,
            pad=PAD,
            evaluate=evaluate,
            watch=watch,
            ranks=ranks,
        )
        trainer.run()
        last, ema = trainer.gathered(trainer.model.state_dict()), trainer.gathered(trainer.ema)

        def close() -> None:
            chosen = choose(trainer, last, ema, evaluate, watch)
            finish(out, prepared, recipe, chosen, trainer, base)

        ranks.tell(close)


def check_lengths(prepared: Prepared, recipe: Recipe) -> None:
    """Refuse sentences that are longer than the positions to be learned; the longest may else come after many hours."""
    learned = recipe.model.positions == "learned"
    limited = [
        side for side in ("source", "target") if learned or (recipe.model.pattern == "low_rank" and side == "source")
    ]
    splits = [prepared.split(name) for name in prepared.manifest["splits"]]
    sides = [getattr(split, side).lengths for split in splits for side in limited if len(split)]
    longest = max((int(lengths.max()) + 1 for lengths in sides), default=0)  # with its mark
    if longest > recipe.model.max_positions:
        raise RecipeError(
            f"the data have a sentence of {longest} tokens, but model.max_positions={recipe.model.max_positions} "
            f"positions are learned; use model.max_positions={longest} or more, or data.max_tokens="
            f"{recipe.model.max_positions - 1}"
        )


def begin_from(model: nn.Module, start_from: Path, targets: Sequence[str] = ()) -> None:
    """Load the verified weights of a finished model into one of the same sizes, except for added target languages."""
    base_targets = read_recipe(start_from).text.targets
    verify_model(start_from)
    added = len(targets) - len(base_targets)
    weights = with_tokens(load_weights(start_from), model.state_dict(), len(base_targets), added)
    found, expected = ({name: tuple(w.shape) for name, w in of.items()} for of in (weights, model.state_dict()))
    for name in sorted({*found, *expected}):
        if found.get(name) != expected.get(name):
            raise TrainingError(
                f"the weights of {start_from} do not fit the recipe: {name} has shape {found.get(name, 'none')} there, "
                f"but the recipe asks for {expected.get(name, 'none')}; fine-tune with the model's own recipe: leave "
                "out --recipe and --set model...",
                code="weights_mismatch",
            )
    model.load_state_dict(weights)


def with_tokens(
    weights: Mapping[str, Tensor], fresh: Mapping[str, Tensor], languages: int, added: int
) -> dict[str, Tensor]:
    """The weights with rows for the tokens of `added` target languages, in the embeddings that have as many more.

    The tokens of languages are the last: a new one begins as the mean of those that are there, or, where there are
    none, by chance.
    """
    made = dict(weights)
    for name, weight in weights.items():
        wanted = tuple(fresh[name].shape) if name in fresh else ()
        if added > 0 and name.startswith("embeddings.") and wanted == (len(weight) + added, *weight.shape[1:]):
            rows = weight[-languages:].mean(0, keepdim=True).expand(added, *weight.shape[1:]) if languages else None
            made[name] = torch.cat([weight, fresh[name][-added:].to(weight) if rows is None else rows])
    return made


def begin(held: ExitStack, out: Path, begun: Begun, watch: Watch) -> None:
    """Take the directory for this run alone, and see that it goes on as it began."""
    refuse_foreign(out)
    training = out / TRAINING
    try:
        held.enter_context(exclusive_lock(training / LOCK, f"training in {out}"))
        for stale in training.glob(f".{RUN}.*"):  # of a process that was killed as it began
            stale.unlink()
        agree_with_before(training / RUN, begun, watch)
    except OSError as error:
        if isinstance(error, DragomanError):
            raise
        raise TrainingError(f"{training} cannot be written: {error.strerror or error}; choose another --out") from None


def vocabulary_of(prepared: Prepared) -> int | tuple[int, int]:
    """The size of the shared vocabulary, or of both."""
    return vocabulary_sizes(*prepared.tokenizers)


@dataclass(frozen=True)
class Chosen:
    """The weights of the finished model, their name, and their scores on the validation set."""

    weights: Mapping[str, Tensor]
    name: str
    scores: Mapping[str, float]


def choose(
    trainer: Trainer,
    last: Mapping[str, Tensor],
    ema: Mapping[str, Tensor],
    evaluate: Evaluate,
    watch: Watch,
) -> Chosen:
    """The weights that do best on the validation set: the last ones, the best single ones, or an average of several.

    Only checkpoints that every run of these settings has are looked at: being stopped and resumed changes nothing.
    """
    checkpoints, recipe, progress = trainer.checkpoints, trainer.recipe, trainer.progress
    last = {name: tensor.detach().cpu().clone() for name, tensor in last.items()}  # the model is lent below
    sign = 1 if HIGHER_IS_BETTER[recipe.stop_on] else -1
    best: tuple[float, Chosen] | None = None
    for name, weights in candidates(checkpoints, recipe, progress, last, ema, watch).items():
        with trainer.replica.filled(trainer.model, weights) as model:
            evaluation = evaluate(model.eval(), trainer.stop.check)
        watch.note(f"{name}: " + ", ".join(f"{k} {v:.3f}" for k, v in evaluation.figures.items()))
        usable = all(math.isfinite(value) for value in evaluation.figures.values())
        figure = evaluation.figures[recipe.stop_on] * sign if usable else -math.inf
        if best is None or figure > best[0]:
            best = (figure, Chosen(weights, name, dict(evaluation.figures)))
    assert best is not None  # the last weights are always a candidate
    if best[0] == -math.inf:
        rate = "" if recipe.learning_rate is None else f" (it was {recipe.learning_rate})"
        raise TrainingError(
            "the run went astray: whichever of its weights are taken, their figures on the validation set are no "
            f"numbers; train anew with another --out and a lower train.learning_rate{rate}, or with train.clip=1.0"
        )
    watch.note(f"kept: {best[1].name}")
    return best[1]


def candidates(
    checkpoints: Checkpoints,
    recipe: TrainRecipe,
    progress: Progress,
    last: Mapping[str, Tensor],
    ema: Mapping[str, Tensor],
    watch: Watch,
) -> dict[str, Mapping[str, Tensor]]:
    """The weights to choose from, by the words for the card; a damaged checkpoint is left out, and named."""
    due = [step for step in checkpoints.steps() if step % recipe.save_every == 0 and step <= progress.step]
    whole: dict[int, Mapping[str, Tensor]] = {}
    for step in sorted({*due[-recipe.average :], progress.best_step} & set(checkpoints.steps())):
        try:
            whole[step] = checkpoints.weights(step)
        except DamagedError as error:
            watch.note(f"{error}; it is left out")
    found: dict[str, Mapping[str, Tensor]] = {}
    averaged = [step for step in due[-recipe.average :] if step in whole]
    if len(averaged) > 1:
        found[f"the average of the checkpoints {averaged}"] = average([whole[step] for step in averaged])
    if progress.best_step in whole and progress.best_step != progress.step:
        found[f"the checkpoint of step {progress.best_step}"] = whole[progress.best_step]
    found["the last weights"] = last
    if ema:
        found["the moving average"] = {**last, **{name: tensor.detach().cpu() for name, tensor in ema.items()}}
    return found


def finish(
    out: Path, prepared: Prepared, recipe: Recipe, chosen: Chosen, trainer: Trainer, base: ModelInfo | None
) -> None:
    """Write the model directory around the run that trained it."""
    info = trained_model_info(prepared, base)
    card = training_card(recipe, prepared, chosen.name, chosen.scores, trainer.progress, info)
    try:
        draw_curve(list(trainer.metrics.read()), out / TRAINING / "curve.png")
        save_model(
            out,
            recipe=recipe,
            info=info,
            weights=as_arrays(chosen.weights),
            tokenizers=prepared.tokenizers,
            card=card,
            staging=out / TRAINING / "model",
        )
    except OSError as error:
        reason = error if isinstance(error, DragomanError) else f"{out} could not be written: {error.strerror or error}"
        raise TrainingError(
            f"training is done and its checkpoints are complete, but {reason}; make room and run the same command to "
            "write it",
            code="cannot_write",
        ) from None
