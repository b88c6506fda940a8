"""The API's bodies. What is written here is checked, and told under /docs and /openapi.json."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from dragoman.search.types import MOST_BEAM, MOST_PENALTY, MOST_TOKENS, Sampling, Search
from dragoman.serve.limits import MOST_AVOIDED, MOST_LENGTH, MOST_REQUIRED, MOST_TERMS
from dragoman.translation.segmentation import TextTranslation

MOST_TEXTS: Final = 20_000  # in one request
Alignment = list[tuple[int, int]]


class Body(BaseModel):
    """What a client sends: nothing unknown, and no number as a text."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Drawing(Body):
    """Draw tokens by chance instead of searching."""

    temperature: float = Field(Sampling.temperature, ge=1e-6, le=1e6, description="Over 1 the unlikely gets likelier.")
    top_k: int = Field(Sampling.top_k, ge=0, description="Draw from so many of the likeliest; 0 cuts nothing off.")
    top_p: float = Field(Sampling.top_p, gt=0, le=1, description="Draw from the likeliest that hold this probability.")
    seed: int = Field(Sampling.seed, description="Which draws.")


class Settings(Body):
    """How to look for translations; the defaults are the server's."""

    model: str | None = Field(None, description="One of /v1/models; the first, if none is named.")
    to: str | None = Field(
        None, description="The language to translate into: one of the targets of a model of several."
    )
    beam: int | None = Field(
        None, ge=1, le=MOST_BEAM, description="Hypotheses kept; 1 is greedy search. At most the max_beam of /v1/models."
    )
    length_penalty: float = Field(
        Search.length_penalty, ge=-MOST_PENALTY, le=MOST_PENALTY, allow_inf_nan=False, description="alpha of lp."
    )
    extra_length: int = Field(
        Search.extra_length, ge=0, le=MOST_LENGTH, description="At most so many tokens more than the source has."
    )
    max_length: int | None = Field(None, ge=1, description="At most so many tokens.")
    min_length: int = Field(0, ge=0, le=MOST_LENGTH, description="At least so many tokens.")
    no_repeat: int = Field(0, ge=0, le=MOST_TOKENS, description="Never the same so many tokens in a row twice; 0: may.")


class TranslateRequest(Settings):
    """Texts to translate. A text may have many lines; each keeps its place."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"text": "every Monday"}, {"text": ["every Monday", "at half past seven"]}]}
    )

    text: str | Annotated[list[str], Field(max_length=MOST_TEXTS)] = Field(description="One text, or a list of them.")
    n_best: int = Field(
        1,
        ge=1,
        le=MOST_BEAM,
        validation_alias=AliasChoices("n_best", "nbest"),
        description="So many translations of each text, best first; also called nbest.",
    )
    sampling: Drawing | None = Field(None, description="Draw by chance instead of searching; {} has the defaults.")
    require: Annotated[list[str | list[str]], Field(max_length=MOST_REQUIRED)] = Field(
        default=[], description="Phrases that each translation must contain; a list is a choice of which one will do."
    )
    avoid: Annotated[list[str], Field(max_length=MOST_AVOIDED)] = Field(
        default=[], description="Phrases that no translation may contain."
    )
    terms: Annotated[dict[str, str | list[str]], Field(max_length=MOST_TERMS)] = Field(
        default={}, description="For phrases of the source, what the translation of their sentence must contain."
    )
    scores: bool = Field(False, description="Have scores in the answer.")
    alignments: bool = Field(False, description="Have pairs of aligned words [source, target] in the answer.")


class Alternative(BaseModel):
    """One translation of a text."""

    text: str
    score: float | None = Field(None, description="log P / lp, by which translations are ranked; with `scores`.")
    log_probability: float | None = Field(None, description="log P; with `scores`.")
    alignment: Alignment | None = Field(None, description="[source word, target word], counted from 0; on request.")
    flags: list[str] = Field(description="What to be careful with: truncated, repetitive, split, unmet, empty.")
    unmet: list[str] | None = Field(None, description="What was required of it and is not in it.")


class Translated(Alternative):
    """The best translation of a text, and the next best where they were asked for."""

    alternatives: list[Alternative] | None = None

    @classmethod
    def of(cls, answer: TextTranslation, scores: bool, alignments: bool, several: bool) -> Translated:
        """An answer with what was asked for of it."""
        whole = cls(**told(answer, scores, alignments))
        if several:
            whole.alternatives = [Alternative(**told(other, scores, alignments)) for other in answer.alternatives]
        return whole


class TranslateResponse(BaseModel):
    """The translations, in the order of the texts."""

    model: str
    translations: list[Translated]


class Model(BaseModel):
    """A model that this server has."""

    name: str
    source: str | None = Field(description="The source's language, where the model's card knows it.")
    target: str | None = Field(description="The target's language, where it is known and one.")
    targets: list[str] = Field(description="The languages of a model of several, of which a request names one as `to`.")
    engine: str = Field(description="What translates, as in: native engine, int8, on cpu, 2 threads.")
    attention: bool = Field(description="Whether there are alignments and /v1/attention.")


class Models(BaseModel):
    """The models, the default first."""

    models: list[Model]
    beam: int = Field(description="Where a request names none.")
    max_characters: int
    max_beam: int


class AttentionRequest(Settings):
    """One line of text to look into."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "every Monday"}]})

    text: str


class AttentionWord(BaseModel):
    """A word of one side: its place in the text, and its tokens."""

    text: str
    start: int | None = Field(description="Its first character in the text; null where it is not there to the letter.")
    end: int | None
    tokens: list[int]


class AttentionSide(BaseModel):
    """One side of a translation."""

    text: str
    tokens: list[str]
    words: list[AttentionWord]


class AttentionResponse(BaseModel):
    """What each token looked at while it was written."""

    model: str
    source: AttentionSide
    target: AttentionSide
    weights: list[list[float]] = Field(description="A row for each target token, a column for each source token.")
    alignment: Alignment


class Status(BaseModel):
    """How the server is."""

    status: str


class Refusal(BaseModel):
    """Why something was not done."""

    code: str
    message: str


class ErrorResponse(BaseModel):
    """An answer that is none."""

    error: Refusal


def told(answer: TextTranslation, scores: bool, alignments: bool) -> dict[str, Any]:
    """What an answer says of one translation."""
    entry: dict[str, Any] = {"text": answer.text, "flags": list(answer.flags)}
    if scores:
        entry |= {"score": answer.score, "log_probability": answer.log_probability}
    if answer.unmet:
        entry["unmet"] = list(answer.unmet)
    if alignments and answer.alignment is not None:
        entry["alignment"] = list(answer.alignment)
    return entry
