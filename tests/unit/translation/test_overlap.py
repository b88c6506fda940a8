"""Windows are searched in a thread beside the preparation of the next one: same results, in order, bounded."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman import Translator
from dragoman.engines.base import EngineRequest
from dragoman.errors import SearchError
from dragoman.search.types import Search, StopFlag
from dragoman.translation.overlap import Blocks, overlap
from raising import raises
from tiny_model import write_tiny_model


def nothing() -> None:
    pass


def test_results_are_in_order_and_items_are_prepared_two_ahead() -> None:
    prepared: list[int] = []

    def items() -> Iterator[int]:
        for number in range(50):
            prepared.append(number)
            yield number

    ahead = []
    for number, (item, square) in enumerate(overlap(items(), lambda n: n * n, nothing)):
        assert (item, square) == (number, number**2)
        ahead.append(len(prepared) - number)
    assert number == 49
    assert max(ahead) == 2  # the item itself and the next


def test_the_work_of_an_item_runs_while_the_next_is_prepared() -> None:
    working, prepared = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield 0
        yield 1
        assert working.wait(10)
        prepared.set()
        yield 2

    def work(number: int) -> bool:
        if number == 0:
            return True
        working.set()
        return prepared.wait(10)

    assert list(overlap(items(), work, nothing)) == [(0, True), (1, True), (2, True)]


def test_a_single_item_is_worked_on_in_the_callers_thread() -> None:
    def names(*items: int | None) -> set[str]:
        return {name for _, name in overlap(iter(items), lambda _: threading.current_thread().name, nothing)}

    here = threading.current_thread().name
    assert names(1) == names(1, None, 2) == {here}
    assert here not in names(1, 2)


def test_everything_before_a_pause_comes_before_it_ends() -> None:
    results: list[int] = []

    def items() -> Iterator[int | None]:
        yield 1
        yield None
        assert results == [1]
        yield 2
        yield 3
        yield None
        assert results == [1, 2, 3]

    for item, _ in overlap(items(), str, nothing):
        results.append(item)


@pytest.mark.parametrize("good", [0, 1, 2, 5])
def test_an_error_of_the_preparation_follows_the_results_before_it(good: int) -> None:
    def items() -> Iterator[int]:
        yield from range(good)
        raise ValueError("item")

    found = []
    with pytest.raises(ValueError, match="item"):
        for item, _ in overlap(items(), str, nothing):
            found.append(item)
    assert found == list(range(good))


@pytest.mark.parametrize("bad", [0, 1, 4])
def test_an_error_of_the_work_follows_the_results_before_it_and_ends_the_rest(bad: int) -> None:
    done, found = [], []

    def work(number: int) -> None:
        done.append(number)
        if number == bad:
            raise ValueError("work")

    with pytest.raises(ValueError, match="work"):
        for item, _ in overlap(iter(range(20)), work, nothing):
            found.append(item)
    assert found == list(range(bad))
    assert max(done) <= bad + 1


def test_who_stops_early_interrupts_the_work_that_runs() -> None:
    before, threads = (sys.getswitchinterval(), gc.get_threshold()), threading.active_count()
    running, stopped = threading.Event(), threading.Event()

    def work(number: int) -> int:
        if number:
            running.set()
            assert stopped.wait(10)
        return number

    results = overlap(iter(range(9)), work, stopped.set)
    assert next(results) == (0, 0)
    assert running.wait(10)
    assert sys.getswitchinterval() < before[0]
    assert gc.get_threshold() > before[1]
    results.close()  # type: ignore[attr-defined]
    assert threading.active_count() == threads
    assert (sys.getswitchinterval(), gc.get_threshold()) == before


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    place: Path = write_tiny_model(tmp_path_factory.mktemp("overlap") / "model")
    return Translator.load(place, device="cpu", threads=2)


GREEDY = EngineRequest(Search(beam=1))
TEXTS = ["the old box", "", "  we see\n\n- seven boxes. Nine halls!", "the hall " * 9, "the old box"] * 20


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1},
        {"beam": 3, "n_best": 2},
        {"beam": 2, "alignment": True},
        {"beam": 1, "min_length": 4},
        {"beam": 1, "prefix": "der"},
    ],
)
def test_windows_change_nothing(translator: Translator, options: dict[str, Any]) -> None:
    """Windows of 16 texts, against each text alone, and against the thread of the caller."""
    options |= {"max_length": 12}
    found = list(translator.stream(iter(TEXTS), batch=1, **options))
    assert found == [translator.translate(text, **options) for text in TEXTS[:5]] * 20
    assert found == list(translator.stream(iter(TEXTS), batch=1, stop=StopFlag(), **options))
    blocks = Blocks([TEXTS[:3], [], TEXTS[3:40], TEXTS[40:]])
    assert found == list(translator.stream(blocks, batch=1, **options))


def test_errors_of_texts_and_engines_end_a_stream_in_place(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = translator.stream([*TEXTS, 3], batch=1, beam=1, max_length=5)  # type: ignore[list-item]
    assert [next(found).text for _ in TEXTS]
    with raises(SearchError, "wrong_type"):
        next(found)
    assert [*found] == []
    engine = type(translator.engines.for_request(GREEDY))
    calls, search = [0], engine.search

    def failing(*arguments: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] == 3:
            raise MemoryError("the third window")
        return search(*arguments, **named)

    monkeypatch.setattr(engine, "search", failing)
    stream, count = translator.stream(iter(TEXTS), batch=16, beam=1, max_length=5, split="never"), 0
    monkeypatch.setattr("dragoman.translation.text_windows.WINDOW_CHARACTERS", 300)
    with pytest.raises(MemoryError, match="the third window"):
        for _ in stream:
            count += 1
    assert 0 < count < len(TEXTS)


def test_a_stream_that_is_dropped_stops_the_engine(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = type(translator.engines.for_request(GREEDY))
    search, threads = engine.search, threading.active_count()
    running, calls = threading.Event(), [0]

    def until_stopped(*arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] > 1:
            stop = next(one for one in arguments if isinstance(one, StopFlag))
            running.set()
            while True:
                stop.check()  # raises when it is set
        return search(*arguments)

    monkeypatch.setattr(engine, "search", until_stopped)
    stream = translator.stream(iter(TEXTS), batch=1, beam=1, max_length=5)
    monkeypatch.setattr("dragoman.translation.text_windows.WINDOW_CHARACTERS", 10)
    next(stream)
    assert running.wait(10)
    stream.close()  # type: ignore[attr-defined]
    assert threading.active_count() == threads
    assert calls == [2]
