"""Read the lines of files, pipes and standard input, each as soon as it is available."""

from __future__ import annotations

import os
import select
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from dragoman.cli import note
from dragoman.data.corpora.compression import COMPRESSIONS, check_file, check_text_format, read_blocks
from dragoman.data.corpora.lines import split_lines
from dragoman.errors import DataError, ModelNotFoundError
from dragoman.values import plural

if TYPE_CHECKING:
    from dragoman.text.trees.dependency import TreeAligner

MAX_BATCH_BYTES = 1 << 20  # read from a pipe before its lines are processed, if available
STDIN = Path("standard input")


def parse_path(word: str) -> Path | None:
    """The path of an argument; None (a standard stream) for `-` (a file of that name is `./-`)."""
    return None if word == "-" else Path(word)


def check_model_first(model: str, files: Sequence[str]) -> None:
    """Reject a file in the place of the model: the model was left out, or is after the file."""
    if not os.path.isfile(model):  # noqa: PTH113  # unlike Path.is_file, False for a name that is too long
        return
    from dragoman.modeldir.locate import find_directory, is_model, model_names

    given = next((file for file in files if is_model(find_directory(Path(file)))), None)
    name = given or next((name for name in model_names() if name != model), "MODEL")
    example = shlex.join(["dragoman", "translate", name, model])
    raise ModelNotFoundError(f"{model} is a file, not a model; give the model first: {example}", code="not_a_model")


def check_readable(files: Sequence[Path | None], sentence_advice: str = "") -> None:
    """Reject files that cannot be read, before work on the first starts.

    `sentence_advice` is added if the name of a missing file looks like a sentence.
    """
    if None in files and sys.stdin is None:
        raise DataError("standard input is closed; open it, for example with < FILE", code="stream_closed")
    for path in files:
        if path is None:
            continue
        try:
            if not is_pipe(path):
                check_file(path)
        except DataError as error:
            if error.code == "file_missing" and sentence_advice and looks_like_sentence(path):
                raise DataError(f"{error}; {sentence_advice}", code=error.code) from None
            raise


def existing_files(names: Sequence[str]) -> list[Path]:
    """The paths of files; raise if one cannot be read."""
    paths = [Path(name) for name in names]
    for path in paths:
        check_file(path)
    return paths


def are_documents(files: Sequence[Path | None], format_name: str | None) -> bool:
    """Whether these inputs are translated as documents: a folder, a format other than text, or --format."""
    if format_name is not None:
        return bool(files)
    paths = [path for path in files if not (path is None or is_pipe(path))]
    if not paths:
        return False
    from dragoman.documents.detect import check_text_suffix, detect_file  # standard input does not need it

    documents = False
    for path in paths:
        if is_folder(path):
            documents = True
            continue
        found = detect_file(path)
        if found is None:
            check_text_suffix(path)
        documents = documents or (found is not None and found.name != "text")
    return documents


def is_folder(path: Path | None) -> bool:
    """Whether an input is a directory; standard input and a name that is too long are not."""
    try:
        return path is not None and path.is_dir()
    except OSError:
        return False


def read_trees(files: Sequence[Path]) -> TreeAligner | None:
    """The dependency trees of files, to take in the order of the lines; None without files."""
    if not files:
        return None
    from dragoman.data.corpora.reader import read_trees_file
    from dragoman.text.trees.dependency import TreeAligner

    return TreeAligner(tree for path in files for tree in read_trees_file(path))


def prompt_terminal(files: Sequence[Path | None], text: str) -> None:
    """Print on stderr what to type, if standard input is read and is a terminal."""
    if None in files and sys.stdin is not None and sys.stdin.isatty():
        note(text)


def looks_like_sentence(path: Path) -> bool:
    """Whether a missing file may be a sentence: its name has spaces, or neither a directory nor a suffix."""
    try:
        if path.is_symlink():  # a broken link
            return False
    except OSError:  # too long for a name
        return True
    return " " in str(path) or not (os.sep in str(path) or path.suffix)


def is_pipe(path: Path) -> bool:
    """Whether a path can be read only once, from its start, such as the shell's `<(...)`."""
    try:
        return path.is_fifo() or path.is_char_device()
    except OSError as error:  # such as a sentence, which is too long for a name
        raise DataError(f"there is no file {str(path)[:60]}... ({error.strerror})", code="file_missing") from None


def stream_lines(files: Sequence[Path | None]) -> Iterator[list[str]]:
    """Lines as soon as they are available: one by one from a slow writer, by the megabyte from a file.

    An empty list before a pipe is waited for: what was read can be finished first.
    """
    for path in files:
        if path is None:
            yield from split_lines(STDIN, check_uncompressed(STDIN, read_available(sys.stdin.buffer)))
        elif is_pipe(path):
            with path.open("rb", buffering=0) as pipe:
                yield from split_lines(path, check_uncompressed(path, read_available(pipe)))
        else:
            yield from split_lines(path, read_blocks(path))


def check_uncompressed(path: Path, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The blocks of a pipe; reject compressed data, because only files are decompressed."""
    checked = False
    for block in blocks:
        if block and not checked:
            check_text_format(path, block)
            for magic, suffix in COMPRESSIONS.items():
                if block.startswith(magic):
                    raise DataError(
                        f"{path} is compressed as {suffix}; give the name of the file, or decompress it",
                        code="unsupported_compression",
                    )
            checked = True
        yield block


def has_more(handle: int) -> bool:
    """Whether a pipe or terminal has bytes now; Windows cannot tell, so each read is passed on alone."""
    return sys.platform != "win32" and bool(select.select([handle], [], [], 0)[0])


def read_available(source: IO[bytes]) -> Iterator[bytes]:
    """The bytes that a pipe or terminal has now; an empty block before each wait for more."""
    handle, ended = source.fileno(), False
    while not ended:
        if not select.select([handle], [], [], 0)[0]:
            yield b""
        held = bytearray()
        while not held or (len(held) < MAX_BATCH_BYTES and has_more(handle)):
            try:
                block = os.read(handle, 1 << 16)
            except BlockingIOError:  # another user of the pipe made it non-blocking
                select.select([handle], [], [])
                continue
            held += block
            if not block:
                ended = True
                break
        yield bytes(held)


def stream_pairs(source: Path | None, target: Path | None) -> Iterator[list[tuple[str, str]]]:
    """Pairs of line i of each input, as soon as both are available; the counts must be equal.

    An empty list before an input is waited for, as from `stream_lines`.
    """
    counts = [0, 0]
    both = [stream_lines([source]), stream_lines([target])]
    held: list[list[str]] = [[], []]
    while True:
        for side in (0, 1):
            while not held[side] and (found := next(both[side], None)) is not None:
                if not found:
                    yield []
                held[side] = found
                counts[side] += len(found)
        ready = min(map(len, held))
        if not ready:
            break
        yield list(zip(held[0][:ready], held[1][:ready], strict=True))
        held = [lines[ready:] for lines in held]
    for side in (0, 1):
        counts[side] += sum(map(len, both[side]))  # read to the end, for the message
    if counts[0] != counts[1]:
        raise DataError(
            f"{source or STDIN} has {plural(counts[0], 'line')} but {target or STDIN} has {counts[1]:,}; line i of one "
            "must be the translation of line i of the other",
            code="count_mismatch",
        )
