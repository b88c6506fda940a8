"""`dragoman serve` as a process: it answers, and leaves in good order while requests are in flight."""

from __future__ import annotations

import http.client
import json
import os
import re
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
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.translation.translator import Translator
from tiny_model import write_tiny_model

LINES = [f"the old box {number} stands in hall {number % 7}" for number in range(3000)]


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
def serving(model: Path, *options: str) -> Iterator[Running]:
    command = [sys.executable, "-m", "dragoman", "serve", f"en-de={model}", "--port", "0", "--threads", "1", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    try:
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
    with serving(model, "--max-batch", "4") as server, ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(server.post, "/v1/translate", text=LINES[:800]) for _ in range(3)]
        server.until(lambda: server.value("dragoman_queue_requests") == 3)
        code, err = server.leave(sign)
        found = [future.result(60)["translations"] for future in asked]
    assert code == 0
    assert [len(translations) for translations in found] == [800] * 3
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


def test_a_body_that_is_too_large_is_refused_before_it_has_come(model: Path) -> None:
    with serving(model, "--max-characters", "1000") as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as raw:
            raw.sendall(b"POST /v1/translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
            raw.sendall(b"Content-Length: 99999999\r\n\r\n{")  # and nothing more
            assert raw.recv(4096).startswith(b"HTTP/1.1 413 ")
        assert server.post("/v1/translate", text="the hall")["model"] == "en-de"
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
        server.process.communicate(timeout=60)
        thread.join(60)
        assert done.is_set()
        assert server.process.returncode in (0, 130)


def refused(server: Running) -> bool:
    try:
        server.get("/health")
    except OSError:
        return True
    return False
