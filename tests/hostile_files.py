"""Files that somebody wrote to do harm: pickles that call, point and grow, and YAML that grows."""

from __future__ import annotations

import io
import pickle
import sys
import zipfile
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np


class Call:
    """Pickled as the call of a function with arguments, and the state of what it returns."""

    def __init__(self, function: Any, *arguments: Any, state: Any = None) -> None:
        self.reduced = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.reduced


class Reference:
    """Pickled as a persistent id, as `torch.save` refers to a storage."""

    def __init__(self, kind: Any, key: str, size: int) -> None:
        self.id = ("storage", kind, key, "cpu", size)


class StoragePickler(pickle.Pickler):
    def persistent_id(self, obj: Any) -> Any:
        return obj.id if isinstance(obj, Reference) else None


def dump(value: Any) -> bytes:
    """A pickle as `torch.save` writes it."""
    stream = io.BytesIO()
    StoragePickler(stream, protocol=2).dump(value)
    return stream.getvalue()


def write_torch(
    path: Path, content: bytes, storages: Mapping[str, bytes] | None = None, compressed: bool = False
) -> Path:
    """A zip archive of PyTorch with any pickle."""
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("model/data.pkl", content)
        archive.writestr("model/version", "3\n")
        archive.writestr("model/byteorder", "little")
        for key, data in (storages or {}).items():
            archive.writestr(f"model/data/{key}", data)
    return path


def shared_lists(levels: int = 60) -> list[Any]:
    """A list of 2 ** levels numbers that takes a few bytes a level."""
    value: list[Any] = [1]
    for _ in range(levels):
        value = [value, value]
    return value


def shared_tuples(levels: int = 60) -> tuple[Any, ...]:
    """The same of tuples, whose hash visits all."""
    value: tuple[Any, ...] = (1,)
    for _ in range(levels):
        value = (value, value)
    return value


def key_pickle(levels: int = 60) -> bytes:
    """A pickle of {nested tuples: 1}, which Python itself could not write: it would have to hash them."""
    tuples = pickle.dumps(shared_tuples(levels), protocol=2)[:-1]  # without STOP
    return tuples[:2] + b"}" + tuples[2:] + b"K\x01s."


def pointer_pickle(address: int = 0x4141414141414141) -> bytes:
    """A NumPy record of one object whose eight bytes are taken for a pointer, as the value of a setting."""
    dtype = Call(np.dtype, [("a", "O")])
    value = Call(np._core.multiarray.scalar, dtype, address.to_bytes(8, "little"))  # type: ignore[attr-defined]
    return dump({"model": OrderedDict(), "args": Namespace(arch=value)})


def yaml_laughs(levels: int = 40, merged: bool = False) -> str:
    """Aliases of aliases; with `merged`, as mappings that are merged into each other."""
    first = "a0: &a0 {x: 1}\n" if merged else "a0: &a0 [x, x]\n"
    form = "a{n}: &a{n} {{<<: [*a{o}, *a{o}]}}\n" if merged else "a{n}: &a{n} [*a{o}, *a{o}]\n"
    return first + "".join(form.format(n=n, o=n - 1) for n in range(1, levels))


@contextmanager
def stand_in_module(name: str, *classes: str) -> Iterator[Any]:
    """A module of that name with empty classes, so that objects of a package that is not installed can be pickled."""
    module = ModuleType(name)
    parents = [".".join(name.split(".")[:i]) for i in range(1, name.count(".") + 1)]
    for each in classes:
        setattr(module, each, type(each, (), {"__module__": name}))
    added = {parent: ModuleType(parent) for parent in parents if parent not in sys.modules} | {name: module}
    sys.modules.update(added)
    try:
        yield module
    finally:
        for each in added:
            del sys.modules[each]
