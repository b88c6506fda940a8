"""What a server serves, and how: the options of the command line, which worker processes get as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dragoman.errors import DragomanError
from dragoman.search.constraints.terms import Terms
from dragoman.serve.limits import Limits
from dragoman.serve.models.loading import add_resources, load_served_model, preferred_batch
from dragoman.serve.models.reload import Reloader
from dragoman.serve.models.served_model import ServedModel
from dragoman.serve.service import DEFAULT_BATCH, Service


@dataclass(frozen=True)
class ServerOptions:
    """The models and adapters of a server, and how they are run."""

    models: Mapping[str, Path]
    adapters: Mapping[str, tuple[Path, Path]] = field(default_factory=dict)  # name -> (base, adapter)
    limits: Limits = field(default_factory=Limits)
    languages: tuple[str, str] | None = None
    engine: str = "auto"
    device: str = "auto"
    precision: str = "auto"
    threads: int | None = None
    reproducible: bool = False
    needs_token: bool = False
    memories: Mapping[str, Sequence[Path]] = field(default_factory=dict)  # by model
    terms: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)  # by model: source -> targets

    def load(self, name: str) -> ServedModel:
        """Load a model, or a base with its adapter, with its memories and terms."""
        options = {"engine": self.engine, "device": self.device, "precision": self.precision, "threads": self.threads}
        if name in self.adapters:
            base, adapter = self.adapters[name]
            model = load_served_model(name, base, self.limits.beam, self.languages, adapter=adapter, **options)
        else:
            model = load_served_model(name, self.models[name], self.limits.beam, self.languages, **options)
        terms = [Terms(self.terms[name])] if name in self.terms else []
        return add_resources(model, self.memories.get(name, ()), terms)

    def create_service(self, note: Callable[[str], None] | None = None) -> Service:
        """Load everything, and create the service; with `note`, leave out adapters that cannot be loaded, and say so.

        An adapter cannot be loaded after its base was replaced.
        """
        served = {name: self.load(name) for name in self.models}
        for name in self.adapters:
            try:
                served[name] = self.load(name)
            except (DragomanError, OSError) as error:
                if note is None:
                    raise
                note(f"{name}: cannot be loaded: {error}; serving the other models")
        batch = max(preferred_batch(one, self.limits.beam) for one in served.values()) or DEFAULT_BATCH
        service = Service(served, self.limits, self.reproducible, batch)
        service.needs_token = self.needs_token
        return service

    def create_reloader(self, service: Service, note: Callable[[str], None]) -> Reloader:
        """Create what reloads models and adapters whose directories were replaced."""
        models = {name: (directory,) for name, directory in self.models.items()}
        directories: dict[str, tuple[Path, ...]] = {**models, **self.adapters}
        return Reloader(service, directories, self.load, note)

    def to_json(self) -> str:
        """The options as JSON."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> ServerOptions:
        """Read what `to_json` wrote."""
        fields: dict[str, Any] = json.loads(text)
        fields["models"] = {name: Path(path) for name, path in fields["models"].items()}
        fields["adapters"] = {name: (Path(base), Path(one)) for name, (base, one) in fields["adapters"].items()}
        fields["limits"] = Limits(**fields["limits"])
        fields["languages"] = None if fields["languages"] is None else tuple(fields["languages"])
        fields["memories"] = {name: [Path(path) for path in paths] for name, paths in fields["memories"].items()}
        fields["terms"] = {
            name: {source: tuple(targets) for source, targets in entries.items()}
            for name, entries in fields["terms"].items()
        }
        return cls(**fields)
