"""A worker with a real model, in the test's own process: what it does with each frame."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
from pathlib import Path
from typing import Any

from adapters import write_adapter
from dragoman.errors import SearchError
from dragoman.serve.limits import Limits
from dragoman.serve.options import ServerOptions
from dragoman.serve.workers.channel import Channel, Frame
from dragoman.serve.workers.exchange import request_fields
from dragoman.serve.workers.process import WorkerEnd
from dragoman.translation.translator import Translator
from raising import raises
from tiny_model import write_tiny_model

SCOPE: dict[str, Any] = {
    "method": "POST",
    "scheme": "http",
    "http_version": "1.1",
    "root_path": "",
    "query_string": b"",
    "headers": [(b"content-type", b"application/json"), (b"host", b"localhost:8000")],
    "server": ("127.0.0.1", 8000),
}


async def receive(channel: Channel) -> Frame:
    frame = await asyncio.wait_for(channel.receive(), 60)
    assert frame is not None
    return frame


async def ask(channel: Channel, path: str, body: bytes, **headers: str) -> None:
    extra = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {**SCOPE, "path": path, "raw_path": path.encode(), "headers": [*extra, *SCOPE["headers"]]}
    channel.send("request", body, id=7, **request_fields(scope, 30))


def test_a_worker_loads_translates_stores_files_and_reloads(directory: Path, tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "medical", directory)
    expected = Translator.load(directory, device="cpu").translate("the old box")
    adapted = Translator.load(directory, device="cpu", adapter=adapter).translate("the old box")
    assert adapted.text != expected.text
    options = ServerOptions({"en-de": directory}, {"medical": (directory, adapter)}, Limits(beam=4), device="cpu")

    async def run() -> None:
        own, other = socket.socketpair()
        channel, worker = await Channel.open(own), WorkerEnd(await Channel.open(other))
        running = asyncio.ensure_future(worker.run())
        channel.send("start", options=options.to_json(), workers=2, tokens=["secret"], replacement=False)
        ready = await receive(channel)
        assert ready.fields["type"] == "ready"
        (name, engine, known), (other, *_) = ready.fields["models"]
        assert (name, known, other) == ("en-de", True, "medical")
        assert "1 thread" in engine  # its share of the cores
        assert "/v1/translate" in ready.fields["paths"]

        await ask(channel, "/v1/translate", b'{"text": "the old box"}')
        reply = await receive(channel)
        assert (reply.fields["id"], reply.fields["status"], reply.fields["more"]) == (7, 200, False)
        assert json.loads(reply.body)["translations"][0]["text"] == expected.text
        await ask(channel, "/v1/translate", b'{"text": "the old box", "model": "medical"}')
        assert json.loads((await receive(channel)).body)["translations"][0]["text"] == adapted.text

        form = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nthe old box\r\n--x--\r\n'
        await ask(channel, "/translate_file", form, content_type="multipart/form-data; boundary=x")
        reply = await receive(channel)
        assert json.loads(reply.body)["error"].startswith("this server needs an API token")
        fields = b'--x\r\nContent-Disposition: form-data; name="api_key"\r\n\r\nsecret\r\n'
        await ask(channel, "/translate_file", fields + form, content_type="multipart/form-data; boundary=x")
        store = await receive(channel)
        assert (store.fields["type"], store.body.decode()) == ("store", expected.text)
        channel.send("stored", ref=store.fields["ref"], key="abc")
        reply = await receive(channel)
        url = json.loads(reply.body)["translatedFileUrl"]
        assert url == f"http://localhost:8000/download_file/abc.{store.fields['name']}"

        channel.send("ping")
        assert (await receive(channel)).fields == {"type": "pong", "alive": True}
        channel.send("reload")
        notes = [(await receive(channel)).fields for _ in range(2)]
        assert notes == [{"type": "note", "text": f"{name}: unchanged"} for name in ("en-de", "medical")]
        channel.close()
        await running
        assert worker.service is not None
        worker.service.close()
        worker.service.worker.thread.join(30)

    asyncio.run(run())


def test_a_worker_reports_why_it_cannot_start(tmp_path: Path) -> None:
    options = ServerOptions({"m": tmp_path / "nothing"})

    async def run() -> Frame:
        own, other = socket.socketpair()
        channel, worker = await Channel.open(own), WorkerEnd(await Channel.open(other))
        running = asyncio.ensure_future(worker.run())
        channel.send("start", options=options.to_json(), workers=1, tokens=[], replacement=False)
        frame = await receive(channel)
        channel.close()
        await running
        return frame

    frame = asyncio.run(run())
    assert frame.fields["type"] == "failed"
    assert "nothing" in frame.fields["message"]


def test_an_adapter_whose_base_was_replaced_is_kept_and_a_new_worker_serves_the_rest(tmp_path: Path) -> None:
    base, other = write_tiny_model(tmp_path / "base"), write_tiny_model(tmp_path / "other", seed=9)
    options = ServerOptions({"en-de": base}, {"ad": (base, write_adapter(tmp_path / "ad", base))}, device="cpu")
    notes: list[str] = []
    service = options.create_service()
    adapted, reloader = service.models["ad"], options.create_reloader(service, notes.append)
    shutil.move(base, tmp_path / "old")
    shutil.move(other, base)
    reloader.run()
    assert notes[0].startswith("en-de: reloaded")
    assert notes[1].startswith("ad: cannot reload") and "use it with the model that it was trained on" in notes[1]
    assert "still serving" in notes[1] and service.models["ad"] is adapted

    with raises(SearchError, "adapter_mismatch"):
        options.create_service()  # as the server starts
    notes.clear()
    service = options.create_service(notes.append)  # as a replaced worker does
    assert list(service.models) == ["en-de"] and notes[0].startswith("ad: cannot be loaded")
    options.create_reloader(service, notes.append).run()
    assert notes[1] == "en-de: unchanged" and notes[2].endswith("it is not served")
    shutil.move(base, other)
    shutil.move(tmp_path / "old", base)
    options.create_reloader(service, notes.append).run()
    assert list(service.models) == ["en-de", "ad"] and notes[-1].startswith("ad: reloaded")


def test_options_survive_their_way_to_a_worker() -> None:
    limits = Limits(max_queue=9, timeout=3.5, beam=2, max_batch=5)
    adapters = {"a": (Path("base"), Path("adapter"))}
    options = ServerOptions({"m": Path("m")}, adapters, limits, ("en", "de"), "native", "cpu", "int8", 3, True, True,
                            {"m": [Path("old.tmx")]}, {"a": {"box": ("Kasten", "Kiste")}})  # fmt: skip
    assert ServerOptions.from_json(options.to_json()) == options
    assert ServerOptions.from_json(ServerOptions({"m": Path("m")}).to_json()) == ServerOptions({"m": Path("m")})
