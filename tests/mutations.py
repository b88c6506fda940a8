"""Damage files at random, but as a seed says: bytes, JSON values, opcodes of pickles, headers of safetensors."""

from __future__ import annotations

import json
import pickletools
import struct
from random import Random
from typing import Any

NESTED = "[" * 50_000
ODD_VALUES: list[Any] = [
    None, True, "", "x", "\ud800", "a\0b", "\x1b[2J", "9" * 3000, -1, 0, 1, 3, 2**31, 2**40, 2**63, 10**30, 1.5, -0.0,
    1e308, float("nan"), float("inf"), [], [1], [[]], {}, {"a": 1}, [[[[[[1]]]]]], ["x"] * 1000, "../../x",
    "/etc/passwd",
]  # fmt: skip
OPCODES = b"(.012FIJKLMNPQRSTUVXabcdehijlopqrstu}])" + bytes({*range(0x80, 0x98)} - {0x83, 0x84, 0x92})
NAMES = [
    "collections OrderedDict", "torch._utils _rebuild_tensor_v2", "torch FloatStorage", "torch HalfStorage",
    "torch Size", "argparse Namespace", "numpy dtype", "numpy.core.multiarray scalar", "_codecs encode",
    "builtins eval", "os system", "posix system", "builtins getattr", "torch.storage _load_from_bytes",
    "omegaconf.nodes AnyNode", "torch._utils _rebuild_parameter", "copyreg _reconstructor", "builtins object",
    "typing Any", "x" * 300 + " y",
]  # fmt: skip


def mutate_bytes(content: bytes, draw: Random, head: int = 0) -> bytes:
    """Flip, overwrite, cut, repeat or insert; half of the time near the beginning, if `head` is given."""
    data = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 5, 40))):
        if not data:
            break
        limit = min(len(data), head) if head and draw.random() < 0.5 else len(data)
        position = draw.randrange(limit)
        match draw.randrange(6):
            case 0:
                data[position] ^= 1 << draw.randrange(8)
            case 1:
                data[position] = draw.randrange(256)
            case 2:
                data[position : position + 8] = struct.pack(
                    "<Q", draw.choice((0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1))
                )
            case 3:
                data[position:position] = draw.randbytes(draw.randrange(1, 9))
            case 4:
                end = position + draw.randrange(1, 64)
                data[position:position] = data[position:end] * draw.choice((1, 2, 50))
            case 5 if draw.random() < 0.3:
                del data[position:]
            case _:
                del data[position : position + draw.randrange(1, 9)]
    return bytes(data)


def overwrite(content: bytes, draw: Random, head: int) -> bytes:
    """Exchange some bytes, and leave lengths as they are."""
    data = bytearray(content)
    for _ in range(draw.choice((1, 2, 5, 30))):
        data[draw.randrange(min(len(data), head) if draw.random() < 0.8 else len(data))] = draw.randrange(256)
    return bytes(data)


def mutate_value(value: Any, draw: Random, depth: int = 0) -> Any:
    """The same value with one place changed: another value, a key gone, or a key more."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(list(value))
        changed = dict(value)
        match draw.randrange(8):
            case 0:
                del changed[key]
            case 1:
                changed[draw.choice(("x", "__class__", "a\0", key + "x"))] = draw.choice(ODD_VALUES)
            case _:
                changed[key] = mutate_value(value[key], draw, depth + 1)
        return changed
    if isinstance(value, list) and value and draw.random() < 0.9:
        place = draw.randrange(len(value))
        return [*value[:place], mutate_value(value[place], draw, depth + 1), *value[place + 1 :]]
    return draw.choice(ODD_VALUES)


def mutate_json(content: bytes, draw: Random) -> bytes:
    """JSON with other values, nested deeply, or damaged in its bytes."""
    match draw.randrange(6):
        case 0:
            return mutate_bytes(content, draw)
        case 1:
            text = content.decode()
            place = draw.randrange(len(text))
            return (
                text[:place] + draw.choice((NESTED, '{"a":' * 50_000, "NaN", "1e999", "9" * 5000, "\\ud800"))
            ).encode()
        case 2:
            return json.dumps(draw.choice(ODD_VALUES)).encode()
        case 3:
            nested: Any = 1
            for _ in range(draw.choice((5, 40, 400))):
                nested = [nested] if draw.random() < 0.5 else {"a": nested}
            return json.dumps({**json.loads(content), draw.choice((*json.loads(content), "x")): nested}).encode()
        case _:
            value = json.loads(content)
            for _ in range(draw.choice((1, 1, 2))):
                value = mutate_value(value, draw)
            return json.dumps(value).encode()


def mutate_pickle(content: bytes, draw: Random) -> bytes:
    """A pickle with opcodes left out, repeated, exchanged or made up, and numbers and names changed."""
    try:
        places = [place or 0 for _, _, place in pickletools.genops(content)]
    except Exception:
        return mutate_bytes(content, draw)
    operations = [content[a:b] for a, b in zip(places, [*places[1:], len(content)], strict=True)]
    for _ in range(draw.choice((1, 1, 2, 4, 30))):
        place = draw.randrange(len(operations))
        match draw.randrange(6):
            case 0:
                del operations[place]
            case 1:
                operations.insert(place, operations[draw.randrange(len(operations))])
            case 2:
                operations[place] = some_operation(draw)
            case 3:
                operations.insert(place, some_operation(draw))
            case 4:
                numbers = [i for i, each in enumerate(operations) if each[:1] in b"KMJ"]
                if numbers:
                    operations[draw.choice(numbers)] = some_number(draw)
            case _:
                names = [i for i, each in enumerate(operations) if each[:1] == b"c"]
                if names:
                    operations[draw.choice(names)] = some_name(draw)
        if not operations:
            break
    return b"".join(operations) + b"."


def some_pickle(draw: Random) -> bytes:
    """A pickle of opcodes by chance, most of which find something on the stack."""
    parts = [b"\x80\x02"]
    for _ in range(draw.choice((3, 10, 60))):
        parts.append(draw.choice((some_operation, some_number, some_name))(draw))
    return b"".join(parts) + b"."


def some_operation(draw: Random) -> bytes:
    opcode = bytes([draw.choice(OPCODES)])
    match opcode:
        case b"c":
            return some_name(draw)
        case b"X" | b"T" | b"B" | b"\x8b":
            text = draw.choice((b"model", b"args", b"storage", b"arch", b"\xff\xfe", b"\xed\xa0\x80"))
            size = draw.choice((len(text), len(text), len(text), 2**31 - 1, 2**32 - 1))
            return opcode + struct.pack("<I", size) + text
        case b"\x8d" | b"\x8e":
            return opcode + struct.pack("<Q", draw.choice((1, 2**40, 2**63))) + b"a"
        case b"h" | b"q" | b"K" | b"\x80" | b"\x82" | b"\x8a" | b"\x8c" | b"U":
            return opcode + bytes([draw.randrange(4)])
        case b"I" | b"L" | b"F" | b"S" | b"V" | b"P":
            return opcode + draw.choice((b"1", b"9" * 5000, b"'a'", b"01", b"nan", b"")) + b"\n"
        case b"i":
            return opcode + draw.choice(NAMES).replace(" ", "\n").encode() + b"\n"
    return opcode


def some_number(draw: Random) -> bytes:
    number = draw.choice((0, 1, 2, 7, 255, 2**31, 2**32, 2**62, 2**63, 2**64, -1, -(2**31), draw.randrange(1 << 20)))
    data = number.to_bytes(9, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def some_name(draw: Random) -> bytes:
    return b"c" + draw.choice(NAMES).replace(" ", "\n", 1).encode() + b"\n"


def mutate_safetensors(content: bytes, draw: Random) -> bytes:
    """Another header length, other values in the header, or damaged bytes."""
    size = int.from_bytes(content[:8], "little")
    header, data = content[8 : 8 + size], content[8 + size :]
    match draw.randrange(5):
        case 0:
            return mutate_bytes(content, draw, 8 + size)
        case 1:
            length = draw.choice((0, 1, size - 1, size + 1, len(content), 2**31, 2**63, 2**64 - 1))
            return struct.pack("<Q", length) + content[8:]
        case 2:
            table = json.loads(header)
            name = draw.choice(list(table))
            shape = draw.choice(([], [-1], [0, 2**60], [2**40, 2**40], [1] * 100, [1.5], ["x"], [2**63], None, [[1]]))
            offsets = draw.choice(([0, 0], [0, len(data)], [-4, 0], [2**62, 2**62 + 4], [4, 0], [0.0, 4.0], [0], None))
            changed = {
                "dtype": draw.choice(("F32", "F16", "I64", "C64", "F4", "X", 3)),
                "shape": shape,
                "data_offsets": offsets,
            }
            kept = {key: changed[key] for key in draw.sample(sorted(changed), draw.randrange(1, 4))}
            table[name] = {**table[name], **kept}
            header = json.dumps(table).encode()
        case _:
            header = mutate_json(header, draw)
    return struct.pack("<Q", len(header)) + header + data
