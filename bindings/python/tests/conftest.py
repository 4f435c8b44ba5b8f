"""Two nodes, and programs in processes of their own."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import suci

#: Long enough for a busy machine; nothing waits for it in a test that passes.
SOON = 30.0

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith("SUCI_") and name != "SUCI_COMMAND":
            monkeypatch.delenv(name)


@pytest.fixture
def pair():
    """Node 0, which accepts anyone, and node 1, which knows it."""
    zero = suci.Node(0, accept="anyone")
    one = suci.Node(1)
    one.add_peer(0, zero.address)
    yield zero, one
    for node in (one, zero):
        with contextlib.suppress(suci.NotFlushed):
            node.close(0)


def wait_until(condition, what="the condition"):
    """Waits until the condition holds."""
    end = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(0.01)


def python(program, *arguments, **options):
    """Runs a program of its own, and returns what it did."""
    options.setdefault("timeout", 60)
    command = [sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


def suci_command():
    """The path of the command `suci`, or None if the wheel was built without it."""
    places = [os.environ.get("SUCI_COMMAND"), Path(sys.executable).with_name("suci")]
    return next((str(place) for place in places if place and os.access(place, os.X_OK)), None)
