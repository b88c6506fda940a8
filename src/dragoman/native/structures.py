"""Compare ctypes structures with the layout that a C library reports for them."""

from __future__ import annotations

import ctypes
from itertools import count

Structures = tuple[type[ctypes.Structure], ...]


class _Layout(ctypes.Structure):
    """A row of `structure_layouts`: a structure or one of its fields; the last row has no name."""

    _fields_ = (("name", ctypes.c_char_p), ("offset", ctypes.c_size_t), ("size", ctypes.c_size_t))


def layout_mismatch(code: ctypes.CDLL, structures: Structures) -> str | None:
    """The first structure or field that Python and C lay out differently, or None."""
    expected = {structure.__name__: (0, ctypes.sizeof(structure)) for structure in structures}
    for structure in structures:
        for name, *_ in structure._fields_:
            field = getattr(structure, name)
            expected[f"{structure.__name__}.{name}"] = (field.offset, field.size)
    found = _reported_layouts(code) if structures else {}
    for name in [*expected, *found]:
        if expected.get(name) != found.get(name):
            return f"{name} has (offset, size) {found.get(name)} in C, but {expected.get(name)} in Python"
    return None


def _reported_layouts(code: ctypes.CDLL) -> dict[str, tuple[int, int]]:
    try:
        rows = ctypes.pointer(_Layout.in_dll(code, "structure_layouts"))
    except ValueError:  # the library does not report any
        return {}
    found = {}
    for i in count():
        if rows[i].name is None:
            break
        found[rows[i].name.decode()] = (rows[i].offset, rows[i].size)
    return found
