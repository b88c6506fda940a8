"""Read a pickle without running any code that it names.

A pickle is a program that names classes and functions and calls them. This interpreter knows the opcodes of plain
values and containers. It accepts a short list of names and builds inert descriptions: `StoredTensor` for a tensor,
`dict` for an OrderedDict, `Opaque` for other objects. It rejects all other names. The length of the pickle and
`MAX_STEPS` bound its work.
"""

from __future__ import annotations

import pickletools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Any, Final

MAX_STEPS: Final = 1_000_000  # a checkpoint of 300 tensors with its optimizer takes about 50,000
MAX_BITS: Final = 1024  # of an integer
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
class Name:
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


class PickleReader:
    """Interprets one pickle; `read` returns its value."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.storages: dict[str, Storage] = {}  # by key, in order of first use
        self.steps = 0

    def read(self) -> Any:
        """Read one pickle from the stream and return its value."""
        try:
            for opcode, argument, _ in pickletools.genops(self.stream):
                self.charge(1)
                if opcode.name == "STOP":
                    return self.stack.pop()
                self.run(opcode.name, argument)
        except BadPickleError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError) as error:  # invalid opcodes, or an empty stack
            raise BadPickleError(f"is not a valid pickle ({type(error).__name__})") from None
        raise BadPickleError("ends in the middle of a pickle")

    def charge(self, steps: int) -> None:
        """Count steps, so that a small file cannot cause a lot of work."""
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise BadPickleError(f"takes more than {MAX_STEPS:,} steps to read, far more than any checkpoint needs")

    def run(self, name: str, argument: Any) -> None:
        """Run one opcode."""
        stack = self.stack
        if name in PUSHED:
            stack.append(check_plain(argument))
        elif name in CONSTANTS:
            stack.append(CONSTANTS[name]())
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self.memo[argument])
        elif name == "MARK":
            self.marks.append(len(stack))
        elif name in TUPLE_SIZES:
            stack.append(tuple([stack.pop() for _ in range(TUPLE_SIZES[name])][::-1]))
        elif name in IGNORED:
            pass
        elif name in OPERATIONS:
            OPERATIONS[name](self, argument)
        else:
            raise BadPickleError(f"has the opcode {name}, which tensors and settings do not need")

    def pop_mark(self) -> list[Any]:
        """Pop everything that was pushed since the last MARK opcode."""
        start = self.marks.pop()
        items = self.stack[start:]
        if len(self.stack) < start:
            raise BadPickleError("is not a valid pickle (the stack is shorter than its MARK)")
        del self.stack[start:]
        return items

    def set_items(self, pairs: list[Any]) -> None:
        """Add alternating keys and values to the dictionary on top of the stack."""
        target = self.stack[-1]
        if isinstance(target, Opaque):  # a defaultdict
            target = target.state
        if not isinstance(target, dict) or len(pairs) % 2:
            raise BadPickleError("is not a valid pickle (an item without a dictionary)")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            target[check_key(key)] = value

    def append_items(self, items: list[Any]) -> None:
        """Append to the list on top of the stack."""
        target = self.stack[-1]
        if not isinstance(target, list):
            raise BadPickleError("is not a valid pickle (an item without a list)")
        target.extend(items)

    def push_name(self, path: str) -> None:
        """Push a class or function if it is on the list."""
        if not (path in CALLS or path in STORAGE_TYPES or OPAQUE_NAMES.fullmatch(path)):
            raise UnsafePickleError(path)
        self.stack.append(Name(path))

    def reduce(self) -> None:
        """Replace a call by a description of its result."""
        arguments, function = self.stack.pop(), self.stack.pop()
        if not isinstance(function, Name) or not isinstance(arguments, tuple):
            raise BadPickleError("is not a valid pickle (a call of something that is not a function)")
        self.charge(len(arguments) + sum(len(each) for each in arguments if isinstance(each, list | tuple)))
        call = CALLS.get(function.path)
        self.stack.append(Opaque(function.path) if call is None else call(*arguments))

    def build(self) -> None:
        """Set the state of an object: kept for opaque objects, ignored for dictionaries."""
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, Opaque) and isinstance(state, dict):
            self.charge(len(state))
            target.state.update(state)
        elif not isinstance(target, Opaque | dict):
            raise BadPickleError("is not a valid pickle (a state without an object)")

    def push_storage(self) -> None:
        """Push the storage of ("storage", type, key, location, size); reject views, which only old files have."""
        reference = self.stack.pop()
        if not isinstance(reference, tuple) or len(reference) not in (5, 6) or reference[0] != "storage":
            raise BadPickleError("refers to something other than a PyTorch storage")
        _, kind, key, _, size, *view = reference
        dtype = STORAGE_TYPES.get(kind.path) if isinstance(kind, Name) else None
        if dtype is None or not isinstance(key, str) or type(size) is not int or not 0 <= size < MAX_SIZE:
            raise BadPickleError("has a storage of an unknown type or size")
        if view and view[0] is not None:
            raise BadPickleError("has a view of a storage, which only very old versions of PyTorch write")
        storage = Storage(dtype, key, size)
        self.storages[key] = storage
        self.stack.append(storage)


def check_plain(value: Any) -> Any:
    """Reject huge integers and text that is not valid Unicode; return other plain values."""
    if type(value) is int and value.bit_length() > MAX_BITS:
        raise BadPickleError(f"has an integer of {value.bit_length():,} bits")
    if type(value) is str:
        value.encode()  # a lone surrogate is a UnicodeEncodeError, which is a ValueError
    return value


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
    if not isinstance(kind, Name):
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
PUSHED: Final = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
        *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    )
)
CONSTANTS: Final[dict[str, Callable[[], Any]]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False, "EMPTY_DICT": dict, "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple, "EMPTY_SET": lambda: Opaque("builtins.set"),
}  # fmt: skip
TUPLE_SIZES: Final = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
IGNORED: Final = frozenset(("PROTO", "FRAME"))


def stack_global(reader: PickleReader, _: Any) -> None:
    """Push the name whose module and attribute are on the stack."""
    name, module = reader.stack.pop(), reader.stack.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise BadPickleError("is not a valid pickle (a name that is not text)")
    reader.push_name(f"{module}.{name}")


def new_object(reader: PickleReader, _: Any) -> None:
    """Describe an object that was created by NEWOBJ."""
    arguments, kind = reader.stack.pop(), reader.stack.pop()
    made = reconstruct(kind)
    reader.stack.append({} if made.path == "collections.OrderedDict" and arguments == () else made)


def pop_top(reader: PickleReader, _: Any) -> None:
    """Discard the top of the stack."""
    reader.stack.pop()


def set_item(reader: PickleReader, _: Any) -> None:
    """Add one key and value to a dictionary."""
    value, key = reader.stack.pop(), reader.stack.pop()
    reader.set_items([key, value])


def append_item(reader: PickleReader, _: Any) -> None:
    """Append one item to a list."""
    reader.append_items([reader.stack.pop()])


OPERATIONS: Final[dict[str, Callable[[PickleReader, Any], object]]] = {
    "GLOBAL": lambda reader, argument: reader.push_name(argument.replace(" ", ".", 1)),
    "STACK_GLOBAL": stack_global,
    "REDUCE": lambda reader, _: reader.reduce(),
    "NEWOBJ": new_object,
    "BUILD": lambda reader, _: reader.build(),
    "BINPERSID": lambda reader, _: reader.push_storage(),
    "TUPLE": lambda reader, _: reader.stack.append(tuple(reader.pop_mark())),
    "LIST": lambda reader, _: reader.stack.append(reader.pop_mark()),
    "APPEND": append_item,
    "APPENDS": lambda reader, _: reader.append_items(reader.pop_mark()),
    "SETITEM": set_item,
    "SETITEMS": lambda reader, _: reader.set_items(reader.pop_mark()),
    "ADDITEMS": lambda reader, _: reader.pop_mark(),
    "POP": pop_top,
    "POP_MARK": lambda reader, _: reader.pop_mark(),
}
