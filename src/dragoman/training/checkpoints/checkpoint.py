"""The training state and its checkpoints: one directory per step, complete or absent; a damaged one is never loaded.

A directory gets its final name only when it is complete and synced, and its manifest is verified when it is read.
`latest` names the newest one for people and for copying tools; it is updated last, and nothing here reads it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from dragoman.errors import DamagedError, TrainingError
from dragoman.files import parse_json, recover, sibling, staged, verify_manifest, write_atomically, write_manifest
from dragoman.models.loading import read_tensors

LATEST: Final = "latest"
PARTS: Final = ("model", "optimizer", "ema")
BEFORE: Final = {"optimizer": "optimiser"}  # file names written by earlier versions


@dataclass(frozen=True)
class Checkpoint:
    """Everything that the next step depends on: weights, optimizer state, and training state."""

    step: int
    model: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]
    ema: Mapping[str, Tensor]
    state: Mapping[str, Any]

    def parts(self) -> dict[str, Mapping[str, Tensor]]:
        """The tensors, by part."""
        return {"model": self.model, "optimizer": self.optimizer, "ema": self.ema}


class Checkpoints:
    """The checkpoints of a run in one directory; only one process at a time may write."""

    def __init__(self, directory: Path, warn: Callable[[str], None]) -> None:
        self.directory, self.warn = directory, warn

    def path_for(self, step: int) -> Path:
        """The directory of a step's checkpoint."""
        return self.directory / f"step-{step:08d}"

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, oldest first."""
        found = (path for path in self.directory.glob("step-*") if path.name[5:].isdigit() and path.is_dir())
        return sorted(int(path.name[5:]) for path in found)

    def regular_steps(self, save_every: int) -> list[int]:
        """The steps of scheduled checkpoints, oldest first, without those of Ctrl-C, a best evaluation, or step 0."""
        return [step for step in self.steps() if step > 0 and step % save_every == 0]

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write to a staging directory, sync, read back and compare, rename; update `latest` last."""
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        check_finite(checkpoint)
        directory = self.path_for(checkpoint.step)
        try:
            with staged(directory) as staging:
                for part, tensors in checkpoint.parts().items():
                    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
                    save_file(ready, staging / f"{part}.safetensors")
                (staging / "progress.json").write_text(json.dumps({"step": checkpoint.step, **checkpoint.state}))
                write_manifest(staging)
                if not equal_checkpoints(read_checkpoint(staging), checkpoint):
                    raise OSError("the data read back differ from the data written; the disk or the memory is faulty")
            self._update_latest(checkpoint.step)
        except (OSError, SafetensorError) as error:
            why = getattr(error, "strerror", None) or str(error).rpartition("I/O error: ")[2]
            raise TrainingError(
                f"cannot write the checkpoint of step {checkpoint.step}: {why}; {self._last_intact()}. Free "
                "some space and run the same command to resume",
                code="cannot_write",
            ) from None
        return directory

    def _update_latest(self, step: int) -> None:
        """Update `latest` to this step; it may be stale if a process was killed after a rename."""
        pointer, name = self.directory / LATEST, self.path_for(step).name + "\n"
        if not pointer.exists() or pointer.read_bytes() != name.encode():
            write_atomically(pointer, name)

    def _last_intact(self) -> str:
        for step in reversed(self.steps()):
            try:
                verify_manifest(self.path_for(step))
            except DamagedError:
                continue
            return f"the checkpoint of step {step} in {self.path_for(step)} is intact"
        return "there is no other checkpoint yet"

    def load(self) -> Checkpoint | None:
        """The newest intact checkpoint, with a warning for each damaged one; None if there are no checkpoints."""
        self.clean_up()
        found = self.steps()
        for step in reversed(found):
            try:
                checkpoint = self.read(step)
            except DamagedError as error:
                self.warn(f"{error}; using the checkpoint before it")
                continue
            with suppress(OSError):  # a full disk is reported by the next write
                self._update_latest(step)
            return checkpoint
        if found:
            raise TrainingError(
                f"all {len(found)} checkpoints in {self.directory} are damaged; restore one from a copy, or remove "
                f"{self.directory} to start again",
                code="file_damaged",
            )
        return None

    def read(self, step: int) -> Checkpoint:
        """One checkpoint, verified."""
        return read_checkpoint(self.path_for(step))

    def weights(self, step: int) -> dict[str, Tensor]:
        """The model's weights of one checkpoint, verified."""
        verify_manifest(self.path_for(step))
        return load_part(self.path_for(step), "model")

    def prune(self, keep: set[int]) -> None:
        """Remove all checkpoints except those to keep; each is renamed first, so no partial checkpoint is ever seen."""
        for step in self.steps():
            if step not in keep:
                gone = sibling(self.path_for(step), "removed")
                shutil.rmtree(gone, ignore_errors=True)
                self.path_for(step).rename(gone)
                shutil.rmtree(gone, ignore_errors=True)

    def clean_up(self) -> None:
        """Clean up after a killed process; the run's lock guarantees that no other process is writing."""
        for old in self.directory.glob(".step-*.old"):
            recover(self.directory / old.name[1:].removesuffix(".old"))
        for stale in [*self.directory.glob(".step-*.*"), *self.directory.glob(f".{LATEST}.*")]:
            if stale.is_dir():
                shutil.rmtree(stale, ignore_errors=True)
            else:
                stale.unlink(missing_ok=True)


def read_checkpoint(directory: Path) -> Checkpoint:
    """The checkpoint in a directory, verified."""
    verify_manifest(directory)
    try:
        state = parse_json((directory / "progress.json").read_bytes(), finite=False)
        step = int(state.pop("step"))
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise DamagedError(f"{directory / 'progress.json'} cannot be read ({error})", code="file_damaged") from None
    parts = {part: load_part(directory, part) for part in PARTS}
    return Checkpoint(step, state=state, **parts)


def load_part(directory: Path, part: str) -> dict[str, Tensor]:
    """The tensors of one part; the manifest must have been verified."""
    file = directory / f"{part}.safetensors"
    if part in BEFORE and not file.exists():
        file = directory / f"{BEFORE[part]}.safetensors"
    return read_tensors(file)


def equal_checkpoints(one: Checkpoint, other: Checkpoint) -> bool:
    """Whether two checkpoints are equal, bit for bit."""
    if (one.step, json.dumps(one.state)) != (other.step, json.dumps(other.state)):
        return False
    for ours, theirs in zip(one.parts().values(), other.parts().values(), strict=True):
        if set(ours) != set(theirs) or not all(equal_bits(ours[name], theirs[name]) for name in ours):
            return False
    return True


def equal_bits(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal in type, shape and every bit."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    bits = [tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8) for tensor in (one, other)]
    return torch.equal(*bits)


def check_finite(checkpoint: Checkpoint) -> None:
    """Reject a checkpoint with NaN or infinity: nothing could be trained from it."""
    for part, tensors in checkpoint.parts().items():
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
                raise TrainingError(
                    f"{name} of the {part} is not finite at step {checkpoint.step}, so the step is not saved. Try a "
                    "lower train.learning_rate, train.clip=1.0, or train.precision='float32'",
                    code="diverged",
                )


def average_weights(weights: list[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several sets of weights (section 6.1), summed in float64; integers are those of the last."""
    if not weights:
        raise TrainingError("there are no weights to average", code="too_few_checkpoints")
    names = set(weights[0])
    for other in weights[1:]:
        if set(other) != names:
            odd = sorted(names ^ set(other))[0]
            raise TrainingError(
                f"only some of the weights to average have {odd!r}; average checkpoints of one run, or models of the "
                "same size",
                code="shape_mismatch",
            )
    mean = {}
    for name, last in weights[-1].items():
        if not last.is_floating_point():
            mean[name] = last
            continue
        total = torch.zeros_like(last, dtype=torch.float64)
        for each in weights:
            if each[name].shape != last.shape:
                shapes = f"{tuple(each[name].shape)} in one and {tuple(last.shape)} in another"
                raise TrainingError(
                    f"{name!r} has shape {shapes}; average checkpoints of one run, or models of the same size",
                    code="shape_mismatch",
                )
            total += each[name]
        mean[name] = (total / len(weights)).to(last.dtype)
    return mean


@dataclass
class Window:
    """Sums since the last log line; saved too, because a resumed run must log the same numbers."""

    smoothed: float = 0.0
    plain: float = 0.0
    source_tokens: float = 0.0
    target_tokens: float = 0.0
    norm: float = 0.0
    steps: int = 0


@dataclass
class TrainingState:
    """Counters and the best evaluation of a run."""

    step: int = 0
    loader: int = 0
    skipped: int = 0
    skipped_in_a_row: int = 0
    source_tokens: float = 0.0
    target_tokens: float = 0.0
    best_value: float | None = None
    best_step: int = 0
    without_better: int = 0
    unevaluated: bool = False  # the evaluation was interrupted; the resumed run starts with it
    start: dict[str, float] | None = None  # scores of the weights that fine-tuning started from
    metrics_lines: int = 0
    window: Window = field(default_factory=Window)

    def to_json(self) -> dict[str, Any]:
        """The state as plain values; exact, because JSON keeps all digits of a float."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TrainingState:
        """Read the state that `to_json` wrote."""
        return cls(**{**values, "window": Window(**values["window"])})
