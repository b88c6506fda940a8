"""Checkpoints: a directory a step, whole or not there; the pointer moves last; what is damaged is not loaded."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.errors import DamagedError, TrainingError
from dragoman.files import beside, staged, verify_manifest, write_manifest, write_safely

LATEST = "latest"


@dataclass(frozen=True)
class Checkpoint:
    """All that the next step depends on: weights, the optimiser's state, and a few numbers."""

    step: int
    model: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]
    ema: Mapping[str, Tensor]
    progress: Mapping[str, Any]


class Checkpoints:
    """The checkpoints of one run, in one directory."""

    def __init__(self, directory: Path, warn: Callable[[str], None]) -> None:
        self.directory, self.warn = directory, warn

    def place(self, step: int) -> Path:
        """Where the checkpoint of a step is."""
        return self.directory / f"step-{step:08d}"

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, oldest first."""
        return sorted(int(path.name[5:]) for path in self.directory.glob("step-*") if path.name[5:].isdigit())

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write it beside its place, sync, verify by reading back, rename, and move the pointer last."""
        from safetensors.torch import save_file

        for name, tensor in checkpoint.model.items():
            if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
                raise TrainingError(
                    f"{name} holds a number that is not finite at step {checkpoint.step}; it is not saved"
                )
        place = self.place(checkpoint.step)
        try:
            with staged(place) as staging:
                for part in ("model", "optimiser", "ema"):
                    tensors = {
                        name: tensor.detach().cpu().contiguous() for name, tensor in getattr(checkpoint, part).items()
                    }
                    save_file(tensors, staging / f"{part}.safetensors")
                (staging / "progress.json").write_text(json.dumps({"step": checkpoint.step, **checkpoint.progress}))
                write_manifest(staging)
                verify_manifest(staging)
            write_safely(self.directory / LATEST, place.name + "\n")
        except OSError as error:
            if isinstance(error, DamagedError):
                raise
            good = self.steps()
            kept = (
                f"the checkpoint of step {good[-1]} in {self.place(good[-1])} is whole" if good else "there is none yet"
            )
            raise TrainingError(
                f"the checkpoint of step {checkpoint.step} could not be written: {error.strerror or error}; {kept}. "
                "Make room and run the same command to go on from it"
            ) from None
        return place

    def load(self) -> Checkpoint | None:
        """The newest whole checkpoint; those that are damaged are named, and passed over. None where there is none."""
        found = self.steps()
        for step in reversed(found):
            try:
                return self.read(step)
            except DamagedError as error:
                self.warn(f"{error}; going back to the checkpoint before it")
        if found:
            raise TrainingError(
                f"none of the {len(found)} checkpoints in {self.directory} is whole; restore one from a copy"
            )
        return None

    def read(self, step: int) -> Checkpoint:
        """One checkpoint, verified."""
        place = self.place(step)
        verify_manifest(place)
        progress = json.loads((place / "progress.json").read_text())
        parts = {part: self.weights(step, part) for part in ("model", "optimiser", "ema")}
        return Checkpoint(int(progress.pop("step")), progress=progress, **parts)

    def weights(self, step: int, part: str = "model") -> dict[str, Tensor]:
        """The tensors of one part of a checkpoint."""
        from safetensors.torch import load_file

        return load_file(self.place(step) / f"{part}.safetensors")

    def prune(self, keep: set[int]) -> None:
        """Remove the checkpoints that are not to be kept, and what killed processes left half-written."""
        for step in self.steps():
            if step not in keep:
                shutil.rmtree(self.place(step))
        for stale in self.directory.glob(".step-*.*"):
            if stale.is_dir() and stale != beside(self.place(0), "staging"):
                shutil.rmtree(stale, ignore_errors=True)


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
