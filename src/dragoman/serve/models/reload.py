"""Reload models that were replaced on disk, without downtime."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from dragoman.errors import DragomanError
from dragoman.files import MANIFEST
from dragoman.serve.models.served_model import ServedModel
from dragoman.serve.service import Service


class Reloader:
    """Reload models whose manifest has changed, in a thread; keep the old model if loading fails."""

    def __init__(
        self,
        service: Service,
        directories: Mapping[str, Path],
        load: Callable[[str, Path], ServedModel],
        note: Callable[[str], None],
    ) -> None:
        self.service, self.directories, self.load, self.note = service, directories, load, note
        self.loaded = {name: manifest_content(directory) for name, directory in directories.items()}
        self.lock = threading.Lock()

    def start(self) -> None:
        """Reload in a separate thread."""
        threading.Thread(target=self.run, name="reloading", daemon=True).start()

    def run(self) -> None:
        """Load each model that has changed; one call at a time."""
        with self.lock:
            for name, directory in self.directories.items():
                manifest = manifest_content(directory)
                if manifest is not None and manifest == self.loaded[name]:
                    self.note(f"{name}: unchanged")
                    continue
                try:
                    model = self.load(name, directory)
                except (DragomanError, OSError, MemoryError, RuntimeError) as error:
                    self.note(f"{name}: cannot reload: {error}; still serving the model loaded before")
                    continue
                self.loaded[name] = manifest
                self.service.replace_model(model)
                self.note(f"{name}: reloaded; {model.engine}")


def manifest_content(directory: Path) -> bytes | None:
    """The content of the manifest, which changes with any file of the model; None if it cannot be read."""
    try:
        return (directory / MANIFEST).read_bytes()
    except OSError:
        return None
