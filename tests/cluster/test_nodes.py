"""Several nodes with addresses of their own, the driver on a head without cores; rows in S3.

One node is killed while batches run on it, one loses its network for half a minute, and another
joins late. Needs root: a machine's cable is pulled in a network namespace.
"""

import time

import pytest

from tests.cluster.network import GCS_PORT, Network
from tests.faults.object_store import ACCESS, BUCKET
from tests.faults.study import serial, study, whole

PORT = 5999


def started_on(folder):
    return [file.read_text() for file in folder.glob("*.*")]


def until(condition, seconds, network):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, network.log("head")[-3000:]
        time.sleep(0.2)


@pytest.fixture
def network():
    with Network() as network:
        yield network


@pytest.fixture
def store(network):
    """moto's server on the head's machine, and how the head and this test reach it."""
    network.machine("head")
    server = network.start("head", "python", "-m", "moto.server", "-H", "0.0.0.0", "-p", PORT)
    network.nodes["store"] = server
    yield ACCESS | {"AWS_ENDPOINT_URL": f"http://{network.address('head')}:{PORT}"}


MAKE_BUCKET = """
import time, urllib.request
for _ in range(100):
    try:
        urllib.request.urlopen(urllib.request.Request({url!r}, method="PUT"), timeout=5)
        break
    except OSError:
        time.sleep(0.3)
else:
    raise SystemExit("no store")
"""

DRIVER = """
import sys
from pathlib import Path
from unittest import mock

from ldpflow.engine.run import run_study
from ldpflow.study import load_study
from tests.faults.on_ray import counted

gcs, run, counts, study = sys.argv[1:]
with counted(Path(counts), {}, seconds=2.0), mock.patch("ldpflow.engine.batching.TARGET_SECONDS", 1e-9):
    result = run_study(load_study(study), run, address=gcs)
assert not result.failed_batches, result.failed_batches
"""

FETCH = "from pyarrow import fs; fs.copy_files({source!r}, {target!r})"


@pytest.mark.slow
def test_nodes_come_and_go(tmp_path, network, store):
    expected = serial(tmp_path / "expected", big := study(replicates=32 * 20))
    url = f"{store['AWS_ENDPOINT_URL']}/{BUCKET}"
    made = network.start("head", "python", "-c", MAKE_BUCKET.format(url=url))
    assert made.wait(120) == 0, network.log("head")
    # The head alone has credentials.
    network.node("head", 0, head=True, **store)
    for name in ("kept", "killed", "cut"):
        network.node(name, 1)
    counts = tmp_path / "counts"
    run = f"s3://{BUCKET}/run"
    script = tmp_path / "study.toml"
    script.write_text(big.to_toml())
    command = ["python", "-c", DRIVER, f"{network.address('head')}:{GCS_PORT}"]
    driver = network.start("head", *command, run, counts, script, **store)
    started = time.monotonic()
    invocations = counts / "invocations"
    until(lambda: len(set(started_on(invocations))) == 3, 120, network)

    def note(what):
        print(f"{time.monotonic() - started:5.1f} s  {what}", flush=True)

    note("three nodes have batches")
    network.kill("killed")
    note("a node is killed")
    network.node("late", 1)
    note("another is started")
    network.plugged("cut", False)
    note("a node's network is cut")
    time.sleep(30)
    network.plugged("cut", True)
    note("and back")
    until(lambda: len(set(started_on(invocations))) >= 4, 60, network)
    note("the late node has batches")
    until(lambda: driver.poll() is not None, 240, network)
    note("done")
    assert driver.returncode == 0, network.log("head")[-5000:]

    batches = 20 * len(big.plans())
    ran = started_on(invocations)
    note(f"{len(ran)} invocations of {batches} batches on {len(set(ran))} nodes")
    assert batches < len(ran) <= batches + 3 * 2, "no more than what the two nodes had"
    # Kernels were compiled on each node, once, on its own disk; the killed one had no time for it.
    for name in ("kept", "cut", "late"):
        assert list((network.folder / f"cache-{name}" / "kernels").glob("*.py")), name
    fetched = tmp_path / "run"
    copied = network.start("head", "python", "-c", FETCH.format(source=run, target=str(fetched)), **store)
    assert copied.wait(60) == 0, network.log("head")[-2000:]
    whole(fetched, expected)
