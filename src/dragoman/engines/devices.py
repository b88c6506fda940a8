"""The devices of this machine."""

from __future__ import annotations

from pathlib import Path

from dragoman.errors import SearchError


def has_gpu() -> bool:
    """Whether there is a GPU to use; PyTorch is imported only where the system shows signs of one."""
    if not (Path("/dev/nvidiactl").exists() or Path("/dev/dxg").exists() or Path("/dev/kfd").exists()):
        return False
    import torch

    return torch.cuda.is_available()


def available_devices() -> list[str]:
    """The CPU, and whatever else PyTorch can compute on here, by name."""
    import torch

    if not torch.accelerator.is_available():
        return ["cpu"]
    found = torch.accelerator.current_accelerator()
    kind = found.type if found is not None else "cuda"
    return ["cpu", *(f"{kind}:{i}" for i in range(torch.accelerator.device_count()))]


def check_device(device: str) -> str:
    """The device of that name; raise if it is not there."""
    if device == "cpu":
        return device
    available = available_devices()
    if device in available or f"{device}:0" in available:
        return device
    import torch

    no_cuda = device.startswith("cuda") and not (torch.version.cuda or torch.version.hip)
    why = f" (PyTorch {torch.__version__} is built without CUDA)" if no_cuda else ""
    raise SearchError(
        f"there is no device {device!r} here{why}; use one of: auto, {', '.join(available)}", code="device_not_found"
    )
