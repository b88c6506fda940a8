"""Texts with URLs, e-mail addresses and placeholders: protected as in documents, beside texts without any."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from fake_translator import client_of

from dragoman.serve import service as service_module
from dragoman.serve.documents import MAX_PROTECTED
from dragoman.serve.errors import RequestError
from dragoman.serve.limits import MAX_SENTENCES, Limits
from dragoman.serve.models.served_model import ServedModel
from dragoman.serve.service import Caller, Service
from dragoman.serve.texts import find_protected
from dragoman.translation.result import Translation
from serving import WHOLE_LINES
from word_by_word import Aligned, WordByWord

TEXT = "see https://a.org/b_c?d=1 now\n\n  - write to peter@example.org\nhttps://a.org\nthe end"
BACKWARD = "NOW https://a.org/b_c?d=1 SEE\n\n  - peter@example.org TO WRITE\nhttps://a.org\nEND THE"


def aligned_service(translator: Aligned, **limits: Any) -> Service:
    model = ServedModel("en-de", translator, WHOLE_LINES, "a fake", ("en", "de"))
    return Service({"en-de": model}, Limits(**limits))


def test_texts_keep_their_placeholders_and_order() -> None:
    for client in client_of(aligned_service(Aligned())):
        texts = ["one two", TEXT, "", "three four", "hello {name}"]
        found = client.post("/v1/translate", json={"text": texts, "scores": True}).json()["translations"]
        assert [one["text"] for one in found] == ["TWO ONE", BACKWARD, "", "FOUR THREE", "{name} HELLO"]
        assert all({"score", "log_probability", "confidence"} <= set(one) for one in found)
        answer = client.post("/translate", json={"q": [TEXT, "one two"], "source": "en", "target": "de"}).json()
        assert answer["translatedText"] == [BACKWARD, "TWO ONE"]


def test_lost_placeholders_are_tried_again_or_the_sentence_is_flagged() -> None:
    translator = Aligned(lost=["X1", "4831"])
    for client in client_of(aligned_service(translator)):
        (found,) = client.post("/v1/translate", json={"text": "one {x}"}).json()["translations"]
        assert (found["text"], found["flags"]) == ("{x} ONE", [])

    class Loses(Aligned):
        def stream(self, texts: Any, **settings: Any) -> Any:
            return super().stream(texts, **settings | {"terms": ()})

    for client in client_of(aligned_service(Loses(lost=["X1", "4831"]))):
        (found,) = client.post("/v1/translate", json={"text": "one {x}\ntwo three"}).json()["translations"]
        assert found["text"] == "one {x}\nTHREE TWO" and "copied" in found["flags"]


def test_sentences_in_capitals_are_found_in_texts() -> None:
    vocabulary = WordByWord()
    texts = ["one TWO", "ONE TWO SIX FOUR. Five six.", "one\nPLEASE READ", "The EU. The UN.", "a {b}", "WE GO UP TO IT"]
    assert find_protected(texts, vocabulary.split, vocabulary) == [1, 2, 4, 5]


def test_lines_without_words_and_tabs_stay() -> None:
    text = "one two\tthree\n* * *\n\n\tfour five\n---"
    for client in client_of(aligned_service(Aligned())):
        (found,) = client.post("/v1/translate", json={"text": text}).json()["translations"]
        assert found["text"] == "TWO ONE\tTHREE\n* * *\n\n\tFIVE FOUR\n---"


def test_alignments_and_samples_are_those_of_the_text_itself() -> None:
    translator = Aligned()
    for client in client_of(aligned_service(translator)):
        for fields in ({"alignments": True}, {"sampling": {"top_k": 3}}):
            (found,) = client.post("/v1/translate", json={"text": "one {x}", **fields}).json()["translations"]
            assert found["text"] == "{X} ONE"


def test_all_texts_count_toward_the_limit() -> None:
    for client in client_of(aligned_service(Aligned(), max_characters=20)):
        answer = client.post("/v1/translate", json={"text": ["one {x} two", "three four five"]})
        assert answer.status_code == 413 and answer.json()["error"]["code"] == "too_large"


class Listing(Aligned):
    """Has alternatives, of which only some keep what the text has; `best` is the first of them."""

    def __init__(self, best: str = "{} IST X1") -> None:
        super().__init__()
        self.best = best

    def stream(self, texts: Any, **settings: Any) -> Any:
        if settings["search"].n_best == 1:
            yield from super().stream(texts, **settings)
            return
        for text in texts:
            others = tuple(Translation(one.format(text[:3])) for one in ("{} LOST", "X1 {}", "{} X1 X1"))
            yield Translation(self.best.format(text[:3]), alternatives=others)


def test_alternatives_keep_placeholders_or_are_left_out() -> None:
    for best, expected in (("{} IST X1", ["one IST {x}", "{x} one"]), ("{} LOST", ["{x} one"])):
        for client in client_of(aligned_service(Listing(best))):
            body = {"text": ["one {x}"], "n_best": 3}
            (found,) = client.post("/v1/translate", json=body).json()["translations"]
            assert [found["text"], *(one["text"] for one in found.get("alternatives", []))] == expected
    for client in client_of(aligned_service(Listing("{} LOST"))):
        (found,) = client.post("/v1/translate", json={"text": ["one {x} {y}"], "n_best": 3}).json()["translations"]
        assert found["text"] == "{y} {x} ONE"  # none has both, so it was translated again


def test_alternatives_do_not_change_a_text_that_is_read_in_parts() -> None:
    texts = ["***", "one two\tthree", "one {x}\tTWO", "one two"]
    for client in client_of(aligned_service(Listing("{} BEST"))):
        one, several = (
            client.post("/v1/translate", json={"text": texts, "n_best": n_best}).json()["translations"]
            for n_best in (1, 3)
        )
        assert [found["text"] for found in several] == [*(found["text"] for found in one[:3]), "one BEST"]


def test_lines_with_placeholders_are_not_flagged_as_split() -> None:
    for client in client_of(aligned_service(Aligned())):
        (found,) = client.post("/v1/translate", json={"text": "one {x}\ntwo three\n\n{y} four"}).json()["translations"]
        assert (found["text"], found["flags"]) == ("{x} ONE\nTHREE TWO\n\nFOUR {y}", [])


@pytest.mark.parametrize(
    "texts",
    [
        ["{}\n" * (MAX_SENTENCES + 1)],
        ["yes\n" * (MAX_SENTENCES // 2 + 1), "no {}\n" * (MAX_SENTENCES // 2 + 1)],
        ["{} " * (MAX_PROTECTED + 1)],
    ],
    ids=["lines", "lines of both kinds", "placeholders"],
)
def test_placeholders_do_not_evade_limits(texts: list[str]) -> None:
    for client in client_of(aligned_service(Aligned())):
        answer = client.post("/v1/translate", json={"text": texts})
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


def test_work_counts_for_all_texts_together() -> None:
    text = "one two three four five six seven eight nine ten "
    for client in client_of(aligned_service(Aligned(), max_work=450)):
        assert client.post("/v1/translate", json={"text": [text, "{x} two"]}).status_code == 200
        answer = client.post("/v1/translate", json={"text": [text * 3, text * 3 + "{x}"]})
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "over_budget")


def test_a_retry_keeps_avoided_phrases() -> None:
    translator = Aligned(lost=["X1", "4831"])
    for client in client_of(aligned_service(translator)):
        client.post("/v1/translate", json={"text": "one {x}", "avoid": ["vor"]})
        assert translator.calls and all(call["avoid"] for call in translator.calls)


def test_small_requests_do_not_use_the_thread_for_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[object]()

    async def offload(call: Callable[[], Any], *_: object) -> Any:
        calls.append(call)
        return call()

    monkeypatch.setattr(service_module, "offload", offload)
    for client in client_of(aligned_service(Aligned())):
        assert client.post("/v1/translate", json={"text": ["one {x}", "two"]}).status_code == 200
        assert not calls
        assert client.post("/v1/translate", json={"text": "one {x}\n" * 4000}).status_code == 200
        assert calls


def test_a_large_step_ends_at_the_deadline() -> None:
    async def wait() -> float:
        loop = asyncio.get_running_loop()
        begun, service = loop.time(), aligned_service(Aligned())
        caller = Caller(begun + 0.1, asyncio.Event().wait)  # type: ignore[arg-type]
        with pytest.raises(RequestError) as caught:
            await service.run_step(partial(time.sleep, 1.0), caller, large=True)
        assert caught.value.status == 504
        return loop.time() - begun

    assert asyncio.run(wait()) < 0.9
