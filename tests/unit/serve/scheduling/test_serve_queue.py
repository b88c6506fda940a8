"""The queue: every sentence once and in order, batched where possible, with fair scheduling."""

from __future__ import annotations

import threading
from collections import Counter

from fake_translator import fake_model
from hypothesis import given
from hypothesis import strategies as st

from dragoman.search.types import Search
from dragoman.serve.scheduling.queue import BatchSettings, QueueClosedError, QueuedRequest, RequestQueue, SentenceBatch
from raising import raises

MODEL = fake_model()
PLAIN, GREEDY = BatchSettings(MODEL), BatchSettings(MODEL, Search(beam=1))


def job(*sentences: str, settings: BatchSettings = PLAIN, client: str = "") -> QueuedRequest:
    return QueuedRequest([settings] * len(sentences), sentences, lambda _: None, client)


def many(prefix: str, count: int, settings: BatchSettings = PLAIN, client: str = "") -> QueuedRequest:
    return job(*(f"{prefix}{i}" for i in range(count)), settings=settings, client=client)


def filled(queue: RequestQueue, *jobs: QueuedRequest) -> RequestQueue:
    for one in jobs:
        queue.put(one)
    return queue


def taken(queue: RequestQueue) -> list[str]:
    batch = queue.take()
    assert batch is not None
    return batch.sentences


def test_requests_that_wait_together_are_one_batch() -> None:
    queue = filled(RequestQueue(8), job("a"), job("b", "c"), job("d"))
    assert sorted(taken(queue)) == ["a", "b", "c", "d"]
    assert (queue.n_sentences, queue.n_requests) == (0, 0)


def test_a_short_request_is_in_the_next_batch_however_long_the_others_are() -> None:
    queue = filled(RequestQueue(4), many("long", 10_000))
    assert taken(queue) == ["long0", "long1", "long2", "long3"]
    queue.put(job("short"))
    assert "short" in taken(queue)
    assert queue.n_sentences == 10_000 - 4 - 1


def test_a_batch_is_shared_out_evenly() -> None:
    queue = filled(RequestQueue(8), many("a", 100), many("b", 50), many("c", 100))
    assert Counter(sentence[0] for sentence in taken(queue)) == {"a": 3, "b": 3, "c": 2}
    assert Counter(sentence[0] for sentence in taken(queue)) == {"c": 3, "a": 3, "b": 2}  # who got less comes first


def test_a_batch_that_completes_a_request_ends_there_if_others_have_more() -> None:
    queue = filled(RequestQueue(100), many("a", 1000), many("b", 2), many("c", 1000), many("d", 1))
    assert taken(queue) == ["a0", "b0", "c0", "d0", "a1", "b1"]
    assert len(taken(queue)) == 100  # nobody can be completed, so it is full
    queue = filled(RequestQueue(100), many("a", 3), many("b", 2))
    assert len(taken(queue)) == 5  # everybody is completed


def test_more_requests_than_a_batch_holds_take_turns() -> None:
    queue = filled(RequestQueue(2), *(many(name, 3) for name in "abcde"))
    order = [sentence[0] for _ in range(5) for sentence in taken(queue)]
    assert order == list("abcdeabcde")


def test_other_settings_are_other_batches_and_take_turns_as_well() -> None:
    queue = filled(RequestQueue(2), many("a", 4), many("g", 4, GREEDY), many("b", 1))
    assert [taken(queue) for _ in range(5)] == [["a0", "b0"], ["g0", "g1"], ["a1", "a2"], ["g2", "g3"], ["a3"]]


def test_a_batch_holds_no_more_work_than_there_is_time_for_but_one_sentence_always() -> None:
    queue = filled(RequestQueue(100, lambda _: 11), job("12345", "12345", "12345", "x" * 50, "1"))
    assert [len(taken(queue)) for _ in range(3)] == [2, 2, 1]  # two tokens in, two out in each of four hypotheses
    queue = filled(
        RequestQueue(100, lambda settings: 3 if settings == GREEDY else 1000), job("ab", "cd", "ef", settings=GREEDY)
    )
    assert taken(queue) == ["ab", "cd"]


def test_work_counts_what_must_be_written_not_what_was_sent() -> None:
    forced = BatchSettings(MODEL, Search(beam=16, min_length=500))
    queue = filled(RequestQueue(100), many("x", 128, forced))  # before the throughput is known
    assert len(taken(queue)) == 1
    queue = filled(RequestQueue(100, lambda _: 20_000), many("x", 128, forced))
    assert len(taken(queue)) == 3


def test_clients_take_turns_however_many_requests_one_of_them_has() -> None:
    others = [BatchSettings(MODEL, Search(beam=beam)) for beam in range(2, 12)]  # each a batch of its own
    queue = filled(RequestQueue(4), *(many(f"{i}:", 9, one, client="greedy") for i, one in enumerate(others)))
    first = queue.take()
    assert first is not None
    queue.put(job("mine", client="modest"))
    queue.charge(first, 0.25)
    assert taken(queue) == ["mine"]


def test_the_client_that_has_used_less_time_is_next() -> None:
    one, other = BatchSettings(MODEL, Search(beam=5)), BatchSettings(MODEL, Search(beam=6))
    queue = filled(RequestQueue(1), many("a", 9, one, client="a"), many("b", 9, other, client="b"))
    turns = []
    for _ in range(8):
        batch = queue.take()
        assert batch is not None
        turns.append(batch.sentences[0][0])
        queue.charge(batch, 3.0 if turns[-1] == "a" else 1.0)
    assert sorted(turns) == list("aabbbbbb")


def test_clients_share_a_batch_evenly() -> None:
    requests = [many(f"a{i}:", 9, client="a") for i in range(5)]
    queue = filled(RequestQueue(6), *requests, many("b", 9, client="b"))
    assert Counter(sentence[0] for sentence in taken(queue)) == {"a": 3, "b": 3}


def test_an_interrupted_batch_is_queued_again() -> None:
    long, short = many("a", 5), job("b")
    queue = filled(RequestQueue(4), long, short)
    batch = queue.take()
    assert batch is not None and batch.sentences == ["a0", "b"]
    queue.put_back(batch)
    assert sorted(sentence for _ in range(2) for sentence in taken(queue)) == ["a0", "a1", "a2", "a3", "a4", "b"]


def test_sentences_of_a_running_request_are_not_taken_between_its_steps() -> None:
    long, other = many("a", 9), job("b", settings=GREEDY)
    queue = filled(RequestQueue(4), long, other)
    batch = queue.take()
    assert batch is not None
    queue.begin(batch)
    short = queue.take_short()
    assert short is not None and short.sentences == ["b"]
    assert queue.take_short() is None
    queue.end(batch)
    assert queue.take_short() is not None


def test_what_is_much_shorter_than_the_running_batch_is_short_also_on_a_slow_machine() -> None:
    queue = filled(
        RequestQueue(1, lambda _: 1), job("x" * 3000), job("y" * 1000, client="b"), job("z" * 30, client="c")
    )
    batch = queue.take()
    assert batch is not None and len(batch.sentences[0]) == 3000
    assert queue.take_short() is None  # nothing runs, and no sentence fits into a slice
    queue.begin(batch)
    short = queue.take_short()
    assert short is not None and short.sentences == ["z" * 30]
    assert queue.take_short() is None


def test_sentences_with_other_settings_of_one_request_are_other_batches() -> None:
    request = QueuedRequest([PLAIN, PLAIN, GREEDY, PLAIN], ["a", "b", "c", "d"], lambda _: None)
    queue = filled(RequestQueue(8), request)
    assert [taken(queue) for _ in range(3)] == [["a", "b"], ["c"], ["d"]]


def test_what_nobody_wants_any_more_is_not_handed_out() -> None:
    gone, stays = many("gone", 50), many("stays", 2)
    queue = filled(RequestQueue(4), gone, stays)
    queue.take()
    queue.drop(gone)
    queue.drop(gone)  # a second time is nothing
    assert queue.n_sentences == 0
    queue.put(job("next"))
    assert taken(queue) == ["next"]


def test_a_closed_queue_hands_out_what_it_has_and_takes_nothing() -> None:
    queue = filled(RequestQueue(1), job("a", "b"))
    queue.close()
    with raises(QueueClosedError, "shutting_down"):
        queue.put(job("c"))
    assert [taken(queue), taken(queue), queue.take()] == [["a"], ["b"], None]


def test_who_waits_for_work_gets_it_at_once_and_leaves_when_the_queue_closes() -> None:
    queue, found = RequestQueue(5), []
    thread = threading.Thread(target=lambda: found.extend([queue.take(), queue.take()]))
    thread.start()
    queue.put(job("a"))
    queue.close()
    thread.join(10)
    assert isinstance(found[0], SentenceBatch)
    assert found[0].sentences == ["a"]
    assert found[1] is None


@given(
    st.lists(st.tuples(st.integers(1, 12), st.sampled_from([PLAIN, GREEDY])), min_size=1, max_size=8),
    st.integers(1, 7),
    st.integers(1, 40),
)
def test_every_sentence_is_handed_out_once_in_its_order_and_nobody_is_passed_over(
    sizes: list[tuple[int, BatchSettings]], most: int, room: int
) -> None:
    jobs = [many(f"{number}:", size, settings) for number, (size, settings) in enumerate(sizes)]
    queue = filled(RequestQueue(most, lambda _: room), *jobs)
    given_out: dict[QueuedRequest, list[int]] = {one: [] for one in jobs}
    waited = Counter[QueuedRequest]()
    while queue.n_sentences:
        batch = queue.take()
        assert batch is not None
        assert 1 <= len(batch.items) <= most
        assert all(one.settings[0] == batch.settings for one in batch.requests)
        for one, place in batch.items:
            given_out[one].append(place)
        for one in jobs:
            waited[one] = 0 if one in batch.requests or not one.n_waiting else waited[one] + 1
            assert waited[one] < len(jobs)
    assert all(places == list(range(len(one.sentences))) for one, places in given_out.items())
