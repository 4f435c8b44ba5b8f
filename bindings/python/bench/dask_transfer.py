"""Dask over Suci beside tcp: long frames between two processes, and sums of transposed arrays.

    python dask_transfer.py [--rounds 5] [--mebibytes 64] [--size 4000] [--only sum] [--json FILE]

The protocols are measured in turns. A frame goes to a process of its own, which answers when it has
it. The sum runs on a cluster of 4 workers with a thread each, for each protocol one.
"""

import argparse
import asyncio
import json
import multiprocessing
import statistics
import sys
import time

PROTOCOLS = ("tcp", "suci")


def serve(protocol, pipe):
    from distributed.comm import CommClosedError, listen

    async def handle(comm):
        while True:
            try:
                message = await comm.read()
            except CommClosedError:
                return
            await comm.write(len(message))

    async def main():
        async with listen(f"{protocol}://127.0.0.1", handle) as listener:
            pipe.send(listener.contact_address)
            await asyncio.Event().wait()

    asyncio.run(main())


async def transfers(options):
    """MB/s of each protocol and round."""
    import numpy as np
    from distributed.comm import connect
    from distributed.protocol import to_serialize

    spawn = multiprocessing.get_context("spawn")
    comms = {}
    for protocol in PROTOCOLS:
        here, there = spawn.Pipe()
        spawn.Process(target=serve, args=(protocol, there), daemon=True).start()
        if not here.poll(60):
            sys.exit(f"{protocol}: its server did not start")
        comms[protocol] = await connect(here.recv())
    array = np.ones(options.mebibytes << 17)
    figures = {protocol: [] for protocol in PROTOCOLS}
    for number in range(options.rounds + 1):
        for protocol, comm in comms.items():
            begin = time.perf_counter()
            await comm.write([to_serialize(array)])
            await comm.read()
            if number:  # The first round warms up.
                figures[protocol].append(array.nbytes / 1e6 / (time.perf_counter() - begin))
    for comm in comms.values():
        await comm.close()
    return figures


def sums(options):
    """Seconds of each protocol and round."""
    import dask.array as da
    from distributed import Client, LocalCluster

    settings = {"n_workers": 4, "threads_per_worker": 1, "dashboard_address": ":0"}
    figures = {protocol: [] for protocol in PROTOCOLS}
    clusters = {protocol: LocalCluster(protocol=protocol, **settings) for protocol in PROTOCOLS}
    clients = {protocol: Client(cluster) for protocol, cluster in clusters.items()}
    expected = float(options.size) * (options.size - 1)
    for number in range(options.rounds + 1):
        for protocol, client in clients.items():
            row = da.arange(options.size, chunks=options.size // 4)
            table = da.ones((options.size, 1), chunks=options.size // 4) * row
            work = (table + table.T).sum() / options.size
            begin = time.perf_counter()
            total = client.compute(work).result()
            if abs(total - expected) > 1e-6 * expected:
                sys.exit(f"{protocol}: the sum is {total} instead of {expected}")
            if number:
                figures[protocol].append(time.perf_counter() - begin)
    for protocol in PROTOCOLS:
        clients[protocol].close()
        clusters[protocol].close()
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mebibytes", type=int, default=64, help="of a frame")
    parser.add_argument("--size", type=int, default=4000, help="rows and columns of the array")
    parser.add_argument("--only", choices=("transfer", "sum"))
    parser.add_argument("--json", metavar="FILE", help="writes all figures to FILE")
    options = parser.parse_args()
    figures = {}
    if options.only != "sum":
        figures["transfer"] = asyncio.run(transfers(options))
    if options.only != "transfer":
        figures["sum"] = sums(options)
    for name, unit in (("transfer", "MB/s"), ("sum", "s")):
        if name not in figures:
            continue
        for protocol in PROTOCOLS:
            all_of = figures[name][protocol]
            low, middle, high = min(all_of), statistics.median(all_of), max(all_of)
            print(f"{name:>8}  {protocol:<5} {middle:8.2f} {unit} ({low:.2f} to {high:.2f})")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(figures, file)


if __name__ == "__main__":
    main()
