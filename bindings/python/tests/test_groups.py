"""Groups, collective operations, members, and what suci.aio has of them."""

import array
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import suci
from conftest import SOON, python, suci_command, wait_until
from suci import aio

SIZE = 3


@contextlib.contextmanager
def cluster(make=suci.Node, **settings):
    nodes = [make(number, **settings) for number in range(SIZE)]
    for node in nodes:
        for other in nodes:
            if other is not node:
                node.add_peer(other.id, other.address)
    yield nodes


@pytest.fixture
def groups():
    with cluster() as nodes:
        yield [node.group(5, range(SIZE)) for node in nodes]
        for node in nodes:
            with contextlib.suppress(suci.NotFlushed):
                node.close(0)


def at_all(groups, work):
    """Runs `work` at all members, each in a thread; returns the results by rank."""
    with ThreadPoolExecutor(len(groups)) as pool:
        return [future.result(SOON) for future in [pool.submit(work, group) for group in groups]]


def test_a_group_knows_its_members(groups):
    assert [group.rank for group in groups] == [0, 1, 2]
    assert groups[1].size == 3 and groups[1].members == [0, 1, 2] and groups[1].number == 5
    assert repr(groups[2]) == "<suci.Group 5: rank 2 of 3>"
    at_all(groups, lambda group: group.barrier(timeout=SOON))


@pytest.mark.parametrize("kind", "bBhHiIlLqQfd")
def test_reductions_of_all_kinds_of_numbers(groups, kind):
    def work(group):
        data = array.array(kind, [group.rank + 1, 7, group.rank])
        found = []
        for op in ("sum", "product", "min", "max"):
            copy = array.array(kind, data)
            group.allreduce(copy, op)
            found.append(list(copy))
        scanned, before = array.array(kind, data), array.array(kind, data)
        group.scan(scanned)
        group.exclusive_scan(before)
        at_root = array.array(kind, data)
        group.reduce(at_root, root=1)
        return found, list(scanned), list(before), list(at_root)

    results = at_all(groups, work)
    # 343 wraps around in one byte.
    product = 87 if kind in "bB" else 343
    combined = [[6, 21, 3], [6, product, 0], [1, 7, 0], [3, 7, 2]]
    assert all(found == combined for found, *_ in results)
    assert [scanned for _, scanned, *_ in results] == [[1, 7, 0], [3, 14, 1], [6, 21, 3]]
    assert [before for *_, before, _ in results] == [[1, 7, 0], [1, 7, 0], [3, 14, 1]]
    assert [at_root for *_, at_root in results] == [[1, 7, 0], [6, 21, 3], [3, 7, 2]]


def test_bits_and_booleans(groups):
    def work(group):
        words = np.array([0b1100, 1 << group.rank], np.uint16)
        several = [words.copy() for _ in range(3)]
        for data, op in zip(several, ("and", "or", "xor")):
            group.allreduce(data, op)
        flags = np.array([group.rank == 1, True])
        group.allreduce(flags, "and")
        return [list(data) for data in several], list(flags)

    for several, flags in at_all(groups, work):
        assert several == [[12, 0], [12, 7], [12, 7]] and flags == [False, True]


def test_data_of_many_shapes_move(groups):
    def work(group):
        table = np.full((2, 3), group.rank, np.float64)
        group.broadcast(table, root=2)
        gathered = group.gather(np.array([group.rank, 9], np.int32), root=1)
        all_of_them = np.asarray(group.allgather(np.float32([group.rank])))
        uneven = group.allgather(bytes([group.rank]) * group.rank, lengths=[0, 1, 2])
        part = np.zeros(2, np.int64)
        group.scatter(np.arange(6) if group.rank == 0 else None, part)
        exact = np.zeros(group.rank, np.int64)
        source = np.arange(3) if group.rank == 0 else None
        group.scatter(source, exact, lengths=[0, 1, 2])
        swapped = group.all_to_all(np.arange(3) + 10 * group.rank)
        sent, received = [group.rank] * 3, [0, 1, 2]
        parts = group.all_to_all(bytes([group.rank]) * (3 * group.rank), sent, received)
        return table, gathered, all_of_them, uneven, part, exact, swapped, parts

    for rank, result in enumerate(at_all(groups, work)):
        table, gathered, all_of_them, uneven, part, exact, swapped, parts = result
        assert (table == 2).all()
        assert gathered.tolist() == ([0, 9, 1, 9, 2, 9] if rank == 1 else [])
        assert all_of_them.dtype == np.float32 and list(all_of_them) == [0, 1, 2]
        assert bytes(uneven) == b"\1\2\2"
        assert list(part) == [2 * rank, 2 * rank + 1]
        assert list(exact) == [[], [0], [1, 2]][rank]
        assert swapped.tolist() == [rank, 10 + rank, 20 + rank]
        assert bytes(parts) == b"\1\2\2"


def test_long_data(groups):
    def work(group):
        data = np.full(300_000, float(group.rank))
        group.allreduce(data)
        return data

    assert all((data == 3).all() for data in at_all(groups, work))


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda g: g.allreduce(b"abc"), BufferError, "writable"),
        (lambda g: g.allreduce(bytearray(3), "avg"), ValueError, "one of"),
        (lambda g: g.allreduce(np.ones(3), "or"), TypeError, "whole numbers"),
        (lambda g: g.allreduce(np.ones(3, complex)), TypeError, "cannot be combined"),
        (lambda g: g.allreduce(np.ones(3, ">f8")), TypeError, "cannot be combined"),
        (lambda g: g.allreduce(np.ones((3, 3)).T[1:]), BufferError, "contiguous"),
        (lambda g: g.broadcast(bytearray(3), root=3), suci.GroupError, "root 3"),
        (lambda g: g.broadcast("text"), TypeError, "str"),
        (lambda g: g.gather(b"a", lengths=[1]), suci.GroupError, "1 lengths for 3"),
        (lambda g: g.gather(b"a", lengths=[2, 2, 2]), suci.GroupError, "make them equal"),
        (lambda g: g.gather(b"a", lengths=[1 << 62] * 3), suci.GroupError, "lengths"),
        (lambda g: g.scatter(None, bytearray(2), 1, [1, 1, 1]), suci.GroupError, "into has 2"),
        (lambda g: g.all_to_all(bytes(4)), suci.GroupError, "evenly"),
        (lambda g: g.all_to_all(bytes(3), [1, 1, 1]), ValueError, "received"),
        (lambda g: g.agree(-1), OverflowError, "value"),
        (lambda g: g.barrier("soon"), TypeError, "timeout"),
    ],
)
def test_bad_arguments_are_named(groups, call, error, text):
    with pytest.raises(error, match=text):
        call(groups[0])
    # Nothing was begun.
    at_all(groups, lambda group: group.barrier(SOON))


def test_groups_that_cannot_be():
    with suci.Node(0) as node:
        for members, error, text in (
            ([1, 2], suci.GroupError, "is not in the list"),
            ([0, 0], suci.GroupError, "twice"),
            ([0, 9], suci.UnknownPeer, "9"),
            (["a"], TypeError, "a member"),
            (5, TypeError, "iterable"),
        ):
            with pytest.raises(error, match=text):
                node.group(1, members)
        with pytest.raises(suci.GroupError, match="number below"):
            node.group(1 << 31, [0])
        data = bytearray(b"abc")
        node.group(1, [0]).broadcast(data)
        assert data == b"abc"


def test_members_that_differ_are_told(groups):
    def work(group):
        with pytest.raises(suci.GroupError) as caught:
            group.allreduce(np.ones(3 + group.rank))
        return caught.value

    for error in at_all(groups, work):
        assert error.node in (0, 1, 2) and "node" in str(error)


def test_memory_is_held_while_an_operation_goes_on(groups):
    data = bytearray(1000)
    with pytest.raises(suci.TimedOut):
        groups[0].broadcast(data, 1, timeout=0.05)
    with pytest.raises(suci.GroupError):
        groups[0].barrier(SOON)
    data.extend(b"the timeout gave it back")


DIES = """
import os, signal, sys
import numpy as np, suci

with suci.Node.from_env() as node:
    group = node.group(1, range(suci.env_size()))
    data = np.ones(4)
    group.allreduce(data)
    assert data[0] == suci.env_size()
    if group.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        for _ in range(3):
            group.barrier(30)
        raise SystemExit("the dead took part")
    except suci.GroupError as error:
        assert error.node == 1, error
    agreed = group.agree(5 if group.rank else 13, 30)
    assert agreed == suci.Agreed(5, (1,)), agreed
    left = group.shrink(30)
    data[:] = 1
    left.allreduce(data, timeout=30)
    print(left.members, data[0])
"""


def test_a_death_ends_the_operation_and_the_rest_goes_on(tmp_path):
    command = suci_command()
    if command is None:
        pytest.skip("this wheel was built without the command suci: make python")
    program = tmp_path / "dies.py"
    program.write_text(DIES)
    done = subprocess.run(
        [command, "run", "-n", "3", "--", sys.executable, str(program)],
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert sorted(done.stdout.splitlines()) == ["[0, 2] 2.0"] * 2, done.stderr


def test_ctrl_c_ends_an_operation():
    program = """
import os, signal, threading, suci
node = suci.Node(0)
node.add_peer(1, "127.0.0.1:9")
groups = [node.group(number, [0, 1]) for number in range(3)]
calls = groups[0].barrier, lambda: groups[1].allreduce(bytearray(4)), groups[2].shrink
for call in calls:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        call()
    except KeyboardInterrupt:
        print("interrupted")
"""
    done = python(program)
    assert (done.stdout, done.stderr) == ("interrupted\n" * 3, "")


def test_a_group_in_the_child_of_a_fork(groups):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            groups[0].barrier(1)
        except suci.Forked:
            os.write(write, b"Forked")
        os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        assert pipe.read() == b"Forked"
    os.waitpid(child, 0)
    at_all(groups, lambda group: group.barrier(SOON))


def test_groups_of_tasks():
    async def member(node):
        group = node.group(3, range(SIZE))
        assert repr(group) == f"<suci.aio.Group 3: rank {node.id} of 3>"
        assert (group.number, group.size, group.members) == (3, 3, [0, 1, 2])
        data = np.array([group.rank, 1.0])
        await group.barrier()
        await group.allreduce(data)
        assert list(data) == [3, 3]
        await group.reduce(data, "max", root=1)
        await group.scan(data)
        await group.exclusive_scan(data)
        await group.broadcast(data)
        part = np.zeros(1)
        await group.scatter(np.arange(3.0) if group.rank == 1 else None, part, root=1)
        gathered = await group.gather(part)
        assert gathered.tolist() == ([0, 1, 2] if group.rank == 0 else [])
        assert (await group.allgather(part)).tolist() == [0, 1, 2]
        swapped = await group.all_to_all(np.arange(3) * 10 + group.rank)
        assert swapped.tolist() == [10 * group.rank + i for i in range(3)]
        assert await group.agree(7) == suci.Agreed(7, ())
        left = await group.shrink()
        assert left.size == 3
        await left.barrier()
        if group.rank == 0:
            # The others do not take part.
            with pytest.raises(suci.TimedOut):
                await node.group(4, range(SIZE)).barrier(timeout=0.05)
        return True

    async def main():
        with cluster(aio.Node) as nodes:
            assert all(await asyncio.wait_for(asyncio.gather(*map(member, nodes)), SOON))
            for node in nodes:
                with contextlib.suppress(suci.NotFlushed):
                    await node.close(0)

    asyncio.run(main())


def test_broadcast_and_recv_into_of_tasks():
    async def main():
        async with aio.Node(0, accept="anyone") as zero, aio.Node(1) as one:
            one.add_peer(0, zero.address)
            failed = await one.broadcast([0, 8, 0], b"to many")
            assert list(failed) == [8] and isinstance(failed[8], suci.UnknownPeer)
            assert [bytes(await zero.recv()) for _ in range(2)] == [b"to many"] * 2
            target = np.zeros(3)
            waits = asyncio.ensure_future(zero.recv_into(target, SOON))
            await asyncio.sleep(0)
            await one.send(0, np.ones(3))
            message = await waits
            assert target.sum() == 3 and len(message) == 24
            assert np.shares_memory(np.frombuffer(message.payload), target)
            await one.send(0, bytes(99))
            with pytest.raises(suci.BufferTooShort):
                await zero.recv_into(target, SOON)
            with pytest.raises(BufferError):
                await zero.recv_into(b"read-only", 0)
            assert len(await zero.recv(SOON)) == 99
            # A task that is cancelled loses nothing.
            waits = asyncio.ensure_future(zero.recv_into(target))
            await asyncio.sleep(0)
            await one.send(0, np.full(3, 2.0))
            waits.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waits
                return
            await zero.recv_into(target, SOON, source=1, channel=0)
            assert target.sum() == 6

    asyncio.run(asyncio.wait_for(main(), SOON))


def test_members_of_a_cluster():
    settings = {"cluster": "example", "suspicion": 1}
    with suci.Node(1, **settings) as one:
        one.wait_joined(SOON)
        with suci.Node(2, seeds={1: one.address}, **settings) as two:
            two.wait_joined(SOON)
            wait_until(lambda: len(one.members()) == 2)
            assert {member.node for member in two.members()} == {1, 2}
            assert suci.Member(1, one.address, False) in two.members()
        seeds = {1: "127.0.0.1:9"}
        with suci.Node(3, seeds=seeds, cluster="other", statistics=False) as three:
            with pytest.raises(suci.Error, match="seed 1"):
                three.wait_joined(0.2)
            threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,)).start()
            with pytest.raises(KeyboardInterrupt):
                three.wait_joined()
    with suci.Node(4) as four:
        with pytest.raises(suci.ConfigurationError, match="membership"):
            four.members()
    with pytest.raises(ValueError, match="cluster"):
        suci.Node(5, seeds={1: "127.0.0.1:9"})
    with pytest.raises(TypeError, match="seeds"):
        suci.Node(5, cluster="x", seeds=[1])
    with pytest.raises(suci.ConfigurationError, match="cluster"):
        suci.Node(5, cluster="")
