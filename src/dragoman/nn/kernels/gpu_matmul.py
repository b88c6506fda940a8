"""Matrix products in half precision on a GPU, each in the way that was found to be fastest for its shape.

PyTorch takes the way that NVIDIA's library guesses. Here the first product of a shape tries those that the library
thinks best, and keeps the fastest, also for later runs: a run that goes on after a stop then makes the same sums.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Lock
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
_tried: set[tuple[int, str]] = set()  # GPUs and forms whose way is known to be one in this process
_trying = 0  # blocks that are open, of any thread
_counting, _writing = Lock(), Lock()


@contextmanager
def trying() -> Iterator[None]:
    """Find the fastest way for products of shapes that are new in this block; elsewhere they are left to PyTorch.

    That takes some milliseconds for each, which only shapes that come again and again are worth. Ways that other runs
    found are taken up here alone as well: nothing that they do in the meantime changes the sums of a run.
    """
    global _trying  # the backward pass has a thread of its own, and means this block as well
    with _counting:
        _trying += 1
    try:
        yield
    finally:
        with _counting:
            _trying -= 1


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
        found = {form: _from_hex(way) for form, way in self._kept().get(machine, {}).items()}
        self.known: dict[str, bytes | None] = {form: way for form, way in found.items() if way is not None}

    def remember(self, form: Form, way: bytes | None, takes: Callable[[bytes], bool] = bool) -> bytes | None:
        """Keep it, unless another run was first with one that the library `takes`; the way that is kept.

        Runs that begin together then make the same sums, now and when they go on. A file that cannot be written costs
        later runs the time to find it again.
        """
        name = str(form)
        with self._alone():
            everything = self._kept()
            others = everything.get(self.machine, {})
            theirs = _from_hex(others.pop(name, ""))
            self.known[name] = way = theirs if theirs and takes(theirs) else way
            found = {form: known.hex() for form, known in self.known.items() if known is not None}
            part = self.path.with_name(f"{self.path.name}.{os.getpid()}")
            try:
                part.write_text(json.dumps({**everything, self.machine: found | others}, indent=1), encoding="utf-8")
                part.replace(self.path)
            except OSError:
                with suppress(OSError):
                    part.unlink()
        return way

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One thread and, where the system can, one process at a time: else they would lose what the others found."""
        with _writing, ExitStack() as held:
            with suppress(OSError):
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                fcntl.lockf(held.enter_context(self.path.with_suffix(".lock").open("a")), fcntl.LOCK_EX)
            yield

    def _kept(self) -> dict[str, dict[str, str]]:
        """What the file says of all kinds of GPUs; of a damaged one, what is as it should be."""
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(found, dict):
            return {}
        kinds = ((name, ways) for name, ways in found.items() if isinstance(ways, dict))
        return {name: {form: way for form, way in ways.items() if isinstance(way, str)} for name, ways in kinds}


def _from_hex(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


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
    given = sides if bias is None else (*sides, bias)
    alike = all(x.is_cuda and x.dtype == left.dtype and x.device == left.device for x in given)
    if kind is None or not alike or m * n * k < SMALLEST or torch.cuda.current_device() != left.device.index:
        return None
    if right.shape[0] != k or out.shape != (m, n) or (bias is not None and bias.shape != (n,)):
        return None  # PyTorch takes it, or says what is wrong
    if out.stride(1) != 1 or (bias is not None and bias.stride(0) != 1):
        return None
    if any(1 not in x.stride() for x in sides) or any(x.data_ptr() % ALIGNED for x in given):
        return None
    turned = (right.stride(1) != 1, left.stride(1) != 1)
    lines = (k if turned[0] else n, m if turned[1] else k, n)
    leading = (right.stride(int(turned[0])), left.stride(int(turned[1])), out.stride(0))
    if any(apart < line for apart, line in zip(leading, lines, strict=True)):
        return None  # lines that lie over each other
    return Form(n, m, k, turned, leading, kind, bias is not None)


def _way(lt: CublasLt, form: Form, device: int, put: Callable[[bytes], bool]) -> bytes | None:
    """The way to take; while a graph is recorded, none can be tried."""
    ways, name = _ways(device), str(form)
    if (device, name) not in _tried:
        if not _trying or torch.cuda.is_current_stream_capturing():
            return None
        known = ways.known.get(name)
        if known is None or not lt.knows(form, known, device):
            able = [way for way in lt.ways(form, TRIED, device) if put(way)]
            found = able[fastest(_seconds(put, able))] if able else None
            ways.remember(form, found, lambda way: lt.knows(form, way, device))
        _tried.add((device, name))
    return ways.known.get(name)


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
        _workspaces[place].data_ptr(), *place,
    )  # fmt: skip


@torch.library.custom_op("dragoman::fast_product", mutates_args=(), tags=(torch.Tag.flexible_layout,))
def fast_product(left: Tensor, right: Tensor) -> Tensor:
    """`left [M, K] right [K, N]`, for the compiler to put in the place of PyTorch's."""
    return multiply(left, right)


@fast_product.register_fake
def _(left: Tensor, right: Tensor) -> Tensor:
    return left.new_empty(left.shape[0], right.shape[1])
