"""Faults that need a Ray of their own: a driver killed, a node lost and another joined.

python -m tests.faults.ray_scripts driver FOLDER KILLS SEED
python -m tests.faults.ray_scripts nodes FOLDER TRIALS
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

from tests.faults.on_ray import counted, on_ray
from tests.faults.study import serial, study, whole


def sweep(run: str) -> None:
    """The driver that is killed: a local Ray, rows published as they come."""
    from functools import partial
    from unittest import mock

    import ldpflow.engine.run
    from ldpflow.store import Aggregator

    small = partial(Aggregator, max_rows=1)
    with mock.patch.object(ldpflow.engine.run, "Aggregator", small):
        on_ray(Path(run), num_cpus=2)
    print("done", flush=True)


def driver_killed(work: Path, kills: int, seed: int) -> int:
    """Kill the driver with SIGKILL some time after its first part, resume each time."""
    chance = random.Random(seed)
    done = 0
    expected = serial(work / "expected")
    runs = 0
    while done < kills:
        run = work / f"run-{runs}"
        runs += 1
        for _ in range(3):
            command = [sys.executable, "-m", "tests.faults.ray_scripts", "sweep", str(run)]
            child = subprocess.Popen(
                command,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            before = len(list(run.rglob("*.parquet")))
            limit = time.monotonic() + 120
            while child.poll() is None and time.monotonic() < limit:
                if len(list(run.rglob("part-*.parquet"))) > before:
                    time.sleep(chance.random() * 0.2)
                    break
                time.sleep(0.005)
            if child.poll() is None:
                os.kill(child.pid, signal.SIGKILL)
                done += 1
            # Where it was not killed it was done, and not unable to start.
            assert child.wait() in (0, -signal.SIGKILL)
            if done >= kills:
                break
        # Its workers may write for seconds more: in this process, while they still may.
        warnings.simplefilter("ignore")
        serial(run)
        time.sleep(2.0)
        serial(run)
        whole(run, expected)
    return done


def node_lost(work: Path) -> str:
    """A node goes with its workers while batches run on it, and another comes."""
    import ray
    from ray.cluster_utils import Cluster

    expected = serial(work / "expected")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    doomed = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")

    lost = False

    def lose() -> None:
        """As soon as a batch has begun on the node; asked twice a second."""
        nonlocal lost
        files = Path(tasks.folder).iterdir()
        if not lost and any(file.read_text() == doomed.node_id for file in files):
            lost = True
            cluster.remove_node(doomed, allow_graceful=False)
            cluster.add_node(num_cpus=1)

    try:
        with counted(work, {}, seconds=2.0) as tasks:
            result = on_ray(work / "run", should_stop=lose)
        assert lost, "no batch came to that node"
        assert not result.failed_batches, result.failed_batches
        whole(work / "run", expected)
        started = tasks.invocations()
        assert len(started) == 3 * len(study().plans())
        assert sum(started.values()) > len(started), "no batch was lost with the node"
        return f"{sum(started.values())} invocations of {len(started)} batches"
    finally:
        ray.shutdown()
        cluster.shutdown()


def main(what: str, folder: str, *numbers: str) -> None:
    if what == "sweep":
        sweep(folder)
    elif what == "driver":
        kills, seed = map(int, numbers)
        print(f"{driver_killed(Path(folder), kills, seed)} kills")
    else:
        for trial in range(int(numbers[0])):
            work = Path(folder, f"trial-{trial}")
            work.mkdir()
            print(node_lost(work))
        print(f"{numbers[0]} nodes")


if __name__ == "__main__":
    main(*sys.argv[1:])
