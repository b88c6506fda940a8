"""From files of sentence pairs to batches (section 5.1).

prepared = prepare([Corpus(Path("train.en"), Path("train.de"))], recipe, Path("prepared"))
with prepared.loader(recipe.data) as batches:
    for batch in batches: ...
"""

from __future__ import annotations

from dragoman.data.batch import Batch
from dragoman.data.loading import Loader
from dragoman.data.prepared import Prepared
from dragoman.data.preparing import prepare
from dragoman.data.reading import Corpus
from dragoman.data.shards import Part, Sentences, Split

__all__ = ["Batch", "Corpus", "Loader", "Part", "Prepared", "Sentences", "Split", "prepare"]
