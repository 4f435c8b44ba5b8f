"""Waits let other threads run, and a signal ends them."""

import os
import signal
import sys
import threading
import time

import pytest
import suci
from conftest import SOON, python

WAITS = {
    "recv": "node.recv()",
    "recv of a peer": "node.recv(source=0)",
    "recv_into": "node.recv_into(bytearray(9))",
    "next": "[node.next() for _ in range(9)]",
    "next_event": "[node.next_event() for _ in range(9)]",
    "call": "node.call(0, b'x')",
    "send": "node.send(0, bytes(90000)); node.send(0, bytes(90000))",
    "flush": "node.send(0, b'x'); node.flush()",
    "close": "node.send(0, b'x'); node.close(60)",
}

INTERRUPTED = """
import os, signal, sys, threading, time
import suci
node = suci.Node(1, send_queue=100_000)
node.add_peer(0, "127.0.0.1:1")
sent = []
def interrupt():
    time.sleep(0.3)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    {wait}
    print("it returned")
except KeyboardInterrupt:
    print(time.monotonic() - sent[0], flush=True)
node.peer(0).reset() if not node.closed else None
os._exit(0)
"""


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_ctrl_c_ends_a_wait_within_100_ms(wait):
    delays = []
    for _ in range(3):  # another program may have had the processor
        done = python(INTERRUPTED.format(wait=wait))
        assert done.returncode == 0, done.stderr
        delays.append(float(done.stdout))
        if delays[-1] < 0.1:
            return
    pytest.fail(f"{wait}: {delays}")


def test_a_handler_that_returns_does_not_end_a_wait(pair):
    zero, one = pair
    calls = []
    before = signal.signal(signal.SIGUSR1, lambda *_: calls.append(1))
    try:
        timers = [
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)),
            threading.Timer(0.4, one.send, (0, b"x")),
        ]
        for timer in timers:
            timer.start()
        assert bytes(zero.recv(SOON)) == b"x"
        assert calls == [1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_other_threads_run_during_a_wait(pair):
    zero, one = pair
    counted = 0

    def count():
        nonlocal counted
        while counted < 10**9:
            counted += 1
            if done.is_set():
                return

    done = threading.Event()
    thread = threading.Thread(target=count)
    thread.start()
    before = counted
    with pytest.raises(suci.TimedOut):
        zero.recv(0.5)
    during = counted - before
    done.set()
    thread.join()
    assert during > 1000


def test_a_wait_ends_in_time(pair):
    zero, _ = pair
    for limit in (0.01, 0.12):
        began = time.monotonic()
        with pytest.raises(suci.TimedOut):
            zero.recv(limit)
        took = time.monotonic() - began
        assert limit <= took < limit + 2


def test_many_threads_use_one_node(pair):
    zero, one = pair
    threads, each = 8, 300
    got = [[] for _ in range(threads)]

    def send(index):
        for step in range(each):
            one.send(0, f"{index}:{step}".encode(), channel=index)

    def receive(index):
        for _ in range(each):
            got[index].append(bytes(zero.recv(SOON)).decode())

    everyone = [threading.Thread(target=send, args=(i,)) for i in range(threads)]
    everyone += [threading.Thread(target=receive, args=(i,)) for i in range(threads)]
    for thread in everyone:
        thread.start()
    for thread in everyone:
        thread.join()
    assert sorted(sum(got, [])) == sorted(f"{i}:{s}" for i in range(threads) for s in range(each))


def test_memory_and_descriptors_do_not_grow(pair):
    zero, one = pair

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def work(rounds):
        for step in range(rounds):
            for size in (5, 300, 5000, 200_000):
                one.send(0, bytearray(size), user_header=b"h")
                message = zero.recv(SOON)
                assert len(message.payload) == size and not message.is_request
            with pytest.raises(suci.TimedOut):
                zero.recv(0)
            zero.events(), one.events()

    work(300)
    before, descriptors = resident(), len(os.listdir("/proc/self/fd"))
    references = sys.getrefcount(zero), sys.getrefcount(suci.Up)
    work(1500)
    assert resident() - before < 20 << 20
    assert (sys.getrefcount(zero), sys.getrefcount(suci.Up)) == references
    for _ in range(20):
        suci.Node(7, statistics=False).close()
    assert len(os.listdir("/proc/self/fd")) <= descriptors
