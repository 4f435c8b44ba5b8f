"""Runs Dask's own tests of communication twice: as they are, over tcp, and with suci in its place.

    python distributed_tests.py [--source URL] [--json FILE]

The tests are fetched from a git repository, at the tag of the installed `distributed`, into a
temporary folder. A test that fails with suci and not with tcp is an error, except for those of
`OF_TCP`, which open a TCP connection themselves.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import distributed

SOURCE = os.environ.get("DISTRIBUTED_SOURCE", "https://github.com/dask/distributed")

FILES = ("distributed/comm/tests/test_comms.py", "distributed/tests/test_core.py")

OF_TCP = {"test_tcp_listener_does_not_call_handler_on_handshake_error[tornado]"}

#: What the tests name, and what stands for it.
REPLACED = (
    (r"tcp://", "suci://"),
    (r'"tcp:%', '"suci:%'),
    (r"import distributed\.comm\.tcp as tcp", "import suci_as_tcp as tcp"),
    (r"from distributed\.comm\.tcp import TCPBackend", "from suci_as_tcp import TCPBackend"),
    (r'"tcp"', '"suci"'),
    # The tests put their own handler where TCP's server has it.
    (r"listener\.tcp_server\.handle_stream = ", "listener._handle_stream = "),
)

SUCI_AS_TCP = """
from distributed.comm.tcp import *
from distributed.comm.tcp import TLSBackend, TLSConnector, TLSListener
from suci.dask import Suci as TCP, SuciBackend as TCPBackend
from suci.dask import SuciConnector as TCPConnector, SuciListener as TCPListener
"""

#: An address without a scheme is one of tcp to listeners, whatever the settings say.
LISTEN = """
import distributed.comm, distributed.comm.core, distributed.core

def _listen(addr, handle_comm, deserialize=True, _tcp=distributed.comm.core.listen, **kwargs):
    if "://" not in addr and not kwargs.get("ssl_context"):
        addr = "suci://" + addr
    return _tcp(addr, handle_comm, deserialize, **kwargs)

for _module in (distributed.comm, distributed.comm.core, distributed.core):
    _module.listen = _listen
"""

SETTINGS = """[pytest]
addopts = -q -p no:asyncio -p no:cacheprovider --tb=short
markers =
    slow
    workerstate
    extra_packages
"""


def fetch(source, folder):
    tag = distributed.__version__
    command = ["git", "clone", "-q", "--depth", "1", "--branch", tag, source, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"the tests of distributed {tag} are not at {source}: {done.stderr.strip()}")


def prepare(clone, folder, protocol):
    folder.mkdir()
    (folder / "pytest.ini").write_text(SETTINGS)
    # The wheel has no certificates. Some tests import their file in another process, too.
    certificates = (
        "import distributed.utils_test\n"
        f"_folder = {str(clone / 'distributed/tests')!r}\n"
        "distributed.utils_test.get_cert = lambda name: _folder + '/' + name\n"
    )
    future = "from __future__ import annotations\n"
    for file in FILES:
        text = (clone / file).read_text()
        if protocol == "suci":
            for pattern, replacement in REPLACED:
                text = re.sub(pattern, replacement, text)
        text = future + certificates + text.replace(future, "")
        (folder / Path(file).name).write_text(text)
    conftest = (clone / "conftest.py").read_text().replace(future, "")
    listen = LISTEN if protocol == "suci" else ""
    (folder / "conftest.py").write_text(future + listen + conftest)
    (folder / "suci_as_tcp.py").write_text(SUCI_AS_TCP)


def run(folder, protocol):
    """The outcome of each test, by its name."""
    environment = dict(os.environ)
    if protocol == "suci":
        environment["DASK_DISTRIBUTED__COMM__DEFAULT_SCHEME"] = "suci"
        environment["DASK_DISTRIBUTED__COMM__SUCI__ALLOW_INSECURE_NETWORK"] = "True"
    report = folder / "report.xml"
    names = [Path(file).name for file in FILES]
    command = [sys.executable, "-m", "pytest", f"--junitxml={report}", *names]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1200
    )
    if not report.exists():
        said = done.stdout[-2000:] + done.stderr[-2000:]
        sys.exit(f"the tests did not run over {protocol}: {said}")
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        failed = kinds & {"failure", "error"}
        outcomes[case.get("name")] = "fail" if failed else "skip" if "skipped" in kinds else "pass"
    return outcomes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", default=SOURCE)
    parser.add_argument("--json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "clone")
        fetch(options.source, clone)
        results = {}
        for protocol in ("tcp", "suci"):
            prepare(clone, Path(folder, protocol), protocol)
            results[protocol] = run(Path(folder, protocol), protocol)
    fails = {
        protocol: sorted(name for name, outcome in outcomes.items() if outcome == "fail")
        for protocol, outcomes in results.items()
    }
    worse = sorted(set(fails["suci"]) - set(fails["tcp"]) - OF_TCP)
    for protocol, outcomes in results.items():
        passed = sum(outcome == "pass" for outcome in outcomes.values())
        failed = ", ".join(fails[protocol])
        print(f"{protocol}: {passed} pass, {len(fails[protocol])} fail: {failed}")
    if options.json:
        Path(options.json).write_text(json.dumps({"fails": fails, "worse": worse}))
    if worse:
        sys.exit(f"suci fails where tcp does not: {', '.join(worse)}")


if __name__ == "__main__":
    main()
