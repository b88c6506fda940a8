"""Models of the Hugging Face Hub, downloaded from a local stand-in for it."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import dragoman
from dragoman.conversion.hub import download_model
from dragoman.errors import ConversionError
from dragoman.translation.translator import Translator
from opus_model import write_opus
from raising import raises

constants = pytest.importorskip("huggingface_hub.constants")
COMMIT = "0" * 39 + "1"


class Hub(BaseHTTPRequestHandler):
    """The two requests that downloading makes: the list of files, and a file."""

    files: Path
    asked: list[str]

    def do_HEAD(self) -> None:
        self.do_GET(body=False)

    def do_GET(self, body: bool = True) -> None:
        self.asked.append(self.path)
        parts = self.path.split("?")[0].strip("/").split("/")
        if parts[:2] == ["api", "models"] and parts[2:4] == ["some", "model"]:
            names = [{"rfilename": path.name} for path in self.files.iterdir()]
            content = json.dumps({"id": "some/model", "sha": COMMIT, "siblings": names}).encode()
            self.answer(200, content, {"Content-Type": "application/json"}, body)
        elif parts[:3] == ["some", "model", "resolve"] and (self.files / parts[-1]).is_file():
            content = (self.files / parts[-1]).read_bytes()
            tag = hashlib.sha256(content).hexdigest()
            self.answer(200, content, {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT}, body)
        else:
            self.answer(404, b"{}", {"X-Error-Code": "RepoNotFound"}, body)

    def answer(self, status: int, content: bytes, headers: dict[str, str], body: bool) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The files of a model on a hub of this machine."""
    folder = write_opus(tmp_path / "hub")
    (folder / "README.md").write_text("not needed")
    Hub.files, Hub.asked = folder, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    yield folder
    server.shutdown()
    server.server_close()


def test_a_model_is_downloaded_and_converted(files: Path, tmp_path: Path) -> None:
    dragoman.import_model("hf:some/model", out=tmp_path / "m")
    dragoman.import_model(files, out=tmp_path / "local")
    assert not any(path.endswith("README.md") for path in Hub.asked)
    text = "the old house"
    found = [Translator.load(tmp_path / name).translate(text).text for name in ("m", "local")]
    assert found[0] == found[1]


def test_names_that_do_not_exist_are_errors(files: Path) -> None:
    with raises(ConversionError, "model_not_found", "some/other"):
        download_model("hf:some/other")
    for wrong in ("hf:model", "hf:", "hf:a/b/c", "hf:../b"):
        with raises(ConversionError, "invalid_name"):
            download_model(wrong)


def test_offline_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with raises(ConversionError, "offline", "some/model"):
        download_model("hf:some/model")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nothing listens there
    with raises(ConversionError, "offline", "some/model"):
        download_model("hf:some/model")
