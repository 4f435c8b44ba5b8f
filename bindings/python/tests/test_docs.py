"""The programs of docs/python.md and README.md print what the pages say."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from conftest import ROOT, suci_command

BLOCK = re.compile(r"```python\n(.*?)```\n(?:```text\n(.*?)```)?", re.DOTALL)


def programs():
    for page in ("docs/python.md", "bindings/python/README.md"):
        for source, output in BLOCK.findall((ROOT / page).read_text()):
            first = source.splitlines()[0]
            name, _, command = first.lstrip("# ").partition(": ")
            if not command:
                name, command, output = "readme.py", "python readme.py", "b'hello'\n"
            yield pytest.param(name, command, source, output, id=name)


@pytest.mark.parametrize("name, command, source, output", list(programs()))
def test_program(tmp_path, name, command, source, output):
    if "distributed" in source:
        pytest.importorskip("distributed")
    if "match " in source and sys.version_info < (3, 10):
        pytest.skip("match needs Python 3.10")
    (tmp_path / name).write_text(source)
    words = shlex.split(command)
    if words[0] == "suci":
        words[0] = suci_command()
        if words[0] is None:
            pytest.skip("this wheel was built without the command suci: make python")
    words = [sys.executable if word == "python" else word for word in words]
    # With it, a line is written in two parts, and those of several processes mix.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert sorted(done.stdout.splitlines()) == sorted(output.splitlines()), done.stderr
    # A worker of the farm dies, which `suci run` reports.
    assert (done.returncode == 0) != (name == "farm.py"), done.stderr
