"""The programs of examples/python do what their README says, also when workers are killed."""

import subprocess
import sys

import pytest
from conftest import ROOT, suci_command

PROGRAMS = [
    ("parameter_server.py", 4, [], ["3 workers finished; the largest error is below 0.05: True"]),
    (
        "parameter_server.py",
        4,
        ["--kill"],
        ["2 workers finished; the largest error is below 0.05: True"],
    ),
    ("task_farm.py", 4, [], ["300 tasks, 16 primes, 3 workers left"]),
    ("task_farm.py", 4, ["--kill"], ["300 tasks, 16 primes, 1 workers left"]),
    ("halo.py", 3, [], ["as computed alone: True"]),
    ("service.py", 5, [], ["1000 clients, 10000 calls, 55000 in all"]),
]


@pytest.mark.parametrize("name, count, arguments, lines", PROGRAMS)
def test_example(name, count, arguments, lines):
    if name != "service.py":
        pytest.importorskip("numpy")
    command = suci_command()
    if command is None:
        pytest.skip("this wheel was built without the command suci: make python")
    program = ROOT / "examples/python" / name
    done = subprocess.run(
        [command, "run", "-n", str(count), "--", sys.executable, str(program), *arguments],
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    for line in lines:
        assert line in done.stdout, done.stdout + done.stderr
    # `suci run` tells of the workers that kill themselves.
    assert (done.returncode == 0) != ("--kill" in arguments), done.stderr
