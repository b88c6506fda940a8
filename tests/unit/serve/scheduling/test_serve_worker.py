"""The worker: batches to translators, results back to their requests, and isolated failures."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from fake_translator import FakeTranslator, fake_model

from dragoman.search.types import Search
from dragoman.serve.errors import RequestError
from dragoman.serve.limits import Limits
from dragoman.serve.metrics import ServerMetrics
from dragoman.serve.scheduling.budget import Meter
from dragoman.serve.scheduling.queue import BatchSettings, QueuedRequest, RequestQueue
from dragoman.serve.scheduling.throughput import MAX_BATCH_SECONDS, Throughput
from dragoman.serve.scheduling.worker import Worker
from dragoman.translation.result import Translation

FAKE = FakeTranslator()
MODEL = fake_model("m", FAKE)
PLAIN = BatchSettings(MODEL)


class Scene:
    """A worker with its fake, run in the test's own thread until the queue is empty."""

    def __init__(self, most: int = 64, **options: Any) -> None:
        self.fake, self.throughput, self.metrics = FAKE, Throughput(), ServerMetrics()
        self.fake.batches.clear()
        self.fake.settings.clear()
        self.queue = RequestQueue(most)
        self.worker = Worker(self.queue, self.metrics, self.throughput, **options)
        self.done: list[QueuedRequest] = []

    def put(self, *sentences: str, settings: BatchSettings = PLAIN) -> QueuedRequest:
        job = QueuedRequest([settings] * len(sentences), sentences, self.done.append)
        self.queue.put(job)
        return job

    def run(self) -> None:
        self.queue.close()
        self.worker.run()


def texts(job: QueuedRequest) -> list[str]:
    return [translation.text for translation in job.translations]


def test_each_request_gets_its_own_sentences_in_order() -> None:
    scene = Scene(most=3)
    jobs = [scene.put("a", "b", "c", "d"), scene.put("x"), scene.put("y", "z")]
    scene.run()
    assert [texts(job) for job in jobs] == [["A", "B", "C", "D"], ["X"], ["Y", "Z"]]
    assert [len(batch) for batch in scene.fake.batches] == [2, 3, 2]
    assert sorted(map(id, scene.done)) == sorted(map(id, jobs))
    assert scene.metrics.value("dragoman_batch_sentences_count") == 3
    assert scene.metrics.value("dragoman_sentences_total", model="m") == 7
    assert scene.metrics.value("dragoman_characters_total", model="m") == 7


def test_the_translator_is_told_what_was_asked() -> None:
    scene = Scene(reproducible=True)
    search = Search(beam=7, n_best=2)
    job = scene.put("a", settings=BatchSettings(fake_model("n", FAKE), search, alignment=True, to="fr"))
    scene.run()
    told = {"search": search, "alignment": True, "reproducible": True, "to": "fr"}
    (settings,) = scene.fake.settings
    assert not settings.pop("stop").is_set()
    assert settings == told
    assert job.translations[0].alternatives[0].text == "A 1"


def test_a_request_that_fails_fails_alone() -> None:
    scene = Scene()
    good, bad, other = scene.put("a"), scene.put("b", "crash", "c"), scene.put("d")
    scene.run()
    assert [texts(good), texts(other)] == [["A"], ["D"]]
    assert isinstance(bad.error, ZeroDivisionError)
    assert len(scene.done) == 3


def test_the_rest_of_a_request_that_failed_is_not_translated() -> None:
    scene = Scene(most=2)
    scene.put("crash", "a", "b", "c", "d")
    scene.run()
    assert scene.fake.batches == [["crash", "a"]]


def test_a_request_that_was_dropped_while_it_was_translated_is_not_called_back() -> None:
    scene = Scene()
    job = scene.put("a")
    batch = scene.queue.take()
    assert batch is not None
    scene.queue.drop(job)
    scene.worker.process(batch)
    assert scene.done == []


def test_a_finished_job_with_a_hole_is_noticed() -> None:
    with pytest.raises(AssertionError, match="1 sentences of a finished request are missing"):
        _ = QueuedRequest([PLAIN], ["a"], lambda _: None).translations


def test_a_batch_is_as_large_as_a_slice_of_time_allows() -> None:
    ticks = iter([0.0, 2.0, 10.0, 10.5])  # the first batch takes 2 s, the second half a second
    scene = Scene(clock=lambda: next(ticks))
    scene.queue.max_work = scene.throughput.max_work
    assert scene.throughput.max_work(PLAIN) is None
    work = 134 + 4 * 134  # source tokens, and as many output tokens in each of four hypotheses
    scene.put("x" * 400)
    scene.worker.process(scene.queue.take())  # type: ignore[arg-type]
    assert scene.throughput.max_work(PLAIN) == int(work / 2 * MAX_BATCH_SECONDS)
    scene.put("y" * 400)
    scene.worker.process(scene.queue.take())  # type: ignore[arg-type]
    assert scene.throughput.max_work(PLAIN) == int((0.7 * work / 2 + 0.3 * work / 0.5) * MAX_BATCH_SECONDS)
    assert scene.throughput.max_work(BatchSettings(MODEL, Search(beam=1))) is None  # per beam
    assert scene.throughput.max_work(BatchSettings(MODEL, alignment=True)) is None


def test_seconds_are_estimated_from_batches_that_fill_their_slice() -> None:
    throughput = Throughput()
    throughput.record(PLAIN, 50, 0.01)
    assert throughput.seconds(PLAIN, 1e9) == 0  # one line at a time says little
    throughput.record(PLAIN, 2000, 0.2)
    throughput.record(PLAIN, 50, 0.2)  # the machine was busy
    assert throughput.seconds(PLAIN, 1e6) == 100


def test_a_kind_that_has_become_slow_is_believed_at_once() -> None:
    throughput = Throughput()
    throughput.record(PLAIN, 1000, 1)
    throughput.record(PLAIN, 100, 1)
    assert throughput.max_work(PLAIN) == int(100 * MAX_BATCH_SECONDS)


def test_a_pace_that_is_slow_beyond_measure_still_leaves_room_for_a_character() -> None:
    throughput = Throughput()
    throughput.record(PLAIN, 1, 1e9)
    assert throughput.max_work(PLAIN) == 1


class Slow(FakeTranslator):
    """Works until it is interrupted if it gets several sentences, as an engine does between two steps."""

    def stream(self, texts: Iterable[str], **settings: Any) -> Iterator[Translation]:
        texts = list(texts)
        if len(texts) > 1:
            self.batches.append(texts)
            while not settings["stop"].is_set():
                pass
            settings["stop"].check()
        return super().stream(texts, **settings)


def test_a_batch_that_takes_too_long_continues_in_smaller_ones() -> None:
    slow = Slow()
    settings = BatchSettings(fake_model("m", slow))
    scene = Scene()
    scene.worker.overrun = 0.01
    scene.queue.max_work = scene.throughput.max_work
    jobs = [scene.put(*"ab", settings=settings), scene.put("c", settings=settings)]
    scene.run()
    assert [texts(job) for job in jobs] == [["A", "B"], ["C"]]
    assert min(map(len, slow.batches)) == 1 and max(map(len, slow.batches)) > 1


def test_a_search_that_nobody_waits_for_is_interrupted() -> None:
    slow = Slow()
    scene = Scene()
    job = scene.put("a", "b", settings=BatchSettings(fake_model("m", slow)))
    batch = scene.queue.take()
    assert batch is not None
    dropping = threading.Thread(target=drop_when, args=(scene, job, lambda: bool(slow.batches)))
    dropping.start()
    scene.worker.process(batch)  # it would not return else
    dropping.join()
    assert (scene.done, scene.queue.n_sentences) == ([], 0)


def drop_when(scene: Scene, job: QueuedRequest, begun: Callable[[], bool]) -> None:
    while not begun():
        pass
    scene.queue.drop(job)


def test_a_request_over_its_budget_fails_alone() -> None:
    scene = Scene()
    greedy = QueuedRequest([PLAIN] * 2, ["a" * 50, "b"], scene.done.append, meter=Meter(Limits(max_reply=140)))
    scene.queue.put(greedy)
    other = scene.put("c")
    scene.run()
    assert isinstance(greedy.error, RequestError)
    assert (greedy.error.status, greedy.error.code) == (413, "over_budget")
    assert texts(other) == ["C"]
    assert len(scene.done) == 2


class Stepping(FakeTranslator):
    """Takes a hundred steps for a sentence that is long, as an engine in Python does."""

    def stream(self, texts: Iterable[str], **settings: Any) -> Iterator[Translation]:
        texts = list(texts)
        for _ in range(100 if max(map(len, texts)) > 10_000 else 1):
            settings["stop"].check()
        return super().stream(texts, **settings)


def test_short_requests_are_translated_between_the_steps_of_a_long_search() -> None:
    stepping, ticks = Stepping(), count()
    model = fake_model("m", stepping)
    scene = Scene(clock=lambda: next(ticks) / 10)
    heavy = scene.put("x" * 20_000, settings=BatchSettings(model))
    batch = scene.queue.take()
    assert batch is not None
    other = scene.put("a", settings=BatchSettings(model, Search(beam=1)))
    long = scene.put("y" * 20_000, settings=BatchSettings(model))
    scene.worker.process(batch)
    assert scene.done == [other, heavy]  # the other long one waits for its turn
    assert scene.queue.n_sentences == 1 and long.n_missing == 1
    assert scene.queue.running == []


class InC(FakeTranslator):
    """Searches a long sentence in one call, as an engine in C does, until a short one was translated meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.met, self.threads = threading.Event(), set[str]()

    def stream(self, texts: Iterable[str], **settings: Any) -> Iterator[Translation]:
        texts = list(texts)
        if max(map(len, texts)) > 10_000:
            self.threads |= {thread.name for thread in threading.enumerate()}
            assert not self.expects_others or self.met.wait(30), "no short request was let pass"
            settings["stop"].check()
        else:
            self.met.set()
        return super().stream(texts, **settings)

    expects_others = True


def test_short_requests_are_translated_while_an_engine_in_c_searches_a_long_sentence() -> None:
    fake = InC()
    model = replace(fake_model("m", fake), is_concurrent=lambda _: True)
    scene = Scene()
    scene.worker.slice_seconds = 0.0
    heavy = scene.put("x" * 20_000, settings=BatchSettings(model))
    batch = scene.queue.take()
    assert batch is not None
    aligned = scene.put("a", settings=BatchSettings(model, alignment=True))  # needs another engine after the search
    other = scene.put("b", settings=BatchSettings(model, Search(beam=1)))
    scene.worker.process(batch)
    assert scene.done == [other, heavy]
    assert scene.queue.running == []
    scene.run()
    assert [texts(job) for job in (heavy, aligned, other)] == [["X" * 20_000], ["A"], ["B"]]


def test_a_long_search_that_fails_ends_the_thread_beside_it() -> None:
    class Failing(InC):
        def stream(self, texts: Iterable[str], **settings: Any) -> Iterator[Translation]:
            list(super().stream(texts, **settings))
            raise ZeroDivisionError

    failing = Failing()
    model = replace(fake_model("m", failing), is_concurrent=lambda _: True)
    scene = Scene()
    scene.worker.slice_seconds = 0.0
    heavy = scene.put("x" * 20_000, settings=BatchSettings(model))
    batch = scene.queue.take()
    assert batch is not None
    scene.put("b", settings=BatchSettings(model))
    before = threading.active_count()
    scene.worker.process(batch)
    assert isinstance(heavy.error, ZeroDivisionError)
    assert threading.active_count() == before


def test_an_engine_that_runs_one_search_at_a_time_is_left_alone() -> None:
    fake = InC()
    fake.expects_others = False
    scene = Scene()
    scene.worker.slice_seconds = 0.0
    heavy = scene.put("x" * 20_000, settings=BatchSettings(fake_model("m", fake)))
    batch = scene.queue.take()
    assert batch is not None
    before = {thread.name for thread in threading.enumerate()}
    scene.worker.process(batch)
    assert scene.done == [heavy]
    assert fake.threads == before
