"""The languages and license of a trained model, by its data and the model it was fine-tuned from."""

from __future__ import annotations

from dragoman.data.prepared import Prepared
from dragoman.modeldir.info import ModelInfo
from dragoman.modeldir.languages import language_codes
from dragoman.text import vocabulary_sizes


def language_names(prepared: Prepared) -> tuple[list[str], list[str]]:
    """The file names, or keys of JSON lines, that tell the source and target languages of prepared data.

    With one target language, those of the first corpus; with several, all sources and the codes of the targets.
    """
    corpora = prepared.manifest["inputs"]["corpora"]
    if targets := prepared.tokenizers[0].targets:
        names = (c["source_key"] if c["form"] == "jsonl" else c["files"][0]["name"] for c in corpora)
        return list(dict.fromkeys(names)), list(targets)
    first = corpora[0]
    if first["form"] == "plain":
        return [first["files"][0]["name"]], [first["files"][1]["name"]]
    return [first["source_key"] or "source"], [first["target_key"] or "target"]


def trained_model_info(prepared: Prepared, base: ModelInfo | None = None) -> ModelInfo:
    """What `model.json` says of a model that was trained on prepared data, perhaps from a `base` model.

    Where the data do not tell both languages, they are those of the base model.
    """
    sources, targets = map(language_codes, language_names(prepared))
    if several := prepared.tokenizers[0].targets:  # it still translates from the languages of the base model
        sources = tuple(dict.fromkeys((*(base.source_languages if base else ()), *sources)))
        targets = several
    elif base is not None and not (sources and targets):
        sources, targets = base.source_languages, base.target_languages
    return ModelInfo(vocabulary_sizes(*prepared.tokenizers), sources, targets, base.license if base else "")
