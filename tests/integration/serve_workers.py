"""`dragoman serve --workers` as processes: one port, two workers, one of them killed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from test_serve_process import LINES, Running, serving

from dragoman.translation.translator import Translator
from tiny_model import write_tiny_model

READY = re.compile(r"worker \d+ \(process \d+\) is ready")


def worker_sums(server: Running, name: str) -> dict[str, float]:
    """The value of a metric of each worker."""
    return {
        worker: float(value)
        for worker, value in re.findall(rf'^{name}{{.*worker="(\d+)"}} (\S+)$', server.get("/metrics"), re.MULTILINE)
    }


def send_file(server: Running, text: str) -> str:
    """Translate a file; the address of the result."""
    form = f'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n{text}\r\n--x--\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    asked = urllib.request.Request(server.url + "/translate_file", form.encode(), headers)
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return str(json.loads(answer.read())["translatedFileUrl"])


def test_workers_answer_on_one_port_and_are_replaced_reloaded_and_ended(tmp_path: Path) -> None:
    model, other = write_tiny_model(tmp_path / "served"), write_tiny_model(tmp_path / "other", seed=5)
    expected, later = (
        [one.text for one in Translator.load(path, device="cpu").translate(LINES[:60])] for path in (model, other)
    )
    with (
        serving(model, "--workers", "2", "--max-batch", "2", "--no-access-log") as server,
        ThreadPoolExecutor(8) as pool,
    ):

        def ask(number: int) -> str:
            return str(server.post("/v1/translate", text=LINES[number])["translations"][0]["text"])

        assert server.get("/ready") == '{"status":"ready"}'
        assert list(pool.map(ask, range(60))) == expected
        counts = worker_sums(server, "dragoman_sentences_total")
        assert set(counts) == {"1", "2"}
        assert sum(counts.values()) == 60
        urls = list(pool.map(lambda number: send_file(server, LINES[number]), range(4)))

        (killed, *_) = children(server.process.pid)
        os.kill(killed, signal.SIGKILL)
        server.until(lambda: sum(worker_sums(server, "dragoman_worker_restarts_total").values()) == 1)
        assert list(pool.map(ask, range(10))) == expected[:10]  # whether or not the new one is ready
        server.until(lambda: server.value("dragoman_workers_ready") == 2)
        assert [server.get(url.removeprefix(server.url)) for url in urls] == expected[:4]  # whoever translated them

        shutil.move(model, tmp_path / "old")
        shutil.move(other, model)
        server.process.send_signal(signal.SIGHUP)
        server.until(lambda: all(ask(number) == later[number] for number in range(4)))

        last = [pool.submit(server.post, "/v1/translate", text=LINES[:300]) for _ in range(4)]
        server.until(lambda: sum(worker_sums(server, "dragoman_queue_requests").values()) == 4)
        processes = children(server.process.pid)
        code, log = server.leave()
        found = [future.result(60)["translations"] for future in last]
    assert code == 0
    assert [len(translations) for translations in found] == [300] * 4
    assert "killed by SIGKILL" in log
    assert len(READY.findall(log)) == 3
    assert "Traceback" not in log
    assert not any(Path(f"/proc/{process}").exists() for process in processes)


def children(process: int) -> list[int]:
    """The child processes of a process, the oldest first."""
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return sorted(map(int, found))
