"""The devices of this machine, and words of our own for one that is not there."""

from __future__ import annotations

from pathlib import Path

from dragoman.errors import SearchError


def gpu() -> bool:
    """Whether there is a GPU to use; where the system has no sign of one, PyTorch is not even asked."""
    if not (Path("/dev/nvidiactl").exists() or Path("/dev/dxg").exists() or Path("/dev/kfd").exists()):
        return False
    import torch

    return torch.cuda.is_available()


def devices() -> list[str]:
    """The CPU, and whatever else PyTorch can compute on here, by name."""
    import torch

    if not torch.accelerator.is_available():
        return ["cpu"]
    found = torch.accelerator.current_accelerator()
    kind = found.type if found is not None else "cuda"
    return ["cpu", *(f"{kind}:{i}" for i in range(torch.accelerator.device_count()))]


def known(device: str) -> str:
    """The device of that name, or an error that says which there are."""
    if device == "cpu":
        return device
    there = devices()
    if device in there or f"{device}:0" in there:
        return device
    import torch

    bare = device.startswith("cuda") and not (torch.version.cuda or torch.version.hip)
    why = f" (PyTorch {torch.__version__} is built without CUDA)" if bare else ""
    raise SearchError(f"there is no device {device!r} here{why}; use one of: auto, {', '.join(there)}")
