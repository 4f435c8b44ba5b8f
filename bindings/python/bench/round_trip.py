"""Round trips of 64 B and 1 MiB: Suci beside pyzmq, mpi4py, asyncio streams and raw sockets.

    python round_trip.py [--rounds 9] [--seconds 0.5] [--only suci,pyzmq] [--json FILE]

Each contender has a process of its own on the other side, over loopback. The contenders are
measured in turns, and the median of the rounds is printed with the lowest and the highest. mpi4py
runs over libfabric's tcp in two processes of `mpiexec`. What is not installed is left out.
"""

import argparse
import asyncio
import importlib.util
import json
import multiprocessing
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import time

SIZES = {"64 B": 64, "1 MiB": 1 << 20}

# ---- each contender: a server that echoes, and a client that returns a function of one round trip


def suci_server(pipe):
    import suci

    with suci.Node(0, accept="anyone") as node:
        pipe.send(node.address)
        while True:
            message = node.recv()
            if not message.payload.nbytes:
                return
            node.send(message.source, message.payload)


def suci_client(address):
    import suci

    node = suci.Node(1)
    node.add_peer(0, address)

    def trip(data):
        node.send(0, data)
        return node.recv().payload

    return trip, lambda: (node.send(0, b""), node.close())


def zmq_server(pipe):
    import zmq

    with zmq.Context() as context, context.socket(zmq.PAIR) as end:
        pipe.send(end.bind_to_random_port("tcp://127.0.0.1"))
        while True:
            frame = end.recv(copy=False)
            if not len(frame):
                return
            end.send(frame, copy=False)


def zmq_client(port):
    import zmq

    context = zmq.Context()
    end = context.socket(zmq.PAIR)
    end.connect(f"tcp://127.0.0.1:{port}")

    def trip(data):
        end.send(data, copy=len(data) < 4096)
        # pyzmq's own advice: copies of short messages cost less than frames.
        return end.recv() if len(data) < 4096 else end.recv(copy=False).buffer

    return trip, lambda: (end.send(b""), end.close(), context.term())


def recv_exactly(end, view):
    got = 0
    while got < len(view):
        count = end.recv_into(view[got:])
        if not count:
            return False
        got += count
    return True


def tcp_server(pipe):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pipe.send(listener.getsockname()[1])
        end, _ = listener.accept()
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = bytearray(8)
        while recv_exactly(end, memoryview(head)):
            body = bytearray(int.from_bytes(head, "big"))
            recv_exactly(end, memoryview(body))
            send_all(end, head, body)


def send_all(end, head, body):
    if len(body) < 4096:
        end.sendall(head + body)
    else:
        end.sendall(head)
        end.sendall(body)


def tcp_client(port):
    end = socket.create_connection(("127.0.0.1", port))
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    head = bytearray(8)

    def trip(data):
        send_all(end, len(data).to_bytes(8, "big"), data)
        recv_exactly(end, memoryview(head))
        body = bytearray(int.from_bytes(head, "big"))
        recv_exactly(end, memoryview(body))
        return body

    return trip, end.close


async def serve_stream(reader, writer):
    try:
        while True:
            head = await reader.readexactly(8)
            body = await reader.readexactly(int.from_bytes(head, "big"))
            writer.write(head)
            writer.write(body)
            await writer.drain()
    except asyncio.IncompleteReadError:
        writer.close()


def streams_server(pipe):
    async def main():
        done = asyncio.Event()

        async def serve(reader, writer):
            await serve_stream(reader, writer)
            done.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=4 << 20)
        pipe.send(server.sockets[0].getsockname()[1])
        await done.wait()

    asyncio.run(main())


def streams_client(port):
    loop = asyncio.new_event_loop()
    reader, writer = loop.run_until_complete(
        asyncio.open_connection("127.0.0.1", port, limit=4 << 20)
    )

    async def trips(data, end):
        count = 0
        while time.perf_counter() < end:
            writer.write(len(data).to_bytes(8, "big"))
            writer.write(data)
            head = await reader.readexactly(8)
            await reader.readexactly(int.from_bytes(head, "big"))
            count += 1
        return count

    trips.loop = loop
    return trips, lambda: (writer.close(), loop.close())


def suci_aio_server(pipe):
    import suci.aio

    async def main():
        async with suci.aio.Node(0, accept="anyone") as node:
            pipe.send(node.address)
            while True:
                message = await node.recv()
                if not message.payload.nbytes:
                    return
                await node.send(message.source, message.payload)

    asyncio.run(main())


def suci_aio_client(address):
    import suci.aio

    loop = asyncio.new_event_loop()
    node = suci.aio.Node(1)
    node.add_peer(0, address)

    async def trips(data, end):
        count = 0
        while time.perf_counter() < end:
            await node.send(0, data)
            await node.recv()
            count += 1
        return count

    async def stop():
        await node.send(0, b"")
        await node.close()

    trips.loop = loop
    return trips, lambda: (loop.run_until_complete(stop()), loop.close())


MPI = """
import sys, time
from mpi4py import MPI

world, length, seconds = MPI.COMM_WORLD, int(sys.argv[1]), float(sys.argv[2])
data, answer, count = bytes(length), bytearray(length), 0
if world.rank == 1:
    status = MPI.Status()
    while True:
        world.Recv(answer, source=0, status=status)
        if not status.Get_count(MPI.BYTE):
            break
        world.Send(answer, dest=0)
else:
    # The first tenth connects, and does not count.
    for limit in (seconds / 10, seconds):
        began, count = time.perf_counter(), 0
        while time.perf_counter() < began + limit:
            world.Send(data, dest=1)
            world.Recv(answer, source=1)
            count += 1
    print((time.perf_counter() - began) / count * 1e6)
    world.Send(b"", dest=1)
"""


class MpiClient:
    """Two processes for each measurement: they would use a processor each while they wait."""

    def measure(self, length, seconds):
        environment = {**os.environ, "FI_PROVIDER": "tcp", "MPIR_CVAR_NOLOCAL": "1"}
        command = [mpiexec(), "-n", "2", sys.executable, "-c", MPI, str(length), str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
        if done.returncode:
            sys.exit(f"mpi4py failed: {done.stderr}")
        return float(done.stdout)


def mpiexec():
    """The mpiexec beside this Python, or that of the path."""
    beside = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    return beside if os.access(beside, os.X_OK) else shutil.which("mpiexec")


def is_installed(name):
    if name == "pyzmq":
        return importlib.util.find_spec("zmq") is not None
    if name == "mpi4py":
        return importlib.util.find_spec("mpi4py") is not None and mpiexec() is not None
    return True


CONTENDERS = {
    "suci": (suci_server, suci_client),
    "pyzmq": (zmq_server, zmq_client),
    "sockets": (tcp_server, tcp_client),
    "suci.aio": (suci_aio_server, suci_aio_client),
    "asyncio streams": (streams_server, streams_client),
    "mpi4py": None,
}


def measure(client, data, seconds):
    """Microseconds for one round trip."""
    if isinstance(client, MpiClient):
        return client.measure(len(data), seconds)
    began = time.perf_counter()
    end = began + seconds
    if hasattr(client, "loop"):
        count = client.loop.run_until_complete(client(data, end))
    else:
        count = 0
        while time.perf_counter() < end:
            client(data)
            count += 1
    return (time.perf_counter() - began) / count * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    parser.add_argument("--only", help="contenders, separated by commas")
    parser.add_argument("--json", metavar="FILE", help="writes all figures to FILE (- for stdout)")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(CONTENDERS)
    for name in names:
        if name not in CONTENDERS:
            sys.exit(f"there is no contender {name}: choose from {', '.join(CONTENDERS)}")
    names = [name for name in names if is_installed(name)]
    spawn = multiprocessing.get_context("spawn")
    clients, servers, stops = {}, [], []
    for name in names:
        if name == "mpi4py":
            clients[name] = MpiClient()
            continue
        here, there = spawn.Pipe()
        server, client = CONTENDERS[name]
        process = spawn.Process(target=server, args=(there,), daemon=True)
        process.start()
        if not here.poll(60):
            sys.exit(f"{name}: its server did not start")
        clients[name], stop = client(here.recv())
        servers.append(process)
        stops.append(stop)
    figures = {name: {size: [] for size in SIZES} for name in names}
    for size, length in SIZES.items():
        data = bytes(length)
        for name in names:
            measure(clients[name], data, options.seconds / 5)
        for _ in range(options.rounds):
            for name in names:
                figures[name][size].append(measure(clients[name], data, options.seconds))
    for stop in stops:
        stop()
    for process in servers:
        process.join(10)
    print("us for one round trip: median (lowest to highest)", file=sys.stderr)
    for size in SIZES:
        for name in names:
            all_of = figures[name][size]
            low, middle, high = min(all_of), statistics.median(all_of), max(all_of)
            line = f"{size:>6}  {name:<16} {middle:9.1f}  ({low:.1f} to {high:.1f})"
            print(line, file=sys.stderr)
    if options.json:
        report = {"unit": "us", "python": platform.python_version(), "round_trip": figures}
        text = json.dumps(report, indent=1)
        if options.json == "-":
            print(text)
        else:
            with open(options.json, "w") as file:
                file.write(text + "\n")


if __name__ == "__main__":
    main()
