"""Faults that need a Ray of their own: a driver killed, a node lost and another joined.

python -m tests.faults.ray_scripts driver FOLDER KILLS SEED
python -m tests.faults.ray_scripts nodes|lost|early|joined|shm FOLDER TRIALS
"""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ldpflow.engine import ray_executor
from ldpflow.engine.check import check_run
from ldpflow.engine.ray_executor import ray_processes
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study
from tests.cluster.own_cluster import own_cluster
from tests.faults.on_disk import small_parts
from tests.faults.on_ray import counted, on_ray
from tests.faults.study import serial, study, whole


def sweep(run: str) -> None:
    """The driver that is killed: a local Ray, rows published as they come."""
    with small_parts():
        on_ray(Path(run), num_cpus=2)
    print("done", flush=True)


def driver_killed(work: Path, kills: int, seed: int) -> int:
    """Kill the driver with SIGKILL some time after its first part, resume each time."""
    chance = random.Random(seed)
    done = 0
    expected = serial(work / "expected")
    for number in itertools.count():
        run = work / f"run-{number}"
        for _ in range(3):
            command = [sys.executable, "-m", "tests.faults.ray_scripts", "sweep", str(run)]
            quiet = subprocess.DEVNULL
            child = subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True)
            before = len(list(run.rglob("*.parquet")))
            limit = time.monotonic() + 120
            while child.poll() is None and time.monotonic() < limit:
                if len(list(run.rglob("part-*.parquet"))) > before:
                    break
                time.sleep(0.005)
            time.sleep(chance.random() * 0.2)
            done += child.poll() is None
            child.kill()
            # Where it was not killed it was done, and not unable to start.
            assert child.wait() in (0, -signal.SIGKILL)
        # Its workers may write for seconds more: in this process, while they still may.
        warnings.simplefilter("ignore")
        serial(run)
        time.sleep(2.0)
        serial(run)
        whole(run, expected)
        if done >= kills:
            return done


def node_lost(work: Path) -> str:
    """A node goes with its workers while batches run on it, and another comes."""
    import ray
    from ray.cluster_utils import Cluster

    expected = serial(work / "expected")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    doomed = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")

    aggregator = ray_executor.new_aggregator(lambda: None)
    there = aggregator.__ray_call__.remote(lambda self: ray.get_runtime_context().get_node_id())
    here = ray.get_runtime_context().get_node_id()
    assert ray.get(there) == here, "rows go through the driver's node, which may be the only one to store"
    lost = False

    def lose() -> None:
        """As soon as a batch has begun on the node; asked twice a second."""
        nonlocal lost
        if not lost and any(file.read_text() == doomed.node_id for file in tasks.folder.iterdir()):
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


def process_lost(work: Path, name: str, early: bool = False) -> str:
    """The raylet, or the head's GCS, of a sweep's own Ray is killed: one message, and a summary.

    ``early``: as soon as the process is there, before the first batch.
    """

    def own(child: int) -> list[int]:
        return [process for process, found in ray_processes(child).items() if found == name]

    return lost(work, name, ["--num-cpus", "1"], dict(os.environ), own, early)


def joined_lost(work: Path, name: str) -> str:
    """The same of a cluster that the sweep has joined, of which it has started no process."""
    with own_cluster(num_cpus=1) as cluster:
        folder = str(cluster.folder)
        where = ["--address", cluster.gcs]
        return lost(work, name, where, cluster.environment, lambda child: processes_of(name, folder))


def lost(
    work: Path,
    name: str,
    where: list[str],
    environment: dict[str, str],
    victims: Callable[[int], list[int]],
    early: bool = False,
) -> str:
    """Sweep on Ray, kill a process early or after a part is there; the seconds to the end."""
    long = study(replicates=60_000, grid={"n": [200_000], "level": [0.9]})  # minutes on one core
    command, run = sweep_command(work, long, *where), work / "run"
    with open(work / "said", "w") as said_to:
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said_to, env=environment)
        limit = time.monotonic() + 180
        while not (victims(child.pid) if early else list(run.rglob("part-*.parquet"))):
            assert child.poll() is None and time.monotonic() < limit, (work / "said").read_text()
            time.sleep(0.05)
        if early:
            time.sleep(1.5)  # the watch looks once a second
        seconds, line = end_of(child, victims(child.pid), work / "said")
    # ``ray start --block`` ends the raylet when the GCS is gone, and either may be noticed first.
    assert re.search(rf"Ray's (raylet|{name}) .*has died", line)
    text = f"{name}: ended {seconds:.1f} s later, load {os.getloadavg()[0]:.0f}"
    if early:
        assert seconds < 20, text
        return text
    assert RunStore(run).read_summary() is not None
    findings = [finding.what for finding in check_run(str(run))[0]]
    assert all("replicates missing" in finding for finding in findings), findings
    return text


def sweep_command(work: Path, what: Study, *options: str) -> list[str]:
    (work / "study.toml").write_text(what.to_toml())
    words = f"-m ldpflow sweep {work / 'study.toml'} --out {work / 'run'} --engine ray --quiet"
    return [sys.executable, *words.split(), *options]


def end_of(child: subprocess.Popen[bytes], victims: list[int], said_to: Path) -> tuple[float, str]:
    """Kill processes of Ray; the seconds until the sweep has ended by itself, and its message."""
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    killed = time.monotonic()
    try:
        child.wait(timeout=180)
    finally:
        child.kill()
    seconds = time.monotonic() - killed
    said = said_to.read_text()
    assert child.returncode == 1 and "Traceback" not in said, f"exit code {child.returncode}: {said}"
    (line,) = (line for line in said.splitlines() if line.startswith("ldpflow: "))
    assert "run the same command again" in line
    return seconds, line


def processes_of(name: str, folder: str) -> list[int]:
    """Processes whose program has this name and that were given this folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            program, *rest = entry.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if program.endswith(f"/{name}") and any(folder in part for part in rest):
            found.append(int(entry.parent.name))
    return found


def without_shared_memory(work: Path) -> str:
    """/dev/shm cannot be written to: Ray keeps its objects elsewhere, and the rows are the same."""
    expected = serial(work / "expected")
    sweep = " ".join(sweep_command(work, study()))
    hide = f"mount -t tmpfs -o ro,size=4k tmpfs /dev/shm && exec {sweep}"
    command = ["unshare", "--mount", "sh", "-c", hide]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    whole(work / "run", expected)
    return "no /dev/shm"


TRIALS: dict[str, Callable[[Path, str], str]] = {
    "lost": process_lost,
    "joined": joined_lost,
    "early": partial(process_lost, early=True),
    "nodes": lambda work, name: node_lost(work),
    "shm": lambda work, name: without_shared_memory(work),
}


def main(what: str, folder: str, count: str = "1", seed: str = "") -> None:
    if what == "sweep":
        sweep(folder)
    elif what == "driver":
        print(f"{driver_killed(Path(folder), int(count), int(seed))} kills")
    else:
        for trial in range(int(count)):
            work = Path(folder, f"{what}-{trial}")
            work.mkdir()
            print(TRIALS[what](work, ("raylet", "gcs_server")[trial % 2]), flush=True)
        print(f"{count} trials")


if __name__ == "__main__":
    main(*sys.argv[1:])
