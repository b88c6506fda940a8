"""Translation memories and terms of a server."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fake_translator import client_of

from dragoman.errors import DocumentError, SearchError
from dragoman.search.constraints.terms import Terms
from dragoman.search.types import Sampling, Search
from dragoman.serve.limits import Limits
from dragoman.serve.models.loading import add_resources
from dragoman.serve.models.resources import ModelMemory, files_by_model, with_request_terms
from dragoman.serve.models.served_model import ServedModel
from dragoman.serve.scheduling.queue import BatchSettings
from dragoman.serve.service import Service
from raising import raises
from serving import WHOLE_LINES
from word_by_word import Aligned

TMX = Path(__file__).parents[3] / "fixtures" / "localization" / "omegat.tmx"


def model(translator: Aligned | None = None) -> ServedModel:
    return ServedModel("en-de", translator or Aligned(), WHOLE_LINES, "a fake", ("en", "de"))


client_for = contextmanager(lambda served: client_of(Service({served.name: served}, Limits())))


def test_files_are_for_one_model_or_for_all(tmp_path: Path) -> None:
    assert files_by_model("--memory", ["m.tmx", "b=x.tsv"], ["a", "b"]) == {
        "a": [Path("m.tmx")],
        "b": [Path("m.tmx"), Path("x.tsv")],
    }
    assert files_by_model("--terms", ["t.tsv"], ["a"]) == {"a": [Path("t.tsv")]}
    with raises(SearchError, "unknown_choice", "c"):
        files_by_model("--memory", ["c=x.tsv"], ["a", "b"])
    for option, file in (("--memory", "x.tsv"), ("--terms", "x.tsv")):
        with raises(SearchError, "missing_option", option):
            files_by_model(option, [file], ["a", "b"])
    (tmp_path / "a=b.tsv").write_text("x\ty\n")
    assert files_by_model("--terms", [str(tmp_path / "a=b.tsv")], ["a"]) == {"a": [tmp_path / "a=b.tsv"]}


def test_a_memory_is_indexed_when_the_server_starts() -> None:
    found = add_resources(model(), [TMX], []).memory
    assert found is not None and found.between("en", "de") is found.between("en", "de")
    assert found.between("en", "de")._index is not None
    with raises(DocumentError, "missing_language", "omegat.tmx"):
        ModelMemory([TMX]).load([(None, "de")])


def test_documents_use_the_memory_and_report_matches(tmp_path: Path) -> None:
    (tmp_path / "m.tsv").write_text("one two\teins zwei\nthe old garden is open\tder Garten\n")
    page = b"<p>one two</p><p>the old garden is closed</p>"
    with client_for(add_resources(model(), [tmp_path / "m.tsv"], [])) as client:
        answer = client.post("/v1/documents", params={"format": "html", "report": "review"}, content=page).json()
    assert answer["report"]["from_memory"] == 1
    assert [one["target"] for one in answer["segments"]] == ["eins zwei", "CLOSED IS GARDEN OLD THE"]
    assert "der Garten" in answer["segments"][1]["notes"][-1]["text"]


def test_terms_of_the_server_and_of_the_request_are_required() -> None:
    translator = Aligned()
    served = add_resources(model(translator), [], [Terms({"one": "eins"}), Terms({"two": "zwei"})])
    with client_for(served) as client:
        client.post("/v1/translate", json={"text": "one"})
        assert translator.calls[-1]["terms"] is served.terms
        given = json.dumps({"two": "deux", "three": ["drei", "trois"]})
        answer = client.post("/v1/documents", params={"format": "text", "terms": given}, content=b"one two")
        assert answer.status_code == 200
        required = translator.calls[-1]["terms"].targets
        assert required == {"one": ("eins",), "two": ("deux",), "three": ("drei", "trois")}
        many = json.dumps({str(i): "x" for i in range(1001)})
        for wrong, status, part in (
            ("two", 422, "terms is not JSON"),
            ('{"two": 3}', 422, "terms['two'] must be a string or a list of strings; got int 3"),
            ("[]", 422, "terms must be a JSON object; got list []"),
            (many, 413, "1,001 terms"),
        ):
            answer = client.post("/v1/documents", params={"format": "text", "terms": wrong}, content=b"x")
            assert answer.status_code == status and part in answer.json()["error"]["message"]


def test_requests_that_sample_have_no_terms_of_the_server() -> None:
    served = replace(model(), terms=Terms({"one": "eins"}))
    assert BatchSettings(served).constraint_options["terms"] is served.terms
    assert BatchSettings(served, Search(sampling=Sampling())).constraint_options == {}
    assert with_request_terms(None, {"a": ("b",)}) is None
