"""From files of sentence pairs to batches (section 5.1).

prepared = prepare([Corpus(Path("train.en"), Path("train.de"))], recipe, Path("prepared"))
with prepared.loader(recipe.data) as batches:
    for batch in batches: ...
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.data.batch import Batch as Batch
    from dragoman.data.corpus import Corpus as Corpus
    from dragoman.data.loading import Loader as Loader
    from dragoman.data.prepared import Prepared as Prepared
    from dragoman.data.preparing import prepare as prepare
    from dragoman.data.reading import bracketings_of as bracketings_of
    from dragoman.data.reading import trees_of as trees_of
    from dragoman.data.shards import Part as Part
    from dragoman.data.shards import Sentences as Sentences
    from dragoman.data.shards import Split as Split

# Imported when first used: reading lines of text must not cost NumPy.
_HOME = {
    "Batch": "batch",
    "Corpus": "corpus",
    "Loader": "loading",
    "Part": "shards",
    "Prepared": "prepared",
    "Sentences": "shards",
    "Split": "shards",
    "bracketings_of": "reading",
    "prepare": "preparing",
    "trees_of": "reading",
}

__all__ = [
    "Batch",
    "Corpus",
    "Loader",
    "Part",
    "Prepared",
    "Sentences",
    "Split",
    "bracketings_of",
    "prepare",
    "trees_of",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dragoman.data' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"dragoman.data.{_HOME[name]}"), name)
