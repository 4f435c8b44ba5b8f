"""The communication backend of Dask."""

import asyncio
import gc
import logging
import struct
import subprocess
import sys
import time

import pytest
import suci
from conftest import SOON, suci_command

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
np = pytest.importorskip("numpy")

from distributed.comm import connect, listen  # noqa: E402
from distributed.comm.core import CommClosedError, FatalCommClosedError  # noqa: E402
from distributed.protocol import to_serialize  # noqa: E402
from suci.dask import Security, _addresses, _messages, _nodes  # noqa: E402

HERE = "suci://127.0.0.1"


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 2 * SOON))


async def echo(comm):
    while True:
        try:
            message = await comm.read()
        except CommClosedError:
            return
        await comm.write({name: to_serialize(value) for name, value in message.items()})


class Pair:
    """A comm, and the one that its listener got."""

    def __init__(self, address=HERE, **arguments):
        self.address = address
        self.arguments = arguments

    async def __aenter__(self):
        accepted = asyncio.get_running_loop().create_future()

        async def handle(comm):
            accepted.set_result(comm)

        self.listener = await listen(self.address, handle, **self.arguments)
        self.comms = [await connect(self.listener.contact_address, **self.arguments)]
        self.comms.append(await accepted)
        return self.comms

    async def __aexit__(self, *_):
        for comm in self.comms:
            comm.abort()
        self.listener.stop()


def endpoints():
    return list(_nodes.endpoints)


async def until(condition):
    end = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("length", [0, 1, 1000, 8191, 8192, 16_384, 16_385, 100_000, 3_000_000])
def test_arrays_come_as_they_were(length):
    array, other = np.arange(length), np.arange(length) * 0.5

    async def main():
        async with Pair() as (a, b):
            await a.write({"x": to_serialize(array), "y": to_serialize([other, other[:7]]), "z": 5})
            got = await b.read()
            assert (got["x"] == array).all() and (got["y"][0] == other).all()
            assert (got["y"][1] == other[:7]).all() and got["z"] == 5
            assert got["x"].flags.writeable and got["y"][0].flags.writeable

    run(main())


def test_long_frames_are_not_copied(monkeypatch):
    copied = sent = 0
    copy, try_send = _messages.Arriving.copy, suci.Node.try_send

    def counting(self, piece):
        nonlocal copied
        copied += len(piece)
        copy(self, piece)

    array = np.ones(5_000_000)

    class Watched:
        """A node that notes whether it was given the program's own memory."""

        def __init__(self, node):
            self.node = node

        def __getattr__(self, name):
            return getattr(self.node, name)

        def try_send(self, peer, piece, **options):
            nonlocal sent
            view = np.frombuffer(piece, np.uint8) if len(piece) else array
            sent += len(piece) if np.shares_memory(view, array) else 0
            try_send(self.node, peer, piece, **options)

    monkeypatch.setattr(_messages.Arriving, "copy", counting)

    async def main():
        async with Pair() as (a, b):
            a.stream.endpoint.node = Watched(a.stream.endpoint.node)
            await a.write({"x": to_serialize(array)})
            got = await b.read()
            assert (got["x"] == array).all()
            a.stream.endpoint.node = a.stream.endpoint.node.node

    run(main())
    assert sent == array.nbytes
    assert copied < 10_000


def test_parts_of_an_object_share_memory_and_objects_do_not():
    one = memoryview(np.zeros(300_000, np.uint8))
    two = memoryview(np.ones(300_000, np.uint8))
    frames = [b"head", one[:150_000], one[150_000:], two[:150_000], two[150_000:]]
    pieces, total = _messages.pieces(frames)
    arriving = _messages.Arriving(memoryview(pieces[0]))
    for piece in pieces[1:]:
        arriving.copy(memoryview(piece))
    assert arriving.complete and len(arriving.buffers) == 2
    got = arriving.frames()
    assert [bytes(frame) for frame in got] == [bytes(frame) for frame in frames]
    assert sum(map(len, arriving.buffers)) == total


def test_comms_share_a_socket_and_do_not_block_each_other():
    async def main():
        async with listen(HERE, echo) as listener:
            comms = [await connect(listener.contact_address) for _ in range(50)]
            (serving,) = [e for e in endpoints() if e.listener is listener]
            assert len(serving.node.peers()) == 1
            assert len({comm.stream.endpoint for comm in comms}) == 1
            await comms[0].write({"x": np.ones(20_000_000)})
            for number, comm in enumerate(comms[1:]):
                await comm.write({"x": number})
            for number, comm in enumerate(comms[1:]):
                assert (await comm.read())["x"] == number
            assert len((await comms[0].read())["x"]) == 20_000_000
            for comm in comms:
                await comm.close()

    run(main())


def test_what_was_written_before_close_is_read():
    async def main():
        async with Pair() as (a, b):
            await a.write("one")
            await a.write({"x": to_serialize(np.ones(1_000_000))})
            await a.close()
            assert a.closed() and not b.closed()
            assert await b.read() == "one"
            assert (await b.read())["x"].sum() == 1_000_000
            await until(b.closed)
            for call in (b.read(), b.write("x"), a.read(), a.write("x")):
                with pytest.raises(CommClosedError):
                    await call

    run(main())


SERVER = """
import asyncio, sys
from distributed.comm import listen

async def handle(comm):
    while True:
        await comm.read()

async def main():
    async with listen("suci://127.0.0.1", handle) as listener:
        print(listener.contact_address, flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


def test_a_killed_process_is_told_also_to_comms_that_only_wait():
    child = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)

    async def main():
        address = child.stdout.readline().strip()
        comms = [await connect(address) for _ in range(3)]
        reads = [asyncio.ensure_future(comm.read()) for comm in comms]
        await asyncio.sleep(0)
        child.kill()
        child.wait()
        begin = time.monotonic()
        for comm, read in zip(comms, reads):
            with pytest.raises(CommClosedError):
                await read
            assert comm.closed()
        # A third of `SILENCE`, and a few probes: far below the 30 s of silence.
        assert time.monotonic() - begin < 10
        with pytest.raises(OSError, match=address):
            await connect(address, timeout=0.5)

    try:
        run(main())
    finally:
        child.kill()
        child.wait()


def test_a_port_can_be_used_again_at_once():
    async def main():
        for _ in range(5):
            async with listen(HERE + ":38467", echo) as listener:
                comm = await connect(listener.contact_address)
                await comm.write({"x": 1})
                assert await comm.read() == {"x": 1}
                await comm.close()

    run(main())
    run(main())


def test_a_listener_starts_again_beside_its_connections():
    async def main():
        async with Pair() as (a, b):
            port = b.stream.endpoint.port
            for endpoint in endpoints():
                if endpoint.listener is not None:
                    endpoint.listener.stop()
            with pytest.raises(OSError):
                await connect(f"{HERE}:{port}", timeout=0.2)
            async with listen(f"{HERE}:{port}", echo) as listener:
                comm = await connect(listener.contact_address)
                await comm.write({"x": 2})
                assert await comm.read() == {"x": 2}
                await a.write("still open")
                assert await b.read() == "still open"
                await comm.close()

    run(main())


def test_nodes_are_closed_with_their_connections():
    async def main():
        async with Pair():
            nodes = [endpoint.node for endpoint in endpoints()]
            assert len(nodes) == 2
        await until(lambda: all(node.closed for node in nodes))

    run(main())
    assert endpoints() == []


@pytest.mark.parametrize("way", ["setting", "security", "environment"])
def test_encryption(tmp_path, monkeypatch, way):
    command = suci_command()
    if command is None:
        pytest.skip("this wheel was built without the command suci: make python")
    key, other = tmp_path / "key", tmp_path / "other"
    for file in (key, other):
        subprocess.run([command, "keygen", str(file)], check=True, capture_output=True)
    arguments = {"require_encryption": True}
    setting = None
    if way == "setting":
        setting = str(key)
    elif way == "security":
        security = Security(key_file=key)
        assert security.get_listen_args("worker")["key_file"] == str(key)
        arguments = security.get_connection_args("worker")
    else:
        monkeypatch.setenv("SUCI_KEY_FILE", str(key))

    async def main():
        # With a key, all addresses of the machine may be used.
        async with Pair("suci://0.0.0.0", **arguments) as (a, b):
            await a.write("sealed")
            assert await b.read() == "sealed"
            assert set(a.extra_info) == {"node", "peer"}
            port = b.stream.endpoint.port
            with pytest.raises(FatalCommClosedError, match="key"):
                await connect(f"{HERE}:{port}", **{**arguments, "key_file": str(other)})

    with dask.config.set({"distributed.comm.suci.key-file": setting}):
        run(main())


def test_no_key_where_one_is_needed():
    async def main():
        with pytest.raises(RuntimeError, match="suci keygen"):
            await listen(HERE, echo, require_encryption=True)
        with pytest.raises(RuntimeError, match="suci keygen"):
            await connect(HERE + ":7777", require_encryption=True)
        with pytest.raises(OSError, match="suci://0.0.0.0.*key"):
            await listen("suci://0.0.0.0", echo)

    run(main())


def test_all_addresses_of_a_listener_reach_it():
    async def main():
        async with listen("suci://0.0.0.0", echo) as listener:
            _, port = listener.get_host_port()
            for address in (listener.contact_address, f"{HERE}:{port}", f"suci://localhost:{port}"):
                comm = await connect(address)
                assert comm.peer_address == address
                await comm.write({"x": address})
                assert await comm.read() == {"x": address}
                await comm.close()

    with dask.config.set({"distributed.comm.suci.allow-insecure-network": True}):
        run(main())


def test_ids_come_from_addresses():
    assert _addresses.node_id("10.1.2.3", 8786) == 0x0203_2252
    assert _addresses.node_id("fd00::1", 80) != _addresses.node_id("fd00::2", 80)


def test_a_node_that_is_no_dask_is_refused():
    async def main():
        with suci.Node(7) as node:
            with pytest.raises(OSError, match="another node listens"):
                await connect("suci://" + node.address, timeout=SOON)
        with pytest.raises(OSError):
            await connect(HERE + ":1", timeout=0.2)

    run(main())


def head(*sizes, data=b""):
    return struct.pack(f"<{1 + len(sizes)}Q", len(sizes), *sizes) + data


@pytest.mark.parametrize(
    "messages",
    [
        [b""],
        [b"x" * 7],
        [head(1 << 60)],
        [struct.pack("<Q", 1 << 60)],
        [head()],
        [head(4, data=b"12345")],
        [head(8, data=b"\xff" * 8)],
        [head(24, data=struct.pack("3Q", 2, 5, 1 << 50))],
        [head(16, data=struct.pack("2Q", 1, 5))],
        [head(200_000), bytes(300_000)],
        [(_nodes.PIECE, b"first")],
        [(_nodes.PIECE, bytes(300_000))],
        [head(10), (_nodes.HEAD, head(10))],
        [(255, b"what")],
    ],
)
def test_garbage_ends_the_connection_and_nothing_else(messages, caplog):
    caplog.set_level(logging.CRITICAL)

    async def main():
        async with Pair() as (a, b):
            node = a.stream.endpoint.node
            kind = _nodes.HEAD
            for message in messages:
                if isinstance(message, tuple):
                    kind, message = message
                node.try_send(a.stream.peer, message, channel=a.stream.channel, kind=kind)
                kind = _nodes.PIECE
            with pytest.raises(CommClosedError, match="no message of Dask"):
                await b.read()
            assert b.closed()
            await until(a.closed)
            # Others go on.
            again = await connect(b.local_address)
            await again.close()

    run(main())


def test_a_stranger_without_a_connection_is_ignored(caplog):
    async def main():
        async with listen(HERE, echo) as listener:
            with suci.Node(5) as node:
                host, port = listener.get_host_port()
                peer = _addresses.node_id(host, port)
                node.add_peer(peer, f"{host}:{port}")
                node.send(peer, b"lost", channel=9, kind=_nodes.HEAD)
                node.send(peer, bytes(1_000_000), channel=11, kind=_nodes.HEAD, notify=True)
                event = None
                while not isinstance(event, suci.NotDelivered):
                    await asyncio.sleep(0.01)
                    event = node.try_next()
            comm = await connect(listener.contact_address)
            await comm.write({"x": 3})
            assert await comm.read() == {"x": 3}
            await comm.close()

    run(main())


def test_a_message_longer_than_memory_is_named(monkeypatch, caplog):
    monkeypatch.setattr(_messages, "LARGEST", 1_000_000)

    async def main():
        async with Pair() as (a, b):
            await a.write({"x": to_serialize(np.ones(200_000))})
            with pytest.raises(CommClosedError, match="longer than the memory"):
                await b.read()

    run(main())


def test_a_comm_that_nobody_has_is_closed(caplog):
    async def main():
        async with listen(HERE, echo) as listener:
            comm = await connect(listener.contact_address)
            (serving,) = [e for e in endpoints() if e.listener is listener]
            assert len(serving._streams) == 1
            del comm
            gc.collect()
            await until(lambda: not serving._streams)

    run(main())
    assert "Closing dangling stream" in caplog.text


def test_a_cluster_goes_on_when_a_worker_is_killed(tmp_path):
    program = """
import os, signal
import dask.array as da
from distributed import Client, LocalCluster

def die(path):
    if not os.path.exists(path):
        open(path, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return 7

if __name__ == "__main__":
    import sys
    with LocalCluster(2, protocol="suci", threads_per_worker=1, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            assert all(a.startswith("suci://") for a in client.scheduler_info()["workers"])
            x = da.ones((1500, 1500), chunks=500)
            assert (x + x.T).sum().compute() == 2 * 1500 * 1500
            assert client.submit(die, sys.argv[1]).result() == 7
    print("good")
"""
    file = tmp_path / "program.py"
    file.write_text(program)
    done = subprocess.run(
        [sys.executable, str(file), str(tmp_path / "died")],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.stdout == "good\n", done.stderr
