"""Many messages and many cancelled waits: none is lost, and neither memory nor descriptors grow.

    python endurance.py [--messages 10000000] [--cancels 1000000]
"""

import argparse
import asyncio
import os
import sys

import suci.aio


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def state():
    return resident(), len(os.listdir("/proc/self/fd"))


async def cancelled_waits(zero, one, count):
    """Cancels a wait for each message, sometimes when the message is there already."""
    for number in range(count):
        task = asyncio.ensure_future(zero.recv())
        await asyncio.sleep(0)
        await one.send(0, number.to_bytes(8, "big"))
        for _ in range(number % 4):
            await asyncio.sleep(0)
        task.cancel()
        try:
            message = await task
        except asyncio.CancelledError:
            message = await zero.recv()
        if int.from_bytes(message.payload, "big") != number:
            sys.exit(f"message {number} was lost")


async def messages(zero, one, count):
    sizes = (8, 64, 1000, 5000)

    async def send():
        for number in range(count):
            await one.send(0, number.to_bytes(8, "big") + bytes(sizes[number % 4] - 8))

    sender = asyncio.ensure_future(send())
    for number in range(count):
        message = await zero.recv()
        if int.from_bytes(message.payload[:8], "big") != number:
            sys.exit(f"message {number} was lost")
    await sender


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--cancels", type=int, default=1_000_000)
    options = parser.parse_args()
    # Small queues are full soon, so that what grows is no queue.
    sizes = {"memory": 16 << 20, "send_queue": 1 << 20}
    async with suci.aio.Node(0, accept="anyone", **sizes) as zero, suci.aio.Node(1, **sizes) as one:
        one.add_peer(0, zero.address)
        for name, work, count in (
            ("messages", messages, options.messages),
            ("cancelled waits", cancelled_waits, options.cancels),
        ):
            # The first tenth fills caches and pools.
            await work(zero, one, count // 10)
            before = state()
            await work(zero, one, count - count // 10)
            after = state()
            grown = (after[0] - before[0]) / 1e6
            print(f"{count} {name}: {grown:+.1f} MB, {after[1] - before[1]:+} descriptors")
            if grown > 20 or after[1] > before[1]:
                sys.exit("memory or descriptors grow")


asyncio.run(main())
