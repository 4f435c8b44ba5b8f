"""Heat in a plate: each process has some rows, and exchanges its outer rows with its neighbours.

    suci run -n 4 -- python halo.py [--rows 120] [--columns 80] [--steps 200]

Rows arrive where they belong in the array. Every 50 steps all processes learn the largest change.
At the end node 0 collects the plate, and compares it with what one process computes alone.
"""

import argparse

import numpy as np

import suci

# A row that goes up, and one that goes down: each on a channel, so that they cannot be mixed up.
UP, DOWN = 1, 2


def start(rows, columns):
    plate = np.zeros((rows, columns))
    plate[0], plate[-1] = 100.0, -50.0
    plate[:, 0] = np.linspace(100, -50, rows)
    return plate


def step(plate):
    """One step of Jacobi's method for all but the outer rows and columns."""
    new = plate.copy()
    inner = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
    new[1:-1, 1:-1] = inner / 4
    return new


def exchange(node, part, upper, lower):
    if upper is not None:
        node.send(upper, part[1].copy(), channel=UP)
    if lower is not None:
        node.send(lower, part[-2].copy(), channel=DOWN)
    if lower is not None:
        node.recv_into(part[-1], source=lower, channel=UP)
    if upper is not None:
        node.recv_into(part[0], source=upper, channel=DOWN)


def solve(node, options):
    size = suci.env_size()
    group = node.group(1, range(size))
    # The inner rows are shared out; each part has one more row on both sides.
    bounds = np.linspace(1, options.rows - 1, size + 1).astype(int)
    first, end = bounds[node.id], bounds[node.id + 1]
    part = start(options.rows, options.columns)[first - 1 : end + 1].copy()
    upper = node.id - 1 if node.id > 0 else None
    lower = node.id + 1 if node.id < size - 1 else None
    for number in range(options.steps):
        exchange(node, part, upper, lower)
        new = step(part)
        if number % 50 == 0:
            change = np.array([np.abs(new - part).max()])
            group.allreduce(change, "max")
            if node.id == 0:
                print(f"step {number}: the largest change is {change[0]:.4f}")
        part = new
    lengths = [int(count) * options.columns for count in np.diff(bounds)]
    inner = np.asarray(group.gather(part[1:-1], lengths=lengths))
    if node.id == 0:
        whole = start(options.rows, options.columns)
        whole[1:-1] = inner.reshape(-1, options.columns)
        alone = start(options.rows, options.columns)
        for _ in range(options.steps):
            alone = step(alone)
        print(f"as computed alone: {bool((whole == alone).all())}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=120)
    parser.add_argument("--columns", type=int, default=80)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    with suci.Node.from_env() as node:
        solve(node, options)


main()
