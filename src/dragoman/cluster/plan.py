"""Which files of a job are finished, and where the others, their parts and their records are written.

In the output directory, `.dragoman/` holds the settings of the job, a record for each finished file, and the parts of
files that are not finished. The name of a part has a digest of its rows and of the settings: a part that exists is
complete and fits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dragoman.cluster.rows import RowBlock, RowFormat, row_format
from dragoman.cluster.storage import FOLDER, InputFile, OutputDirectory
from dragoman.errors import OutputError

SETTINGS: Final = f"{FOLDER}/settings.json"
DIGEST_LENGTH: Final = 24


@dataclass(frozen=True)
class FileJob:
    """A file to read, and what its parts and its record depend on."""

    number: int
    file: InputFile
    fields: tuple[str, ...]
    output: OutputDirectory
    settings: str  # digest

    @property
    def format(self) -> RowFormat:
        """How its rows are read and written."""
        return row_format(self.file.name, self.fields)

    @property
    def parts_folder(self) -> str:
        """The folder of its parts."""
        return f"{FOLDER}/parts/{self.file.name}"

    @property
    def record(self) -> str:
        """The name of its record."""
        return f"{FOLDER}/done/{self.file.name}.json"

    def part(self, number: int, block: RowBlock) -> str:
        """The name of the part of a block."""
        digest = hashlib.sha256(self.settings.encode() + b"\0" + block.payload).hexdigest()[:DIGEST_LENGTH]
        return f"{self.parts_folder}/{number:08d}-{digest}"

    def is_finished(self) -> bool:
        """Whether the output is there, complete, and made from this version of the file."""
        found = self.output.read_json(self.record)
        if not isinstance(found, dict) or found.get("version") != self.file.version:
            return False
        return found.get("settings") == self.settings and self.output.size(self.file.name) == found.get("bytes")


@dataclass(frozen=True)
class Plan:
    """The files to work on, and the number of files that were finished before."""

    todo: Sequence[FileJob]
    finished: int

    @property
    def size(self) -> int:
        """The bytes to read."""
        return sum(job.file.size for job in self.todo)


def make_plan(
    files: Sequence[InputFile], output: OutputDirectory, fields: tuple[str, ...], settings: Mapping[str, Any]
) -> Plan:
    """Plan the files of a job; raise if the output directory was started with other settings."""
    digest = confirm_settings(output, settings)
    jobs = [FileJob(number, file, fields, output, digest) for number, file in enumerate(files)]
    todo = [job for job in jobs if not job.is_finished()]
    return Plan(todo, len(jobs) - len(todo))


def confirm_settings(output: OutputDirectory, settings: Mapping[str, Any]) -> str:
    """Record the settings, or compare them with those recorded before; return their digest."""
    own = json.loads(json.dumps(settings))
    found = output.read_json(SETTINGS)
    if found is None:
        output.write_json(SETTINGS, own)
    elif found != own:
        changed = [key for key in dict.fromkeys([*own, *found]) if own.get(key) != found.get(key)]
        raise OutputError(
            f"{output.url} was started with other settings: {', '.join(changed)}; give the same ones to resume, or "
            "another output directory",
            code="run_mismatch",
        )
    return hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()
