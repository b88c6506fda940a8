"""`dragoman serve` as a process: it answers, and leaves in good order while requests are in flight."""

from __future__ import annotations

import http.client
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from dragoman.translation.translator import Translator
from tiny_model import write_tiny_model

LETTERS = str.maketrans("0123456789", "abdeghilmn")  # the model knows no digits, and would keep words with them
LINES = [f"the old box {number} stands in hall {number % 7}".translate(LETTERS) for number in range(3000)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("served") / "tiny")


class Running:
    """A server in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process, self.url = process, url

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return str(answer.read().decode())

    def post(self, path: str, **body: Any) -> Any:
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return json.loads(answer.read())

    def value(self, name: str) -> float:
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.get("/metrics"), re.MULTILINE)
        return float(found[1]) if found else 0.0

    def until(self, truth: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not truth():
            assert time.monotonic() < end, "it never came true"
            assert self.process.poll() is None

    def leave(self, sign: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(sign)
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err


@contextmanager
def serving(
    model: Path, *options: str, while_loading: Callable[[subprocess.Popen[str]], None] = lambda _: None
) -> Iterator[Running]:
    command = [sys.executable, "-m", "dragoman", "serve", f"en-de={model}", "--port", "0", "--threads", "1", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    try:
        while_loading(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"dragoman: serving en-de on (http://127\.0\.0\.1:\d+)\n", line)
        assert found, (line, process.stderr.read() if process.stderr and process.poll() is not None else "")
        yield Running(process, found[1])
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_it_answers_as_the_translator_does_whatever_comes_together(model: Path) -> None:
    expected = [translation.text for translation in Translator.load(model, device="cpu").translate(LINES[:200])]
    with serving(model) as server, ThreadPoolExecutor(16) as pool:
        assert server.get("/ready") == '{"status":"ready"}'

        def one(number: int) -> str:
            answer = server.post("/v1/translate", text=LINES[number])
            return str(answer["translations"][0]["text"])

        assert list(pool.map(one, range(200))) == expected
        batches = server.value("dragoman_batch_sentences_count")
        assert server.value("dragoman_batch_sentences_sum") == 200
        assert batches < 200  # some came together
        code, err = server.leave()
    assert code == 0
    assert "the old box" not in err
    assert err.count("POST /v1/translate 200") == 200


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_told_to_leave_answers_what_it_has_accepted(model: Path, sign: int) -> None:
    with serving(model, "--max-batch", "2") as server, ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(server.post, "/v1/translate", text=LINES[:300]) for _ in range(3)]
        server.until(lambda: server.value("dragoman_queue_requests") == 3)
        code, err = server.leave(sign)
        found = [future.result(60)["translations"] for future in asked]
    assert code == 0
    assert [len(translations) for translations in found] == [300] * 3
    assert found[0] == found[1] == found[2]
    assert err.count("POST /v1/translate 200") == 3
    assert "Traceback" not in err
    with pytest.raises(urllib.error.URLError):
        server.get("/health")


def test_a_client_that_goes_away_leaves_no_work_behind(model: Path) -> None:
    with serving(model, "--max-batch", "1") as server:
        host, port = server.url.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        body = json.dumps({"text": LINES * 4})
        connection.request("POST", "/v1/translate", body, {"Content-Type": "application/json"})
        server.until(lambda: server.value("dragoman_queue_sentences") > 0)
        connection.close()
        server.until(lambda: server.value('dragoman_dropped_total{reason="gone"}') == 1)
        assert server.value("dragoman_queue_sentences") == 0
        assert server.value('dragoman_sentences_total{model="en-de"}') < len(LINES) * 4
        assert server.leave()[0] == 0


@pytest.mark.slow
def test_large_bodies_are_refused_before_they_have_come_and_half_heads_hold_no_connection(model: Path) -> None:
    with serving(model, "--max-characters", "1000") as server:
        host, port = server.url.removeprefix("http://").split(":")
        slow = socket.create_connection((host, int(port)), timeout=60)
        slow.sendall(b"GET /health HTTP/1.1\r\nHo")
        with socket.create_connection((host, int(port)), timeout=60) as raw:
            raw.sendall(b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
            raw.sendall(b"Content-Length: 99999999\r\n\r\n{")  # and nothing more
            assert raw.recv(4096).startswith(b"HTTP/1.1 413 ")
        assert server.post("/v1/translate", text="the hall")["model"] == "en-de"
        with slow:
            assert slow.recv(100) == b""  # closed by the server, with no answer
        assert server.leave()[0] == 0


def test_a_second_signal_does_not_wait(model: Path) -> None:
    with serving(model, "--max-batch", "1") as server:
        done = threading.Event()

        def ask() -> None:
            with pytest.raises((urllib.error.URLError, http.client.HTTPException, OSError)):
                server.post("/v1/translate", text=LINES * 6)
            done.set()

        thread = threading.Thread(target=ask)
        thread.start()
        server.until(lambda: server.value("dragoman_queue_sentences") > 0)
        server.process.send_signal(signal.SIGINT)
        server.until(lambda: refused(server))
        server.process.send_signal(signal.SIGINT)
        _, err = server.process.communicate(timeout=60)
        thread.join(60)
        assert done.is_set()
        assert server.process.returncode == 130, err


def refused(server: Running) -> bool:
    try:
        server.get("/health")
    except OSError:
        return True
    return False


def test_files_that_change_under_a_server_change_no_answer(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "served")
    bodies: list[dict[str, Any]] = [
        {"text": LINES[:20]},
        {"text": LINES[:5], "sampling": {"seed": 3}},
        {"text": LINES[:5], "avoid": ["x"], "alignments": True},
    ]
    with serving(model) as server:
        before = [server.post("/v1/translate", **body) for body in bodies]
        for path in sorted(model.iterdir()):
            if path.is_file():
                size = path.stat().st_size
                path.write_bytes(bytes(size))  # as by cp: the same file, another content
                path.write_bytes(b"")  # what was mapped would end the process (SIGBUS)
                assert [server.post("/v1/translate", **body) for body in bodies] == before
        shutil.rmtree(model)
        assert [server.post("/v1/translate", **body) for body in bodies] == before
        server.process.send_signal(signal.SIGHUP)
        assert server.post("/v1/attention", text="the hall")["model"] == "en-de"
        code, err = server.leave()
    assert code == 0
    assert "cannot reload" in err


def test_a_model_that_was_renamed_into_place_is_served_after_sighup(tmp_path: Path) -> None:
    model, other = write_tiny_model(tmp_path / "served"), write_tiny_model(tmp_path / "other", seed=9)
    old, new = ([one.text for one in Translator.load(each).translate(LINES[:60])] for each in (model, other))
    assert old != new
    with serving(model, "--max-batch", "4") as server, ThreadPoolExecutor(4) as pool:

        def found(*_: object) -> list[str]:
            return [str(one["text"]) for one in server.post("/v1/translate", text=LINES[:60])["translations"]]

        assert found() == old
        asked = [pool.submit(found) for _ in range(20)]
        model.rename(tmp_path / "away")
        other.rename(model)
        server.process.send_signal(signal.SIGHUP)
        server.until(lambda: found() == new)
        assert all(future.result(60) in (old, new) for future in asked)  # none is lost, none is of both
        code, err = server.leave()
    assert code == 0
    assert "en-de: reloaded" in err


@pytest.mark.parametrize("options", [(), ("--workers", "1")], ids=["one process", "workers"])
def test_sighup_does_not_end_a_server_that_loads_its_models(model: Path, options: tuple[str, ...]) -> None:
    def hang_up(process: subprocess.Popen[str]) -> None:
        while not has_socket(process.pid):
            assert process.poll() is None
        process.send_signal(signal.SIGHUP)  # the port is bound, which is done before models are loaded

    with serving(model, *options, while_loading=hang_up) as server:
        assert server.post("/v1/translate", text="the old box")["model"] == "en-de"
        code, err = server.leave()
    assert code == 0
    assert options or "en-de: unchanged" in err  # workers load their models after the signal


def has_socket(process: int) -> bool:
    """Whether a process has opened a socket."""
    for file in Path(f"/proc/{process}/fd").iterdir():
        with suppress(OSError):  # it has closed the file
            if str(file.readlink()).startswith("socket:"):
                return True
    return False


def test_a_server_out_of_descriptors_answers_its_clients_and_says_so_once(model: Path) -> None:
    with serving(model) as server:
        host, port = server.url.removeprefix("http://").split(":")
        kept = http.client.HTTPConnection(host, int(port), timeout=60)
        kept.request("GET", "/health")
        kept.getresponse().read()
        used = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (used + 3, used + 3))
        crowd = [socket.create_connection((host, int(port)), timeout=60) for _ in range(20)]
        try:
            for _ in range(20):
                kept.request("POST", "/v1/translate", b'{"text": "the hall"}', {"Content-Type": "application/json"})
                answer = kept.getresponse()
                assert answer.status == 200
                answer.read()
        finally:
            for one in crowd:
                one.close()
        server.until(lambda: server.get("/health") == '{"status":"alive"}')
        code, err = server.leave()
    assert code == 0
    assert err.count("cannot accept connections") <= 1
    assert len(err) < 10_000
