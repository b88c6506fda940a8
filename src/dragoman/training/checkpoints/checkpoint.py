"""Checkpoints: a directory a step, whole or not there; what is damaged is not loaded.

The directories are the truth: one stands under its name only when it is whole and synced, and its manifest confirms it
when it is read. `latest` names the newest for people and for tools that copy; it moves last and nothing here reads it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from dragoman.errors import DamagedError, TrainingError
from dragoman.files import recover, sibling, staged, verify_manifest, write_atomically, write_manifest

LATEST: Final = "latest"
PARTS: Final = ("model", "optimizer", "ema")
BEFORE: Final = {"optimizer": "optimiser"}  # names of files as they were written before


@dataclass(frozen=True)
class Checkpoint:
    """All that the next step depends on: weights, the optimizer's state, and a few numbers."""

    step: int
    model: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]
    ema: Mapping[str, Tensor]
    progress: Mapping[str, Any]

    def parts(self) -> dict[str, Mapping[str, Tensor]]:
        """The tensors, by part."""
        return {"model": self.model, "optimizer": self.optimizer, "ema": self.ema}


class Checkpoints:
    """The checkpoints of one run, in one directory, which one process at a time writes."""

    def __init__(self, directory: Path, warn: Callable[[str], None]) -> None:
        self.directory, self.warn = directory, warn

    def place(self, step: int) -> Path:
        """Where the checkpoint of a step is."""
        return self.directory / f"step-{step:08d}"

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, oldest first."""
        found = (path for path in self.directory.glob("step-*") if path.name[5:].isdigit() and path.is_dir())
        return sorted(int(path.name[5:]) for path in found)

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write it beside its place, sync, read it back and compare, rename, and move the pointer last."""
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        refuse_what_is_not_finite(checkpoint)
        place = self.place(checkpoint.step)
        try:
            with staged(place) as staging:
                for part, tensors in checkpoint.parts().items():
                    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
                    save_file(ready, staging / f"{part}.safetensors")
                (staging / "progress.json").write_text(json.dumps({"step": checkpoint.step, **checkpoint.progress}))
                write_manifest(staging)
                if not same(read(staging), checkpoint):
                    raise OSError("what was read back is not what was written; the disk or the memory fails")
            self._point_at(checkpoint.step)
        except (OSError, SafetensorError) as error:
            why = getattr(error, "strerror", None) or str(error).rpartition("I/O error: ")[2]
            raise TrainingError(
                f"the checkpoint of step {checkpoint.step} could not be written: {why}; {self._last_good()}. Make room "
                "and run the same command to go on"
            ) from None
        return place

    def _point_at(self, step: int) -> None:
        """Have the pointer name this step; a process killed right after a rename has left it behind."""
        pointer, name = self.directory / LATEST, self.place(step).name + "\n"
        if not pointer.exists() or pointer.read_bytes() != name.encode():
            write_atomically(pointer, name)

    def _last_good(self) -> str:
        for step in reversed(self.steps()):
            try:
                verify_manifest(self.place(step))
            except DamagedError:
                continue
            return f"the checkpoint of step {step} in {self.place(step)} is whole"
        return "there is none yet"

    def load(self) -> Checkpoint | None:
        """The newest whole checkpoint; those that are damaged are named, and passed over. None where there is none."""
        self.tidy()
        found = self.steps()
        for step in reversed(found):
            try:
                checkpoint = self.read(step)
            except DamagedError as error:
                self.warn(f"{error}; going back to the checkpoint before it")
                continue
            with suppress(OSError):  # a full disk is told of when there is more to write
                self._point_at(step)
            return checkpoint
        if found:
            raise TrainingError(
                f"none of the {len(found)} checkpoints in {self.directory} is whole; restore one from a copy, or "
                f"remove {self.directory} to begin anew"
            )
        return None

    def read(self, step: int) -> Checkpoint:
        """One checkpoint, verified."""
        return read(self.place(step))

    def weights(self, step: int) -> dict[str, Tensor]:
        """The model's weights of one checkpoint, verified."""
        verify_manifest(self.place(step))
        return tensors_of(self.place(step), "model")

    def prune(self, keep: set[int]) -> None:
        """Remove the checkpoints that are not to be kept; each loses its name first, so that none stands half."""
        for step in self.steps():
            if step not in keep:
                gone = sibling(self.place(step), "removed")
                shutil.rmtree(gone, ignore_errors=True)
                self.place(step).rename(gone)
                shutil.rmtree(gone, ignore_errors=True)

    def tidy(self) -> None:
        """Put right and remove what a killed process left; the run's lock says that nobody is writing."""
        for old in self.directory.glob(".step-*.old"):
            recover(self.directory / old.name[1:].removesuffix(".old"))
        for stale in [*self.directory.glob(".step-*.*"), *self.directory.glob(f".{LATEST}.*")]:
            if stale.is_dir():
                shutil.rmtree(stale, ignore_errors=True)
            else:
                stale.unlink(missing_ok=True)


def read(place: Path) -> Checkpoint:
    """The checkpoint in a directory, verified."""
    verify_manifest(place)
    try:
        progress = json.loads((place / "progress.json").read_text())
        step = int(progress.pop("step"))
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise DamagedError(f"{place / 'progress.json'} cannot be read ({error})") from None
    parts = {part: tensors_of(place, part) for part in PARTS}
    return Checkpoint(step, progress=progress, **parts)


def tensors_of(place: Path, part: str) -> dict[str, Tensor]:
    """The tensors of one part, whose file the manifest has confirmed."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    file = place / f"{part}.safetensors"
    if part in BEFORE and not file.exists():
        file = place / f"{BEFORE[part]}.safetensors"
    try:
        return load_file(file)
    except (OSError, SafetensorError) as error:
        raise DamagedError(f"{file} cannot be read ({error})") from None


def same(one: Checkpoint, other: Checkpoint) -> bool:
    """Whether two checkpoints are equal, bit for bit."""
    if (one.step, json.dumps(one.progress)) != (other.step, json.dumps(other.progress)):
        return False
    for ours, theirs in zip(one.parts().values(), other.parts().values(), strict=True):
        if set(ours) != set(theirs) or not all(same_bits(ours[name], theirs[name]) for name in ours):
            return False
    return True


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal in kind, shape and every bit."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    bits = [tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8) for tensor in (one, other)]
    return torch.equal(*bits)


def refuse_what_is_not_finite(checkpoint: Checkpoint) -> None:
    """A number that is not finite never reaches the disk: nothing could be trained from it again."""
    for part, tensors in checkpoint.parts().items():
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
                raise TrainingError(
                    f"{name} of the {part} holds a number that is not finite at step {checkpoint.step}; it is not "
                    "saved. Try a lower train.learning_rate, train.clip=1.0, or train.precision='float32'"
                )


def average(weights: list[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several sets of weights (section 6.1), summed in float64; counters are the last's."""
    if not weights:
        raise TrainingError("there are no weights to average")
    names = set(weights[0])
    for other in weights[1:]:
        if set(other) != names:
            odd = sorted(names ^ set(other))[0]
            raise TrainingError(f"only some of the weights to average have {odd!r}; average checkpoints of one run")
    mean = {}
    for name, last in weights[-1].items():
        if not last.is_floating_point():
            mean[name] = last
            continue
        total = torch.zeros_like(last, dtype=torch.float64)
        for each in weights:
            if each[name].shape != last.shape:
                raise TrainingError(
                    f"{name!r} has shape {tuple(each[name].shape)} in one and {tuple(last.shape)} in another"
                )
            total += each[name]
        mean[name] = (total / len(weights)).to(last.dtype)
    return mean
