"""Matrix products in half precision on a GPU, each in the way that was found to be fastest for its shape.

PyTorch takes the way that NVIDIA's library guesses. Here the first product of a shape tries those that the library
thinks best, and keeps the fastest, also for later runs: a run that goes on after a stop then makes the same sums.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from dragoman.native.build import cache_directory
from dragoman.native.cublas import ALIGNED, WORKSPACE, CublasLt, Form, cublas

TRIED: Final = 8  # ways of the library
ROUNDS, REPEATS = 3, 4  # of trying
WORTH: Final = 0.98  # of the guess's time, which another way must stay below to be taken instead
SMALLEST: Final = 1 << 27  # multiplications, below which nothing is won
HALVES: Final = {torch.bfloat16: "bfloat16", torch.float16: "float16"}

_workspaces: dict[tuple[int, int], Tensor] = {}
_tried: set[str] = set()  # forms whose way is known to be one in this process
_trying = False


@contextmanager
def trying() -> Iterator[None]:
    """Find the fastest way for products of shapes that are new in this block; elsewhere they are left to PyTorch.

    That takes some milliseconds for each, which only shapes that come again and again are worth.
    """
    global _trying  # the backward pass has a thread of its own, and means this block as well
    before, _trying = _trying, True
    try:
        yield
    finally:
        _trying = before


@cache
def library() -> CublasLt | None:
    """NVIDIA's, where PyTorch has it and nobody says not to ask it."""
    if os.environ.get("DRAGOMAN_PRODUCTS", "1") == "0" or torch.version.cuda is None:
        return None
    return cublas(torch.version.cuda)


class Ways:
    """What was found to be fastest on one kind of GPU, kept in a file."""

    def __init__(self, path: Path, machine: str) -> None:
        self.path, self.machine = path, machine
        self.known: dict[str, bytes | None] = {}
        kept = self._kept().get(machine)
        for form, way in kept.items() if isinstance(kept, dict) else ():
            if isinstance(way, str):
                try:
                    self.known[form] = bytes.fromhex(way)
                except ValueError:
                    continue

    def remember(self, form: Form, way: bytes | None) -> None:
        """Keep it; a file that cannot be written costs later runs the time to find it again."""
        self.known[str(form)] = way
        everything = self._kept()
        kept = everything.get(self.machine)
        mine = kept if isinstance(kept, dict) else {}
        mine |= {name: found.hex() for name, found in self.known.items() if found is not None}
        part = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            part.write_text(json.dumps({**everything, self.machine: mine}, indent=1), encoding="utf-8")
            part.replace(self.path)
        except OSError:
            with suppress(OSError):
                part.unlink()

    def _kept(self) -> dict[str, object]:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


@cache
def _ways(device: int) -> Ways:
    lt = library()
    version = lt.version if lt is not None else 0
    name = torch.cuda.get_device_properties(device).name
    return Ways(cache_directory() / "products.json", f"{name}, cuBLASLt {version}")


def fastest(times: list[float]) -> int:
    """The place of the way to take, where the first is the library's guess."""
    best = min(range(len(times)), key=times.__getitem__)
    return best if times[best] < WORTH * times[0] else 0


def multiply(left: Tensor, right: Tensor, out: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """`left [M, K] right [K, N]`, and max(0, that + bias) where there is a `bias`; by PyTorch where nothing is won."""
    if out is None:
        out = left.new_empty(left.shape[0], right.shape[1])
    form = _form(left, right, out, bias)
    lt = library() if form is not None else None
    if lt is not None and form is not None:
        way = _way(lt, form, left.device.index, lambda way: _put(lt, form, way, left, right, out, bias))
        if way is not None and _put(lt, form, way, left, right, out, bias):
            return out
    if bias is not None:
        return torch._addmm_activation(bias, left, right, out=out)
    return torch.mm(left, right, out=out)


def _form(left: Tensor, right: Tensor, out: Tensor, bias: Tensor | None) -> Form | None:
    """Of a product that is large enough and lies well, as the library sees it: in columns, so that all is mirrored."""
    (m, k), n = left.shape, right.shape[1]
    kind, sides = HALVES.get(left.dtype), (right, left, out)
    alike = all(x.is_cuda and x.dtype == left.dtype for x in sides) and (bias is None or bias.dtype == left.dtype)
    if kind is None or not alike or m * n * k < SMALLEST or out.stride(1) != 1:
        return None
    if any(1 not in x.stride() or x.data_ptr() % ALIGNED for x in sides):
        return None
    turned = (right.stride(1) != 1, left.stride(1) != 1)
    leading = (right.stride(int(turned[0])), left.stride(int(turned[1])), out.stride(0))
    return Form(n, m, k, turned, leading, kind, bias is not None)


def _way(lt: CublasLt, form: Form, device: int, put: Callable[[bytes], bool]) -> bytes | None:
    """The way to take; while a graph is recorded, none can be tried."""
    ways, name = _ways(device), str(form)
    known = ways.known.get(name)
    if name not in _tried:
        if known is None or not lt.knows(form, known):
            if not _trying or torch.cuda.is_current_stream_capturing():
                return None
            able = [way for way in lt.ways(form, TRIED) if put(way)]
            known = able[fastest(_seconds(put, able))] if able else None
            ways.remember(form, known)
        _tried.add(name)
    return known


def _seconds(put: Callable[[bytes], bool], ways: list[bytes]) -> list[float]:
    """The best of some rounds, each of which tries all: the GPU's clock changes meanwhile."""
    best = [float("inf")] * len(ways)
    for _ in range(ROUNDS):
        for number, way in enumerate(ways):
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            began.record()
            for _ in range(REPEATS):
                put(way)
            ended.record()
            ended.synchronize()
            best[number] = min(best[number], began.elapsed_time(ended))
    return best


def _put(lt: CublasLt, form: Form, way: bytes, left: Tensor, right: Tensor, out: Tensor, bias: Tensor | None) -> bool:
    stream = torch.cuda.current_stream(left.device).cuda_stream
    place = (left.device.index, stream)
    if place not in _workspaces:  # one for each stream, because products of two may run at once
        _workspaces[place] = torch.empty(WORKSPACE, dtype=torch.uint8, device=left.device)
    return lt.multiply(
        form, way, right.data_ptr(), left.data_ptr(), out.data_ptr(), 0 if bias is None else bias.data_ptr(),
        _workspaces[place].data_ptr(), stream,
    )  # fmt: skip


@torch.library.custom_op("dragoman::fast_product", mutates_args=(), tags=(torch.Tag.flexible_layout,))
def fast_product(left: Tensor, right: Tensor) -> Tensor:
    """`left [M, K] right [K, N]`, for the compiler to put in the place of PyTorch's."""
    return multiply(left, right)


@fast_product.register_fake
def _(left: Tensor, right: Tensor) -> Tensor:
    return left.new_empty(left.shape[0], right.shape[1])
