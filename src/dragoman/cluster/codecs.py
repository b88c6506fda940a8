"""Compress the parts of an output: frames of .gz, .xz and .zst may follow each other in one file."""

from __future__ import annotations

import gzip
import lzma

from dragoman.errors import MissingExtraError


def compress(data: bytes, suffix: str) -> bytes:
    """Bytes in the compression of a suffix, always the same for the same bytes; unchanged for other suffixes."""
    match suffix:
        case ".gz":
            return gzip.compress(data, 6, mtime=0)
        case ".xz":
            return lzma.compress(data)
        case ".zst":
            try:
                import zstandard
            except ImportError:
                raise MissingExtraError("zstandard", "zstd", "writing .zst files") from None
            return zstandard.ZstdCompressor().compress(data)
        case _:
            return data
