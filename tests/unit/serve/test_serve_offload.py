"""Large steps leave the event loop, and run one at a time."""

from __future__ import annotations

import asyncio
import threading

from dragoman.serve.http.bodies import LARGE_BODY_BYTES, in_thread
from dragoman.serve.http.replies import LARGE_REPLY_BYTES, json_object, offloaded_chunks
from dragoman.serve.scheduling.budget import exceeds_bytes
from dragoman.translation.result import Translation


def test_large_bodies_are_parsed_by_one_thread_beside_the_loop() -> None:
    async def scene() -> None:
        both_wait = threading.Event()

        def parse(_: bytes) -> int:
            assert both_wait.wait(30)
            return threading.get_ident()

        tasks = [asyncio.create_task(in_thread(parse, b"x" * LARGE_BODY_BYTES)) for _ in range(3)]
        await asyncio.sleep(0)  # all three are submitted
        both_wait.set()
        threads = {await task for task in tasks}
        assert len(threads) == 1 and threading.get_ident() not in threads
        assert await in_thread(lambda _: threading.get_ident(), b"short") == threading.get_ident()

    asyncio.run(scene())


def test_a_large_reply_is_built_beside_the_loop() -> None:
    threads: set[int] = set()

    def entries() -> object:
        for number in range(3):
            threads.add(threading.get_ident())
            yield "x" * LARGE_REPLY_BYTES + str(number)

    async def scene() -> list[bytes]:
        return [chunk async for chunk in offloaded_chunks(json_object({"all": entries()}))]

    assert len(asyncio.run(scene())) == 4
    assert threading.get_ident() not in threads


def test_the_size_of_a_reply_is_counted_no_further_than_needed() -> None:
    counted = []

    def translations() -> object:
        for number in range(1_000_000):
            counted.append(number)
            yield Translation("x" * 900)

    assert exceeds_bytes(translations(), 10_000)  # type: ignore[arg-type]
    assert len(counted) == 10  # 1,000 bytes each
    assert not exceeds_bytes([Translation("x" * 900)] * 9, 10_000)
