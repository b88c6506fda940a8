"""The worker: batches to translators, results back to their requests, and isolated failures."""

from __future__ import annotations

from typing import Any

import pytest
from fake_translator import FakeTranslator

from dragoman.search.types import Search
from dragoman.serve.metrics import ServerMetrics
from dragoman.serve.queue import BatchSettings, QueuedRequest, RequestQueue
from dragoman.serve.worker import MAX_BATCH_SECONDS, Throughput, Worker

PLAIN = BatchSettings("m")


class Scene:
    """A worker with its fake, run in the test's own thread until the queue is empty."""

    def __init__(self, most: int = 64, **options: Any) -> None:
        self.fake, self.throughput, self.metrics = FakeTranslator(), Throughput(), ServerMetrics()
        self.queue = RequestQueue(most)
        self.worker = Worker({"m": self.fake, "n": self.fake}, self.queue, self.metrics, self.throughput, **options)
        self.done: list[QueuedRequest] = []

    def put(self, *sentences: str, settings: BatchSettings = PLAIN) -> QueuedRequest:
        job = QueuedRequest(settings, sentences, self.done.append)
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
    job = scene.put("a", settings=BatchSettings("n", search, alignment=True, attention=True, to="fr"))
    scene.run()
    told = {"search": search, "alignment": True, "attention": True, "reproducible": True, "to": "fr"}
    assert scene.fake.settings == [told]
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
        _ = QueuedRequest(PLAIN, ["a"], lambda _: None).translations


def test_a_batch_is_as_large_as_a_slice_of_time_allows() -> None:
    ticks = iter([0.0, 2.0, 10.0, 10.5])  # the first batch takes 2 s, the second half a second
    scene = Scene(clock=lambda: next(ticks))
    scene.queue.max_characters = scene.throughput.max_characters
    assert scene.throughput.max_characters(PLAIN) is None
    scene.put("x" * 400)
    scene.worker.process(scene.queue.take())  # type: ignore[arg-type]
    assert scene.throughput.max_characters(PLAIN) == int(200 * MAX_BATCH_SECONDS)
    scene.put("y" * 400)
    scene.worker.process(scene.queue.take())  # type: ignore[arg-type]
    assert scene.throughput.max_characters(PLAIN) == int((0.7 * 200 + 0.3 * 800) * MAX_BATCH_SECONDS)
    assert scene.throughput.max_characters(BatchSettings("m", Search(beam=1))) is None  # per beam
    assert scene.throughput.max_characters(BatchSettings("m", alignment=True)) is None


def test_a_pace_that_is_slow_beyond_measure_still_leaves_room_for_a_character() -> None:
    throughput = Throughput()
    throughput.record(PLAIN, 1, 1e9)
    assert throughput.max_characters(PLAIN) == 1
