"""Dragoman trains, inspects and runs your own translator, the Transformer of "Attention Is All You Need".

The public names are imported when they are first used, so that `import dragoman` itself costs nothing.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # type checkers understand it; importing `typing` would take time

__version__ = "0.1.0"

if TYPE_CHECKING:
    from typing import Any

    from dragoman import forecast as forecast
    from dragoman.api import average as average
    from dragoman.api import distill as distill
    from dragoman.api import evaluate as evaluate
    from dragoman.api import export_model as export_model
    from dragoman.api import finish as finish
    from dragoman.api import import_model as import_model
    from dragoman.api import merge as merge
    from dragoman.api import plan as plan
    from dragoman.api import prepare as prepare
    from dragoman.api import quantize as quantize
    from dragoman.api import train as train
    from dragoman.api import verify as verify
    from dragoman.config import Recipe as Recipe
    from dragoman.data.corpora.corpus import Corpus as Corpus
    from dragoman.documents.files import translate_document as translate_document
    from dragoman.errors import DragomanError as DragomanError
    from dragoman.models import AttentionMaps as AttentionMaps
    from dragoman.models import Bottleneck as Bottleneck
    from dragoman.models import Convolutional as Convolutional
    from dragoman.models import Recurrent as Recurrent
    from dragoman.models import Transformer as Transformer
    from dragoman.nn import Packed as Packed
    from dragoman.nn import Padded as Padded
    from dragoman.progress import SilentReporter as SilentReporter
    from dragoman.search.constraints.phrases import Constraints as Constraints
    from dragoman.search.constraints.terms import Terms as Terms
    from dragoman.search.types import Sampling as Sampling
    from dragoman.search.types import Search as Search
    from dragoman.translation.result import Translation as Translation
    from dragoman.translation.translator import Translator as Translator

_MODULES = {  # of the public names, as above
    "api": "average distill evaluate export_model finish import_model merge plan prepare quantize train verify",
    "config": "Recipe",
    "data.corpora.corpus": "Corpus",
    "documents.files": "translate_document",
    "errors": "DragomanError",
    "models": "AttentionMaps Bottleneck Convolutional Recurrent Transformer",
    "nn": "Packed Padded",
    "progress": "SilentReporter",
    "search.constraints.phrases": "Constraints",
    "search.constraints.terms": "Terms",
    "search.types": "Sampling Search",
    "translation.result": "Translation",
    "translation.translator": "Translator",
}
_HOME = {name: f"dragoman.{module}" for module, names in _MODULES.items() for name in names.split()}
__all__ = ["__version__", *_HOME]
_PACKAGES = ("forecast",)  # public as a whole, as in `dragoman.forecast.train`
_HOME |= {name: f"dragoman.{name}" for name in _PACKAGES}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dragoman' has no attribute {name!r}; it has {', '.join(sorted(_HOME))}")
    try:
        value = import_module(_HOME[name])
        value = value if name in _PACKAGES else getattr(value, name)
    except ModuleNotFoundError as error:
        from dragoman.errors import missing_extra

        raise missing_extra(error, f"`{name}`") or error from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_PACKAGES, "__doc__", "__name__"])
