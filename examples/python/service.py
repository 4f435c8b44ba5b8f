"""A service for asyncio with 1,000 clients.

    suci run -n 5 -- python service.py [--clients 1000] [--calls 10]

Node 0 serves. The clients are tasks of the other nodes, all waiting for replies at the same time.
Each has a channel of its own, by which the service knows it again; a slow one delays no other.
"""

import argparse
import asyncio

import suci
import suci.aio


async def serve(node, clients, calls):
    balances = {}
    answering = set()
    for _ in range(clients * calls):
        request = await node.recv()
        client = request.source, request.channel
        balances[client] = balances.get(client, 0) + int.from_bytes(request.payload, "little")
        reply = node.reply(request, balances[client].to_bytes(8, "little"))
        task = asyncio.ensure_future(reply)
        answering.add(task)
        task.add_done_callback(answering.discard)
    await asyncio.gather(*answering)
    print(f"{len(balances)} clients, {clients * calls} calls, {sum(balances.values())} in all")


async def client(node, channel, calls):
    balance = 0
    for amount in range(1, calls + 1):
        reply = await node.call(0, amount.to_bytes(8, "little"), channel=channel)
        balance += amount
        if int.from_bytes(reply.payload, "little") != balance:
            raise SystemExit(f"client {channel} of node {node.id} has a wrong balance")


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--calls", type=int, default=10)
    options = parser.parse_args()
    async with suci.aio.Node.from_env() as node:
        if node.id == 0:
            await serve(node, options.clients, options.calls)
        else:
            others = suci.env_size() - 1
            own = range(node.id, options.clients + 1, others)
            await asyncio.gather(*(client(node, number, options.calls) for number in own))


asyncio.run(main())
