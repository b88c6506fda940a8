"""Frames over a socket pair, between two ends in the test's own event loop."""

from __future__ import annotations

import asyncio
import socket

from dragoman.serve.workers.channel import BUFFER_BYTES, Channel, Frame


async def pair() -> tuple[Channel, Channel]:
    one, other = socket.socketpair()
    return await Channel.open(one), await Channel.open(other)


def test_frames_arrive_whole_and_in_order_whatever_their_size() -> None:
    sent = [Frame({"type": "a", "text": "Größe 你好"}), Frame({"type": "b", "n": 3}, bytes(3 * BUFFER_BYTES + 7))]
    sent += [Frame({"type": "c"}, b"\x00\xff")]

    async def exchange() -> list[Frame | None]:
        one, other = await pair()
        for frame in sent:
            one.send(frame.fields["type"], frame.body, **{k: v for k, v in frame.fields.items() if k != "type"})
        found = [await other.receive() for _ in sent]
        one.close(), other.close()
        return found

    assert asyncio.run(exchange()) == sent


def test_the_end_of_the_other_process_is_none_even_within_a_frame() -> None:
    async def exchange() -> list[Frame | None]:
        one, other = await pair()
        one.writer.write(b"\x00\x00\x00\x40\x00\x00\x00\x00half a head")
        one.close()
        found = [await other.receive(), await other.receive()]
        other.close()
        other.send("lost")  # to nobody: not an error
        await other.drain()
        return found

    assert asyncio.run(exchange()) == [None, None]
