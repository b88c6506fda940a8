"""Read a pickle without running any code that it names.

A pickle is a program that names classes and functions and calls them. This interpreter knows the opcodes of plain
values and containers. It accepts a short list of names and builds inert descriptions: `StoredTensor` for a tensor,
`dict` for an OrderedDict, `Opaque` for other objects. It rejects all other names. The length of the pickle and
`MAX_STEPS` bound its work.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import IO, Any, Final

from dragoman.conversion.files.pickle_objects import (
    CALLS,
    MAX_SIZE,
    OPAQUE_NAMES,
    STORAGE_TYPES,
    BadPickleError,
    GlobalName,
    Opaque,
    Storage,
    UnsafePickleError,
    check_key,
    reconstruct,
)

MAX_STEPS: Final = 1_000_000  # a checkpoint of 300 tensors with its optimizer takes about 50,000
MAX_BITS: Final = 1024  # of an integer


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
        self.stack.append(GlobalName(path))

    def reduce(self) -> None:
        """Replace a call by a description of its result."""
        arguments, function = self.stack.pop(), self.stack.pop()
        if not isinstance(function, GlobalName) or not isinstance(arguments, tuple):
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
        dtype = STORAGE_TYPES.get(kind.path) if isinstance(kind, GlobalName) else None
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
