"""A parameter server: workers fit one model to their own parts of the data.

    suci run -n 4 -- python parameter_server.py [--steps 60] [--kill]

Node 0 holds the weights. A worker asks for them, computes the gradient on its data, and sends it
with its next request. The server never waits for a certain worker: one that dies is left out.
"""

import argparse
import os
import signal

import numpy as np

import suci

TRUE_WEIGHTS = np.linspace(-1, 1, 1000)
LEARNING_RATE = 0.5


def serve(node, steps):
    weights = np.zeros_like(TRUE_WEIGHTS)
    workers = set(range(1, suci.env_size()))
    done = dict.fromkeys(workers, 0)
    while workers:
        item = node.next()
        if isinstance(item, suci.Message):
            gradient = np.frombuffer(item.payload)
            if len(gradient):
                weights -= LEARNING_RATE * gradient
                done[item.source] += 1
            # No weights mean that it was enough. They are copied, since they change below.
            node.reply(item, weights.copy() if done[item.source] < steps else b"")
        elif isinstance(item, suci.Ended) or (
            isinstance(item, suci.Lost) and item.cause is suci.LostCause.PROCESS_DIED
        ):
            # It has all that it wanted, or its process has died.
            workers.discard(item.node)
    error = np.abs(weights - TRUE_WEIGHTS).max()
    finished = sum(count >= steps for count in done.values())
    print(f"{finished} workers finished; the largest error is below 0.05: {error < 0.05}")


def work(node, kill):
    random = np.random.default_rng(node.id)
    samples = random.normal(size=(4000, len(TRUE_WEIGHTS)))
    values = samples @ TRUE_WEIGHTS
    gradient = b""
    while True:
        reply = node.call(0, gradient)
        if not len(reply):
            return
        if kill and len(gradient):
            os.kill(os.getpid(), signal.SIGKILL)
        weights = np.frombuffer(reply.payload)
        gradient = samples.T @ (samples @ weights - values) / len(samples)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--kill", action="store_true", help="node 2 kills itself")
    options = parser.parse_args()
    with suci.Node.from_env() as node:
        if node.id == 0:
            serve(node, options.steps)
        else:
            work(node, options.kill and node.id == 2)


main()
