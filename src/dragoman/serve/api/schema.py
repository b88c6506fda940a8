"""Request and response bodies of the API; /docs and /openapi.json are generated from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Final

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from dragoman.search.types import MAX_BEAM, MAX_PENALTY, MAX_TOKENS, Sampling, Search
from dragoman.serve.limits import MAX_AVOIDED, MAX_LENGTH_TOKENS, MAX_REQUIRED, MAX_TERMS, MAX_TEXTS
from dragoman.text.word_groups import Side
from dragoman.translation.result import FLAGS, Translation

Alignment = list[tuple[int, int]]


class RequestBody(BaseModel):
    """A strict body: no unknown fields, no type conversion."""

    model_config = ConfigDict(extra="forbid", strict=True)


class SamplingSettings(RequestBody):
    """Sample tokens instead of searching."""

    temperature: float = Field(Sampling.temperature, ge=1e-6, le=1e6, description="Above 1 flattens the distribution.")
    top_k: int = Field(Sampling.top_k, ge=0, description="Sample from the k most likely tokens; 0 for all.")
    top_p: float = Field(
        Sampling.top_p, gt=0, le=1, description="Sample from the most likely tokens with this total probability."
    )
    seed: int = Field(Sampling.seed, description="Seed of the random numbers.")


class SearchSettings(RequestBody):
    """Search settings; omitted ones have the server's defaults."""

    model: str | None = Field(None, description="Name of a model in /v1/models; the first by default.")
    to: str | None = Field(None, description="Target language, for a model with several.")
    beam: int | None = Field(
        None, ge=1, le=MAX_BEAM, description="Beam size, up to max_beam in /v1/models; 1 is greedy search."
    )
    length_penalty: float = Field(
        Search.length_penalty,
        ge=-MAX_PENALTY,
        le=MAX_PENALTY,
        allow_inf_nan=False,
        description="Length-penalty exponent (0 ranks by probability alone).",
    )
    extra_length: int = Field(
        Search.extra_length, ge=0, le=MAX_LENGTH_TOKENS, description="Maximum output tokens beyond the source length."
    )
    max_length: int | None = Field(None, ge=1, description="Maximum output tokens.")
    min_length: int = Field(0, ge=0, le=MAX_LENGTH_TOKENS, description="Minimum output tokens.")
    no_repeat: int = Field(0, ge=0, le=MAX_TOKENS, description="Never repeat an n-gram of this size; 0 allows it.")


class TranslateRequest(SearchSettings):
    """Texts to translate. Line breaks and indentation are preserved."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"text": "every Monday"}, {"text": ["every Monday", "at half past seven"]}]}
    )

    text: str | Annotated[list[str], Field(max_length=MAX_TEXTS, fail_fast=True)] = Field(
        description="One text, or a list of texts."
    )
    n_best: int = Field(
        1,
        ge=1,
        le=MAX_BEAM,
        validation_alias=AliasChoices("n_best", "nbest"),
        description="Number of translations per text, best first; nbest is accepted too.",
    )
    sampling: SamplingSettings | None = Field(None, description="Sample instead of searching; {} for the defaults.")
    require: Annotated[list[str | list[str]], Field(max_length=MAX_REQUIRED)] = Field(
        default=[], description="Phrases that each translation must contain; a list is satisfied by any of its phrases."
    )
    avoid: Annotated[list[str], Field(max_length=MAX_AVOIDED)] = Field(
        default=[], description="Phrases that no translation may contain."
    )
    terms: Annotated[dict[str, str | list[str]], Field(max_length=MAX_TERMS)] = Field(
        default={}, description="Terminology: source phrases, each with the phrase or phrases that may translate it."
    )
    scores: bool = Field(False, description="Include scores in the response.")
    alignments: bool = Field(False, description="Include word alignments, pairs [source, target], in the response.")


class Alternative(BaseModel):
    """One translation of a text."""

    text: str
    score: float | None = Field(None, description="Score that ranks translations, log P / lp; with `scores`.")
    confidence: float | None = Field(
        None,
        description="Geometric mean of the tokens' probabilities, at most 0.1 for degenerate text; with `scores`.",
    )
    log_probability: float | None = Field(None, description="log P; with `scores`.")
    alignment: Alignment | None = Field(None, description="[source word, target word], from 0; with `alignments`.")
    flags: list[str] = Field(description=f"Warnings: {', '.join(FLAGS)}.")
    unmet: list[str] | None = Field(None, description="Required phrases that are missing.")


class BestTranslation(Alternative):
    """The best translation of a text, with alternatives if n_best is over 1."""

    alternatives: list[Alternative] | None = None


class TranslateResponse(BaseModel):
    """The translations, in the order of the texts."""

    model: str
    translations: list[BestTranslation]


class ModelEntry(BaseModel):
    """A model of this server."""

    name: str
    source: str | None = Field(description="Source language, if known.")
    target: str | None = Field(description="Target language, if known and there is only one.")
    targets: list[str] = Field(description="Target languages of a model with several; requests choose one with `to`.")
    engine: str = Field(description="Engine, precision, device and threads.")
    attention: bool = Field(description="Whether alignments and /v1/attention are available.")


class ModelList(BaseModel):
    """The models, the default first, and the limits of the server."""

    models: list[ModelEntry]
    detection: bool = Field(description="Whether /detect is available.")
    beam: int = Field(description="Default beam size.")
    max_characters: int
    max_bytes: int = Field(description="Maximum size of a request body, such as a document.")
    max_beam: int
    suffixes: list[str] = Field(description="File name suffixes of documents that can be translated.")


class AttentionRequest(SearchSettings):
    """One line of text."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "every Monday"}]})

    text: str
    translation: str | None = Field(
        None, description="A given translation: no search is needed, unless the text is translated in parts."
    )


class AttentionWord(BaseModel):
    """A word: its offsets in the text, and its tokens."""

    text: str
    start: int | None = Field(description="Offset of its first character; null if it is not in the text verbatim.")
    end: int | None
    tokens: list[int]


class AttentionSide(BaseModel):
    """The source or the target."""

    text: str
    tokens: list[str]
    words: list[AttentionWord]


class AttentionResponse(BaseModel):
    """The attention of each target token to each source token."""

    model: str
    source: AttentionSide
    target: AttentionSide
    weights: list[list[float]] = Field(
        description="One row per target token, one column per source token; of the head that aligns words."
    )
    alignment: Alignment


class Status(BaseModel):
    """The state of the server."""

    status: str


class ErrorDetail(BaseModel):
    """What went wrong."""

    code: str = Field(description="A stable code for programs.")
    message: str = Field(description="An explanation for people.")


class ErrorResponse(BaseModel):
    """The response to a request that failed."""

    error: ErrorDetail


class LibreTranslateError(BaseModel):
    """The response to a LibreTranslate request that failed."""

    error: str


FILE: Final = {"type": "string", "format": "binary"}
STATUSES: Final = {
    400: "The body is not valid JSON, or headers conflict.",
    401: "A valid API token is required.",
    404: "No such model.",
    408: "The body arrived too slowly.",
    413: "The text is too long, or the request is too expensive.",
    421: "The host name in the Host header is not allowed.",
    422: "A field is invalid.",
    429: "Too many open requests; see the Retry-After header.",
    501: "Language detection is not available.",
    503: "The server is shutting down or out of memory, or a worker died.",
    504: "The translation was not ready in time.",
}


def error_responses(model: type[BaseModel], statuses: Iterable[int]) -> dict[int | str, dict[str, Any]]:
    """The errors of a route, for OpenAPI."""
    return {status: {"model": model, "description": STATUSES[status]} for status in statuses}


GET_ERRORS: Final = error_responses(ErrorResponse, (400, 401, 421))
POST_ERRORS: Final = error_responses(ErrorResponse, (status for status in STATUSES if status != 501))
LIBRETRANSLATE_GET_ERRORS: Final = error_responses(LibreTranslateError, (400, 401, 421))
LIBRETRANSLATE_ERRORS: Final = error_responses(LibreTranslateError, STATUSES)


def alternative_fields(translation: Translation, scores: bool, alignments: bool) -> dict[str, Any]:
    """The requested fields of one translation."""
    fields: dict[str, Any] = {"text": translation.text, "flags": list(translation.flags)}
    if scores:
        fields |= {"score": translation.score, "log_probability": translation.log_probability}
        fields["confidence"] = translation.confidence
    if translation.unmet:
        fields["unmet"] = list(translation.unmet)
    if alignments and translation.alignment is not None:
        fields["alignment"] = list(translation.alignment)
    return fields


def translation_fields(translation: Translation, scores: bool, alignments: bool, alternatives: bool) -> dict[str, Any]:
    """The requested fields of a translation, with its alternatives if they are requested."""
    fields = alternative_fields(translation, scores, alignments)
    if alternatives:
        fields["alternatives"] = [alternative_fields(one, scores, alignments) for one in translation.alternatives]
    return fields


def attention_fields(model: str, source: str, translation: Translation) -> dict[str, Any]:
    """The words and tokens of both sides; the weights are sent row by row."""
    return {
        "model": model,
        "source": locate_words(source, translation.source_tokens).model_dump(),
        "target": locate_words(translation.text, translation.tokens).model_dump(),
    }


def attention_rows(translation: Translation) -> Iterator[list[float]]:
    """The weights of each target token in the alignment head, rounded."""
    for row in () if translation.alignment_weights is None else translation.alignment_weights:
        yield [round(float(weight), 4) for weight in row]


def locate_words(text: str, tokens: Sequence[str]) -> AttentionSide:
    """The visible words of a text with their offsets, searched from left to right.

    A word that the tokenizer spells differently from the text has no offsets.
    """
    words, cursor = [], 0
    for word in (word for word in Side.from_tokens(tokens).words if word.visible):
        start = text.find(word.text, cursor) if word.text else -1
        if start >= 0:
            cursor = start + len(word.text)
        words.append(
            AttentionWord(
                text=word.text,
                start=start if start >= 0 else None,
                end=cursor if start >= 0 else None,
                tokens=list(word.tokens),
            )
        )
    return AttentionSide(text=text, tokens=list(tokens), words=words)
