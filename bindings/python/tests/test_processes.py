"""Forks, new processes, `suci run`, and the end of the interpreter."""

import multiprocessing
import os
import subprocess
import sys

import pytest
import suci
from conftest import SOON, python, suci_command


def in_child(work):
    """Runs `work` in the child of a fork, and returns what it wrote."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = str(work())
        except BaseException as error:
            text = f"failed: {error!r}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        text = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return text, status


def test_the_child_of_a_fork_gets_an_exception(pair):
    zero, one = pair
    one.send(0, bytes(100_000))
    message = zero.recv(SOON)

    def work():
        seen = []
        peer = zero.peer(1)
        for call in (
            zero.recv, zero.next, zero.next_event, zero.try_recv, zero.try_next, zero.events,
            zero.peers, zero.counters, zero.fileno, zero.flush, zero.close, peer.stats,
            peer.connect, lambda: zero.send(1, b"x"), lambda: zero.try_send(1, bytes(9999)),
            lambda: zero.call(1, b"x"), lambda: zero.recv_into(bytearray(5)),
            lambda: zero.add_peer(4, "127.0.0.1:9"), lambda: zero.recv(source=1),
        ):  # fmt: skip
            try:
                call()
                seen.append("returned")
            except suci.Forked:
                seen.append("Forked")
        assert bytes(message) == bytes(100_000)
        with suci.Node(9) as own:  # a node of its own works
            own.send(9, b"own")
            assert bytes(own.recv(SOON)) == b"own"
        return set(seen)

    assert in_child(work) == ("{'Forked'}", 0)
    one.send(0, b"still works")
    assert bytes(zero.recv(SOON)) == b"still works"


def test_a_fork_while_other_threads_wait():
    program = """
import os, threading, suci
node = suci.Node(0, accept="anyone")
threads = [threading.Thread(target=node.recv, daemon=True) for _ in range(4)]
for thread in threads:
    thread.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        try:
            node.recv()
        except suci.Forked:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print("good", flush=True)
os._exit(0)
"""
    done = python(program)
    assert (done.stdout, done.stderr) == ("good\n", "")


def spawned(address, number):
    with suci.Node(number) as node:
        node.add_peer(0, address)
        return bytes(node.call(0, f"from {number}".encode(), timeout=SOON))


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_multiprocessing(method):
    context = multiprocessing.get_context(method)
    with suci.Node(0, accept="anyone") as node, context.Pool(3) as pool:
        results = pool.starmap_async(spawned, [(node.address, n) for n in (1, 2, 3)])
        for _ in range(3):
            request = node.recv(SOON)
            node.reply(request, bytes(request).upper())
        assert results.get(SOON) == [b"FROM 1", b"FROM 2", b"FROM 3"]


def test_an_open_node_is_closed_at_exit():
    program = """
import sys, suci
node = suci.Node(1)
node.add_peer(0, sys.argv[1])
node.send(0, bytearray(300_000))
"""
    with suci.Node(0, accept="anyone") as node:
        done = python(program, node.address)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        items = [node.next(SOON) for _ in range(3)]
        assert len(items[1]) == 300_000
        assert items[2].reason is suci.EndReason.CLOSED


@pytest.mark.parametrize(
    "end",
    [
        "raise SystemExit(3)",
        "del node",
        "import gc; node = [node]; node.append(node); del node; gc.collect()",
        "threading.Thread(target=node.recv, daemon=True).start()",
        "node.peer(0); view = memoryview(b''); node.close(0)",
        "late.append(node)",
    ],
)
def test_every_end_of_the_interpreter(end):
    program = f"""
import atexit, contextlib, threading
late = []
def receive_late():
    if late:
        with contextlib.suppress(suci.Closed):
            late[0].recv()
atexit.register(receive_late)  # runs after the package has closed its nodes
import suci
node = suci.Node(1)
node.add_peer(0, "127.0.0.1:1")
node.send(0, bytearray(300_000))
with contextlib.suppress(suci.NotFlushed):
    {end}
"""
    done = python(program)
    expected = 3 if "SystemExit" in end else 0
    assert (done.returncode, done.stdout, done.stderr) == (expected, "", "")


def test_a_killed_peer_is_told(tmp_path):
    program = """
import sys, time, suci
node = suci.Node(1)
node.add_peer(0, sys.argv[1])
node.send(0, b"ready")
time.sleep(60)
"""
    with suci.Node(0, accept="anyone") as node:
        child = subprocess.Popen([sys.executable, "-c", program, node.address])
        assert bytes(node.recv(SOON)) == b"ready"
        child.kill()
        child.wait()
        with pytest.raises(suci.PeerEnded) as caught:
            node.call(1, b"are you there?")
        assert isinstance(caught.value, suci.PeerDied) and caught.value.node == 1
        node.peer(1).reset()


def test_suci_run(tmp_path):
    command = suci_command()
    if command is None:
        pytest.skip("this wheel was built without the command suci: make python")
    program = tmp_path / "ring.py"
    program.write_text(
        "import suci\n"
        "with suci.Node.from_env() as node:\n"
        "    size = suci.env_size()\n"
        "    assert node.id == suci.env_id()\n"
        "    node.send((node.id + 1) % size, f'greetings from {node.id}'.encode())\n"
        "    print(bytes(node.recv().payload).decode())\n"
    )
    done = subprocess.run(
        [command, "run", "-n", "4", "--", sys.executable, str(program)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for number in range(4):
        assert f"greetings from {number}" in done.stdout


def test_the_environment(monkeypatch):
    assert (suci.env_id(), suci.env_size()) == (None, None)
    monkeypatch.setenv("SUCI_ID", "x")
    with pytest.raises(suci.ConfigurationError, match="SUCI_ID=x"):
        suci.env_id()
    with pytest.raises(suci.ConfigurationError, match="SUCI_ID=x"):
        suci.Node.from_env()
