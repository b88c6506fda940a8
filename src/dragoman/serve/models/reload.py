"""Reload models that were replaced on disk, without downtime."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dragoman.errors import DragomanError
from dragoman.files import MANIFEST
from dragoman.serve.models.served_model import ServedModel
from dragoman.serve.service import Service


class Reloader:
    """Reload models whose manifests have changed, in a thread; keep the old model if loading fails.

    A model has one directory; an adapter has that of its base too.
    """

    def __init__(
        self,
        service: Service,
        directories: Mapping[str, Sequence[Path]],
        load: Callable[[str], ServedModel],
        note: Callable[[str], None],
    ) -> None:
        self.service, self.directories, self.load, self.note = service, directories, load, note
        self.loaded = {name: manifests(directories[name]) for name in directories if name in service.models}
        self.lock = threading.Lock()

    def start(self) -> None:
        """Reload in a separate thread."""
        threading.Thread(target=self.run, name="reloading", daemon=True).start()

    def run(self) -> None:
        """Load each model that has changed; one call at a time."""
        with self.lock:
            for name, directories in self.directories.items():
                found = manifests(directories)
                if None not in found and found == self.loaded.get(name):
                    self.note(f"{name}: unchanged")
                    continue
                try:
                    model = self.load(name)
                except (DragomanError, OSError, MemoryError, RuntimeError) as error:
                    state = "still serving the model loaded before" if name in self.loaded else "it is not served"
                    self.note(f"{name}: cannot reload: {error}; {state}")
                    continue
                self.loaded[name] = found
                self.service.replace_model(model)
                self.note(f"{name}: reloaded; {model.engine}")


def manifests(directories: Sequence[Path]) -> list[bytes | None]:
    """The content of the manifest of each directory."""
    return [manifest_content(directory) for directory in directories]


def manifest_content(directory: Path) -> bytes | None:
    """The content of the manifest, which changes with any file of the model; None if it cannot be read."""
    try:
        return (directory / MANIFEST).read_bytes()
    except OSError:
        return None
