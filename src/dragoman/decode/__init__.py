"""From a model to text (section 6.1): searches are functions of `step`, engines run them, a Translator serves people.

The names are imported when they are first used: an engine that needs no PyTorch must not wait for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.decode.beam import beam_search as beam_search
    from dragoman.decode.demands import Demands as Demands
    from dragoman.decode.sampling import sample as sample
    from dragoman.decode.settings import Hypothesis as Hypothesis
    from dragoman.decode.settings import Sampling as Sampling
    from dragoman.decode.settings import Search as Search
    from dragoman.decode.terms import Terms as Terms
    from dragoman.decode.torch_engine import TorchEngine as TorchEngine
    from dragoman.decode.translation import Scored as Scored
    from dragoman.decode.translation import Translation as Translation
    from dragoman.decode.translator import Translator as Translator

_HOME = {
    "Demands": "demands",
    "Hypothesis": "settings",
    "Sampling": "settings",
    "Scored": "translation",
    "Search": "settings",
    "Terms": "terms",
    "TorchEngine": "torch_engine",
    "Translation": "translation",
    "Translator": "translator",
    "beam_search": "beam",
    "sample": "sampling",
}

__all__ = [
    "Demands",
    "Hypothesis",
    "Sampling",
    "Scored",
    "Search",
    "Terms",
    "TorchEngine",
    "Translation",
    "Translator",
    "beam_search",
    "sample",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dragoman.decode' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"dragoman.decode.{_HOME[name]}"), name)
