"""The node of asyncio."""

import asyncio
import gc
import os
import random

import pytest
import suci
from conftest import SOON
from suci import aio

try:
    import uvloop
except ImportError:
    uvloop = None


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request):
    """Runs a coroutine in a new event loop."""
    if request.param == "uvloop" and uvloop is None:
        pytest.skip("uvloop is not installed")

    def run(coroutine):
        loop = uvloop.new_event_loop() if request.param == "uvloop" else asyncio.new_event_loop()
        try:
            return loop.run_until_complete(asyncio.wait_for(coroutine, 2 * SOON))
        finally:
            loop.close()

    return run


class Pair:
    """Node 0, which accepts anyone, and node 1, which knows it."""

    async def __aenter__(self):
        self.nodes = aio.Node(0, accept="anyone"), aio.Node(1)
        self.nodes[1].add_peer(0, self.nodes[0].address)
        return self.nodes

    async def __aexit__(self, *_):
        for node in self.nodes:
            try:
                await node.close(0)
            except suci.NotFlushed:
                pass


async def serve(node):
    while True:
        request = await node.recv()
        await node.reply(request, request.payload)


async def until_the_end(node):
    while True:
        message = await node.recv(SOON)
        if not message.is_request:
            return
        yield message


def test_messages_events_and_calls(run):
    async def main():
        async with Pair() as (zero, one):
            await one.send(0, b"hello", notify=True, token=3)
            items = [await zero.next(), await zero.next(SOON)]
            assert [type(item) for item in items] == [suci.Up, suci.Message]
            assert bytes(items[1]) == b"hello"
            assert (await one.next_event(), await one.next_event()) == (
                suci.Up(0, 0),
                suci.Delivered(0, 0, 0, 3),
            )
            server = asyncio.ensure_future(serve(zero))
            data = bytes(200_000)
            assert bytes(await one.call(0, data, timeout=SOON)) == data
            await one.flush()
            assert one.counters()["messages_sent"] == 2 and one.peers()[0].node == 0
            assert one.peer(0).stats().link == "up"
            server.cancel()
            one.try_send(0, b"a", channel=4)
            assert bytes(await zero.recv(source=1, channel=4)) == b"a"
            assert (zero.try_recv(), zero.try_next()) == (None, None)
            assert "suci.aio.Node 0 at" in repr(zero)

    run(main())


def test_many_calls_at_once(run):
    async def main():
        async with Pair() as (zero, one):
            server = asyncio.ensure_future(serve(zero))
            calls = [one.call(0, str(number).encode()) for number in range(3000)]
            replies = await asyncio.gather(*calls)
            assert [int(bytes(reply)) for reply in replies] == list(range(3000))
            server.cancel()

    run(main())


def test_a_cancelled_wait_loses_no_message(run):
    count = 2000

    async def main():
        async with Pair() as (zero, one):
            got = []
            chance = random.Random(1)

            async def send():
                for number in range(count):
                    await one.send(0, number.to_bytes(4, "big"))
                    if number % 7 == 0:
                        await asyncio.sleep(0)

            async def receive():
                while len(got) < count:
                    task = asyncio.ensure_future(zero.recv())
                    # The message may come before, with, or after the cancellation.
                    for _ in range(chance.randrange(4)):
                        await asyncio.sleep(0)
                    if chance.random() < 0.2:
                        await asyncio.sleep(0.0005)
                    task.cancel()
                    try:
                        got.append(int.from_bytes((await task).payload, "big"))
                    except asyncio.CancelledError:
                        pass

            await asyncio.gather(send(), receive())
            assert got == list(range(count))

    run(main())


def test_cancelled_calls_and_sends(run):
    async def main():
        async with Pair() as (zero, one):
            await one.send(0, b"hello")
            assert bytes(await zero.recv(SOON)) == b"hello"
            for _ in range(200):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(one.call(0, b"nobody answers"), 0.001)
            await one.send(0, b"the end")
            # A request of which nothing was sent when its call was cancelled never comes.
            requests = [request async for request in until_the_end(zero)]
            for request in requests:
                await zero.reply(request, b"too late")
            server = asyncio.ensure_future(serve(zero))
            assert bytes(await one.call(0, b"in time")) == b"in time"
            assert one.counters()["late_replies"] == len(requests) <= 200
            server.cancel()

    run(main())


def test_time_limits(run):
    async def main():
        async with Pair() as (zero, one):
            for wait in (zero.recv, zero.next, zero.next_event):
                with pytest.raises(suci.TimedOut, match="within 0.05 s: await it again"):
                    await wait(0.05)
            with pytest.raises(suci.TimedOut):
                await zero.recv(0)
            with pytest.raises(suci.TimedOut, match="call was not done"):
                await one.call(0, b"x", timeout=0.05)
            for wrong, error in ((-1, ValueError), ("1", TypeError)):
                with pytest.raises(error, match="timeout must be a time"):
                    await zero.recv(wrong)
        full = aio.Node(5, send_queue=100_000)
        full.add_peer(0, "127.0.0.1:1")
        await full.send(0, bytes(90_000))
        with pytest.raises(suci.WouldBlock) as caught:
            await full.send(0, bytes(90_000), timeout=0.05)
        assert caught.value.node == 0
        with pytest.raises(suci.NotFlushed):
            await full.flush(0.05)
        with pytest.raises(suci.NotFlushed):
            await full.close(0)

    run(main())


def test_close_ends_waits(run):
    async def main():
        node = aio.Node(1)
        waits = [asyncio.ensure_future(wait()) for wait in (node.recv, node.next, node.next_event)]
        await asyncio.sleep(0.05)
        await node.close()
        for wait in waits:
            with pytest.raises(suci.Closed):
                await wait
        with pytest.raises(suci.Closed):
            await node.recv()
        await node.close()

    run(main())


def test_a_node_belongs_to_one_loop():
    node = aio.Node(1)

    async def receive():
        with pytest.raises(suci.TimedOut):
            await node.recv(0.01)

    async def elsewhere():
        with pytest.raises(RuntimeError, match="belongs to another event loop: open a node in"):
            await node.recv(0.01)

    asyncio.run(receive())
    asyncio.run(elsewhere())
    node._node.close()


def test_failed_blocks_keep_their_exception(run):
    async def main():
        with pytest.raises(KeyError):
            async with aio.Node(1) as node:
                node.add_peer(0, "127.0.0.1:1")
                await node.send(0, b"never arrives")
                raise KeyError("the program's own")
        assert node.closed

    run(main())


def test_long_messages(run):
    async def main():
        async with aio.Node(0, accept="anyone", memory=16 << 20, max_message=1 << 20) as zero:
            one = aio.Node(1)
            one.add_peer(0, zero.address)
            await one.send(0, bytes(2 << 20))
            up, incoming = await zero.next(), await zero.next()
            assert isinstance(up, suci.Up) and isinstance(incoming, suci.Incoming)
            target = bytearray(2 << 20)
            zero.accept(incoming, target)
            assert len(await zero.recv()) == 2 << 20
            await one.close()

    run(main())


def test_descriptors_and_memory_do_not_grow(run):
    async def main():
        async with Pair() as (zero, one):
            server = asyncio.ensure_future(serve(zero))

            async def work(rounds):
                for _ in range(rounds):
                    await one.call(0, b"x" * 300)
                    task = asyncio.ensure_future(one.recv())
                    await asyncio.sleep(0)
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task

            await work(500)
            gc.collect()
            before = len(gc.get_objects()), len(os.listdir("/proc/self/fd"))
            await work(2000)
            gc.collect()
            after = len(gc.get_objects()), len(os.listdir("/proc/self/fd"))
            assert after[0] - before[0] < 200 and after[1] == before[1]
            assert one._waiting == {} and len(zero._waiting) == 1
            server.cancel()

    run(main())


def test_a_fork_in_a_loop(run):
    async def main():
        async with aio.Node(1) as node:
            with pytest.raises(suci.TimedOut):
                await node.recv(0.01)
            child = os.fork()
            if child == 0:
                try:
                    node._operations.woken()
                except suci.Forked:
                    try:
                        node._operations.recv().poll()
                    except suci.Forked:
                        os._exit(7)
                os._exit(1)
            assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 7

    run(main())
