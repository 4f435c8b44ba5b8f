"""A task farm that survives `kill -9` of its workers.

    suci run -n 4 -- python task_farm.py [--tasks 300] [--kill]

Node 0 gives tasks away, a few at a time, and hears at once of a worker's death. The tasks that the
worker had go to others. Each task counts once: a result that comes twice is dropped.
"""

import argparse
import os
import signal
from collections import deque

import suci

#: Tasks that a worker has at once, so that it need not wait for the next.
DEPTH = 4


def is_prime(number):
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def farm(node, tasks):
    waiting = deque(tasks)
    # The tasks of each worker, from when it has said that it is ready.
    given = {}
    results = {}
    workers = set(range(1, suci.env_size()))

    def give():
        # All begin together, so that each has a part.
        if len(given) < len(workers):
            return
        for worker, tasks in given.items():
            while waiting and len(tasks) < DEPTH:
                task = waiting.popleft()
                tasks.add(task)
                node.send(worker, task.to_bytes(8, "little"))

    while len(results) < len(tasks):
        if not workers:
            raise SystemExit("all workers are dead")
        item = node.next()
        if isinstance(item, suci.Message):
            if item.tag == 0:
                given[item.source] = set()
            elif item.source in given:
                task = int.from_bytes(item.payload[:8], "little")
                results[task] = item.payload[8] == 1
                given[item.source].discard(task)
        elif isinstance(item, suci.Ended) or (
            isinstance(item, suci.Lost) and item.cause is suci.LostCause.PROCESS_DIED
        ):
            workers.discard(item.node)
            waiting.extend(given.pop(item.node, ()))
        give()
    node.broadcast(given, b"")
    print(f"{len(results)} tasks, {sum(results.values())} primes, {len(workers)} workers left")


def work(node, kill):
    # The tag tells it from results.
    node.send(0, b"", tag=0)
    count = 0
    while True:
        task = node.recv(source=0)
        if not len(task):
            return
        count += 1
        if kill and count == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        number = int.from_bytes(task.payload, "little")
        node.send(0, bytes(task) + bytes([is_prime(number)]), tag=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--kill", action="store_true", help="nodes 2 and 3 kill themselves")
    options = parser.parse_args()
    with suci.Node.from_env() as node:
        if node.id == 0:
            farm(node, range(10**9, 10**9 + options.tasks))
        else:
            work(node, options.kill and node.id in (2, 3))


main()
