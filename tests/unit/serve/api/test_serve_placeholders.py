"""Texts with URLs, e-mail addresses and placeholders: protected as in documents, beside texts without any."""

from __future__ import annotations

from typing import Any

from fake_translator import client_of

from dragoman.serve.limits import Limits
from dragoman.serve.models.served_model import ServedModel
from dragoman.serve.service import Service
from serving import WHOLE_LINES
from word_by_word import Aligned

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


def test_alternatives_and_alignments_are_those_of_the_text_itself() -> None:
    translator = Aligned()
    for client in client_of(aligned_service(translator)):
        for fields in ({"n_best": 2}, {"alignments": True}, {"sampling": {"top_k": 3}}):
            (found,) = client.post("/v1/translate", json={"text": "one {x}", **fields}).json()["translations"]
            assert found["text"] == "{X} ONE"


def test_all_texts_count_toward_the_limit() -> None:
    for client in client_of(aligned_service(Aligned(), max_characters=20)):
        answer = client.post("/v1/translate", json={"text": ["one {x} two", "three four five"]})
        assert answer.status_code == 413 and answer.json()["error"]["code"] == "too_large"
