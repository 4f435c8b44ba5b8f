"""The stubs say what the module has, and programs can be checked with them."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")

PROGRAM = """
import suci
from suci import aio

def work(node: suci.Node, data: bytearray) -> bytes:
    node.send(0, data, channel=3, tag=1, notify=True, timeout=1.5)
    message = node.recv(1.0, source=0)
    item = node.next()
    if isinstance(item, suci.Ended):
        reveal_type(item.reason)
    elif isinstance(item, suci.Message):
        reveal_type(item.payload)
    try:
        return bytes(node.call(0, memoryview(data)))
    except suci.PeerEnded as error:
        reveal_type(error.reason)
        return bytes(message)

async def wait(node: aio.Node) -> suci.Message:
    await node.send(0, b"x", tag=3)
    return await node.recv(timeout=3)

def wrong(node: suci.Node) -> None:
    node.send("0", b"x")
    node.send(0, "text")
    node.recv(tag=3)
    node.peer(0).configure(mode="fast")
"""


def mypy(*arguments, module="mypy"):
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_the_package_itself(tmp_path):
    config = Path(__file__).resolve().parents[1] / "pyproject.toml"
    done = mypy("--config-file", config, "--cache-dir", tmp_path, "-p", "suci")
    assert done.returncode == 0, done.stdout


def test_programs(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = mypy("--strict", "--cache-dir", tmp_path, program)
    lines = done.stdout.splitlines()
    errors = [line for line in lines if ": error: " in line]
    notes = "\n".join(line for line in lines if "Revealed" in line)
    assert len(errors) == 4, done.stdout
    for line, part in zip(errors, ['"str"', '"str"', '"tag"', "mode"]):
        assert part in line
    assert notes.count("EndReason") == 2 and notes.count("memoryview") == 1


def test_the_stubs_agree_with_the_module():
    done = mypy("suci._suci", "--ignore-missing-stub", module="mypy.stubtest")
    assert done.returncode == 0, done.stdout
