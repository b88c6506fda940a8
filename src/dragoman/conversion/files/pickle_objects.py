"""What a pickle may name, and the inert descriptions that stand for it: tensors, storages, settings.

Nothing is imported or called: a tensor is a checked view of a storage, and an object is its name and its state.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

MAX_DIMENSIONS: Final = 8
MAX_SIZE: Final = 1 << 48  # of elements, bytes and offsets
ITEM_BYTES: Final = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1,
    "bool": 1,
}  # fmt: skip
STORAGE_TYPES: Final = {
    f"{module}.{kind}Storage": dtype
    for module in ("torch", "torch.cuda")
    for kind, dtype in zip(
        ("Double", "Float", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool"), ITEM_BYTES, strict=True
    )
}
NAMESPACE: Final = "argparse.Namespace"
OPAQUE_NAMES: Final = re.compile(
    r"torch\.(device|(bfloat|float|u?int)\d+|bool|half|float|double|long|int)"
    r"|numpy\.(dtype|float\d+|int\d+|(_core|core)\.multiarray\.scalar)"
    r"|_codecs\.encode|_?operator\.getitem|typing\.\w+|omegaconf\.\w+\.\w+|fairseq\.[\w.]+|collections\.defaultdict"
    r"|(builtins|__builtin__)\.(object|dict|list|tuple|set|int|long|float|bool|str|bytes|unicode)"
)  # what fairseq checkpoints hold besides weights: NumPy numbers, OmegaConf settings, enumerations


class BadPickleError(ValueError):
    """A damaged pickle, or one that does not describe tensors and settings."""


class UnsafePickleError(BadPickleError):
    """A pickle that refers to a class or function that is not on the list; `name` is its name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"refers to {name}")
        self.name = name


@dataclass(frozen=True)
class GlobalName:
    """The name of a class or function in a pickle."""

    path: str


@dataclass(frozen=True, eq=False)
class Opaque:
    """An object that is not constructed: the name of its class, and its state as plain values."""

    path: str
    state: dict[Any, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Storage:
    """The elements of one or more tensors, stored in the file under a key."""

    dtype: str
    key: str
    size: int


@dataclass(frozen=True)
class StoredTensor:
    """A view of a storage; its bounds have been checked."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


def check_key(key: Any) -> Any:
    """Reject dictionary keys that may be slow to hash, such as nested tuples."""
    if isinstance(key, tuple) and len(key) <= MAX_DIMENSIONS:
        for each in key:
            if isinstance(each, tuple):
                raise BadPickleError("has a dictionary with nested tuples as keys")
            check_key(each)
    elif not (key is None or isinstance(key, str | bytes | int | float | Opaque)):
        raise BadPickleError(f"has a dictionary with a {type(key).__name__} as key")
    return key


def make_dictionary(*arguments: Any) -> dict[Any, Any]:
    """Make the dictionary of an OrderedDict, empty or from pairs."""
    pairs = arguments[0] if arguments else []
    if not isinstance(pairs, list | tuple) or any(not isinstance(p, list | tuple) or len(p) != 2 for p in pairs):
        raise BadPickleError("has an OrderedDict that was not built from pairs")
    return {check_key(key): value for key, value in pairs}


def make_tensor(storage: Any, offset: Any, shape: Any, stride: Any, *_: Any) -> StoredTensor:
    """Make a view of a storage; check that it lies inside and does not have more elements."""
    if not isinstance(storage, Storage) or not isinstance(shape, tuple) or not isinstance(stride, tuple):
        raise BadPickleError("has a tensor without a storage or a shape")
    if len(shape) != len(stride) or len(shape) > MAX_DIMENSIONS:
        raise BadPickleError(f"has a tensor of {len(shape)} dimensions and {len(stride)} strides")
    if any(type(number) is not int or not 0 <= number < MAX_SIZE for number in (offset, *shape, *stride)):
        raise BadPickleError("has a tensor with an invalid shape, stride or offset")
    count, last = 1, offset
    for size, step in zip(shape, stride, strict=True):
        count, last = count * size, last + (size - 1) * step
    if count > storage.size or (count and last >= storage.size):
        raise BadPickleError(f"has a tensor outside of its storage of {storage.size:,} elements")
    return StoredTensor(storage, offset, shape, stride)


def make_parameter(data: Any = None, *_: Any) -> StoredTensor:
    """Return the tensor of a parameter."""
    if not isinstance(data, StoredTensor):
        raise BadPickleError("has a parameter without a tensor")
    return data


def make_size(numbers: Any = ()) -> tuple[Any, ...]:
    """Make the tuple of a torch.Size; `make_tensor` checks its numbers."""
    if not isinstance(numbers, list | tuple):
        raise BadPickleError("has a shape that is not a list of numbers")
    return tuple(numbers)


def reconstruct(kind: Any, *_: Any) -> Opaque:
    """Describe an object of a class; its state follows."""
    if not isinstance(kind, GlobalName):
        raise BadPickleError("is not a valid pickle (an object without a class)")
    return Opaque(kind.path)


CALLS: Final[dict[str, Callable[..., Any]]] = {
    "collections.OrderedDict": make_dictionary,
    "torch._utils._rebuild_tensor": make_tensor,
    "torch._utils._rebuild_tensor_v2": make_tensor,
    "torch._utils._rebuild_parameter": make_parameter,
    "torch.Size": make_size,
    "copy_reg._reconstructor": reconstruct,
    "copyreg._reconstructor": reconstruct,
    NAMESPACE: lambda *_: Opaque(NAMESPACE),
}
