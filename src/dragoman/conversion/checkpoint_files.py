"""Read files of tensors without running code in them.

PyTorch's files are pickles, and a pickle can call any function. They are read with `weights_only`, which allows
tensors, plain containers, and a short list of harmless classes that toolkits keep their settings in.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.errors import ConversionError


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise ConversionError(
            f"{path} cannot be read ({type(error).__name__}: {error}); copy it again", code="file_damaged"
        ) from None
    return tensors


def read_pickle(path: Path, classes: Sequence[Any] = ()) -> Any:
    """Load what `torch.save` wrote: tensors, plain containers and `classes`; anything else is rejected."""
    try:
        with torch.serialization.safe_globals([*classes]):
            return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ConversionError(f"{path} is missing; copy the whole model", code="file_missing") from None
    except pickle.UnpicklingError as error:
        found = re.search(r"GLOBAL ([\w.]+)", str(error)) or re.search(
            r"([\w.]+) (?:was|is) not an allowed", str(error)
        )
        if found is None:
            raise ConversionError(
                f"{path} cannot be read (not a PyTorch file, or damaged); copy it again", code="file_damaged"
            ) from None
        raise ConversionError(
            f"{path} would load {found[1]}, which is not a plain value; that could run code of the file's author. If "
            "you trust it, load it with its own toolkit, and save plain values only",
            code="unsafe_pickle",
        ) from None
    except MemoryError:
        raise
    except Exception as error:  # torch's errors for a truncated file vary
        first = (str(error).splitlines() or ["damaged"])[0]
        raise ConversionError(
            f"{path} cannot be read ({type(error).__name__}: {first}); copy it again", code="file_damaged"
        ) from None
