"""The service under load, with a translator that the test controls: batching, fairness, deadlines, disconnects."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest
from fake_translator import FakeTranslator, fake_service

from dragoman.search.types import Search
from dragoman.serve.errors import RequestError
from dragoman.serve.scheduling.budget import exceeds_bytes
from dragoman.serve.scheduling.queue import BatchSettings
from dragoman.serve.service import Caller, Service
from dragoman.translation import alignment
from dragoman.translation.result import Translation
from raising import raises


async def never() -> None:
    await asyncio.Event().wait()


async def reached(truth: Callable[[], bool]) -> None:
    """Let others run until something is so."""
    async with asyncio.timeout(30):
        while not truth():
            await asyncio.sleep(0.001)


def settings_of(service: Service, **options: Any) -> BatchSettings:
    return BatchSettings(service.models[service.default], **options)


def ask(service: Service, *texts: str, seconds: float = 30, gone: Any = None) -> asyncio.Task[list[str]]:
    async def asked() -> list[str]:
        deadline = asyncio.get_running_loop().time() + seconds
        found = await service.translate(texts, settings_of(service), Caller(deadline, gone or never))
        return [answer.text for answer in found]

    return asyncio.create_task(asked())


def play(scene: Callable[[Service, FakeTranslator], Coroutine[Any, Any, None]], **limits: Any) -> Service:
    """A scene with a service whose translator holds its first batch."""
    fake = FakeTranslator()
    service = fake_service(translator=fake, **limits)
    service.worker.clock = lambda: 0.0  # else a batch that the test holds for long would make the next ones small
    service.start()

    async def held() -> None:
        fake.go.clear()
        try:
            await scene(service, fake)
        finally:
            fake.go.set()
            service.close()

    asyncio.run(held())
    service.worker.thread.join(30)
    assert not service.worker.alive
    return service


def test_what_arrives_while_a_batch_is_translated_is_the_next_batch() -> None:
    async def scene(service: Service, fake: FakeTranslator) -> None:
        first = ask(service, "a")
        await reached(fake.holding.is_set)
        assert fake.batches == [["a"]]  # at once, without waiting for company
        others = [ask(service, f"b{i}") for i in range(9)]
        await reached(lambda: service.queue.n_sentences == 9)
        fake.go.set()
        assert await first == ["A"]
        assert await asyncio.gather(*others) == [[f"B{i}"] for i in range(9)]
        assert [len(batch) for batch in fake.batches] == [1, 9]

    play(scene)


def test_a_line_does_not_wait_for_ten_thousand_of_another() -> None:
    async def scene(service: Service, fake: FakeTranslator) -> None:
        long = ask(service, *(f"line {i}" for i in range(10_000)))
        await reached(fake.holding.is_set)
        short = ask(service, "short")
        await reached(lambda: service.queue.n_requests == 2)
        fake.go.set()
        assert await short == ["SHORT"]
        at = next(number for number, batch in enumerate(fake.batches) if "short" in batch)
        assert at == 1
        assert await long == [f"LINE {i}" for i in range(10_000)]
        assert len(fake.batches) > 100

    play(scene, max_batch=32)


def test_a_deadline_is_kept_and_what_still_waits_is_dropped() -> None:
    async def scene(service: Service, fake: FakeTranslator) -> None:
        late = ask(service, *"abcdefgh", seconds=0.01)
        with raises(RequestError, "deadline_exceeded", "60 seconds") as refused:
            await late
        assert refused.value.status == 504
        assert service.queue.n_sentences == 0
        fake.go.set()
        assert await ask(service, "next") == ["NEXT"]
        assert fake.batches in ([["a", "b"], ["next"]], [["next"]])  # the latter where the deadline came first

    assert play(scene, max_batch=2).metrics.value("dragoman_dropped_total", reason="deadline") == 1


def test_a_client_that_goes_away_has_its_waiting_work_dropped() -> None:
    async def scene(service: Service, fake: FakeTranslator) -> None:
        left = asyncio.Event()
        leaver = ask(service, *"abcdefgh", gone=left.wait)
        await reached(fake.holding.is_set)
        stays = ask(service, "stays")
        await reached(lambda: service.queue.n_requests == 2)
        left.set()
        with raises(RequestError, "client_disconnected") as refused:
            await leaver
        assert refused.value.status == 499
        assert service.queue.n_sentences == 1
        fake.go.set()
        assert await stays == ["STAYS"]
        assert fake.batches == [["a", "b"], ["stays"]]

    assert play(scene, max_batch=2).metrics.value("dragoman_dropped_total", reason="gone") == 1


def test_a_task_that_is_cancelled_leaves_nothing_behind() -> None:
    async def scene(service: Service, fake: FakeTranslator) -> None:
        task = ask(service, *"abcd")
        await reached(fake.holding.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert service.queue.n_sentences == 0

    play(scene, max_batch=1)


def test_leaving_finishes_what_was_taken_and_takes_nothing_more() -> None:
    async def scene(service: Service, fake: FakeTranslator) -> None:
        taken = ask(service, *"abcdef")
        await reached(fake.holding.is_set)
        assert service.ready
        service.close()
        assert not service.ready
        with raises(RequestError, "shutting_down") as refused:
            await ask(service, "late")
        assert (refused.value.status, refused.value.retry_after) == (503, 5)
        fake.go.set()
        assert await taken == list("ABCDEF")

    play(scene, max_batch=2)


def test_errors_reach_who_asked_and_nobody_else() -> None:
    async def scene(service: Service, fake: FakeTranslator) -> None:
        first = ask(service, "a")
        await reached(fake.holding.is_set)
        asked = [ask(service, "b"), ask(service, "crash"), ask(service, "huge"), ask(service, "c")]
        await reached(lambda: service.queue.n_requests == 4)
        fake.go.set()
        found = await asyncio.gather(first, *asked, return_exceptions=True)
        assert [found[0], found[1], found[4]] == [["A"], ["B"], ["C"]]
        assert isinstance(found[2], ZeroDivisionError)
        assert isinstance(found[3], MemoryError)

    play(scene)


def test_a_text_without_words_needs_no_translator() -> None:
    async def scene(service: Service, fake: FakeTranslator) -> None:
        assert await ask(service, "", "  \n\n", "\r\n") == ["", "  \n\n", "\r\n"]
        assert fake.batches == []

    play(scene)


def test_a_large_request_is_prepared_beside_the_loop_with_the_same_answer() -> None:
    async def scene(service: Service, fake: FakeTranslator) -> None:
        fake.go.set()
        text = "\n".join(f" word{i} " for i in range(5_000))
        assert await ask(service, text) == [text.upper()]

    play(scene)


@pytest.mark.parametrize(
    ("texts", "status", "code", "mention"),
    [
        (["x" * 11], 413, "too_large", "11 characters; this server accepts 10"),
        ([""] * 11, 413, "too_large", "11 characters"),
        (["fine", "a\ud800"], 422, "invalid_character", "U+D800 at character 1"),
    ],
)
def test_what_is_refused_before_it_is_queued(texts: list[str], status: int, code: str, mention: str) -> None:
    with raises(RequestError, code, mention) as refused:
        fake_service(max_characters=10).check_size(texts)
    assert refused.value.status == status


def test_more_lines_than_there_is_memory_for_are_refused() -> None:
    async def scene(service: Service, fake: FakeTranslator) -> None:
        with raises(RequestError, "too_large", "50,001", "50,000") as refused:
            await ask(service, "a\n" * 50_001)
        assert refused.value.status == 413
        assert await ask(service, "\n" * 200_000) == ["\n" * 200_000]  # empty lines are no work

    play(scene)


class Aligning(FakeTranslator):
    """Translations whose alignments are computed when they are first read, as those of a model."""

    def translation(self, text: str, settings: dict[str, Any]) -> Translation:
        made = super().translation(text, settings)
        for one in (made, *made.alternatives):
            vars(one).update(source_tokens=("▁a",), tokens=("▁a",), alignment_weights=np.ones((1, 1), np.float32))
            del vars(one)["alignment"]
        return made


@pytest.mark.parametrize("text", ["a", "a\nb"], ids=["line", "lines"])
def test_alignments_are_computed_by_the_worker(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, align = list[int](), alignment.align

    def recorded(*given: Any) -> alignment.Links:
        threads.append(threading.get_ident())
        return align(*given)

    monkeypatch.setattr(alignment, "align", recorded)
    service = fake_service(translator=Aligning())
    service.start()

    async def scene() -> None:
        caller = Caller(asyncio.get_running_loop().time() + 30, never)
        settings = settings_of(service, search=Search(beam=2, n_best=2), alignment=True)
        found = await service.translate([text], settings, caller)
        assert not exceeds_bytes(found, 10_000)
        expected = tuple((i, i) for i in range(len(text.split())))
        assert found[0].alignment == found[0].alternatives[0].alignment == expected
        assert (await service.translate_with_attention("a", settings, caller)).alignment == ((0, 0),)

    asyncio.run(scene())
    service.close()
    service.worker.thread.join(30)
    assert {*threads} == {service.worker.thread.ident}  # not by the event loop
