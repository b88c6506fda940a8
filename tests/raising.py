"""Errors as tests expect them: a type, a stable code, and what of the message a user needs, such as the wrong value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dragoman.errors import DragomanError


@contextmanager
def raises(kind: type[DragomanError], code: str, *mentions: str) -> Iterator[pytest.ExceptionInfo[DragomanError]]:
    """The block raises an error of this type and code, whose message mentions each of these."""
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.code == code, f"{caught.value.code}: {caught.value}"
    for words in mentions:
        assert words in str(caught.value)
