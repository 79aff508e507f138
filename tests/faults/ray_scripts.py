"""Faults that need a Ray of their own: a driver killed, a node lost and another joined.

python -m tests.faults.ray_scripts driver FOLDER KILLS SEED
python -m tests.faults.ray_scripts nodes|lost|early|joined|shm FOLDER TRIALS
"""

import itertools
import os
import random
import re
import signal
import subprocess
import sys
import time
import warnings
from contextlib import nullcontext
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
    with small_parts():
        on_ray(Path(run), num_cpus=2)
    print("done", flush=True)


def driver_killed(work: Path, kills: int, seed: int) -> int:
    """Kill the driver with SIGKILL some time after its first part, resume each time."""
    chance = random.Random(seed)
    done = 0
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
        whole(run)
        if done >= kills:
            return done


def node_lost(work: Path) -> str:
    """A node goes with its workers while batches run on it, and another comes."""
    import ray
    from ray.cluster_utils import Cluster

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
        whole(work / "run")
        started = tasks.invocations()
        assert len(started) == 3 * len(study().plans())
        assert sum(started.values()) > len(started), "no batch was lost with the node"
        return f"{sum(started.values())} invocations of {len(started)} batches"
    finally:
        ray.shutdown()
        cluster.shutdown()


def lost(work: Path, name: str, how: str) -> str:
    """The raylet, or the head's GCS, of a sweep's Ray is killed: one message, and a summary.

    ``how``: the Ray is its own, or was ``joined``; ``early``: before the first batch.
    """
    long = study(replicates=60_000, grid={"n": [200_000], "level": [0.9]})  # minutes on one core
    early, run = how == "early", work / "run"
    with (
        own_cluster(num_cpus=1) if how == "joined" else nullcontext() as cluster,
        open(work / "said", "w+") as said,
    ):
        where = ["--num-cpus", "1"] if cluster is None else ["--address", cluster.gcs]
        command, environment = sweep_command(work, long, *where), cluster and cluster.environment
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said, env=environment)

        def victims() -> list[int]:
            if cluster is not None:
                return processes_of(name, str(cluster.folder))
            return [process for process, found in ray_processes(child.pid).items() if found == name]

        limit = time.monotonic() + 180
        while not (victims() if early else list(run.rglob("part-*.parquet"))):
            assert child.poll() is None and time.monotonic() < limit, (work / "said").read_text()
            time.sleep(0.05)
        if early:
            time.sleep(1.5)  # the watch looks once a second
        for victim in victims():
            os.kill(victim, signal.SIGKILL)
        killed = time.monotonic()
        try:
            child.wait(timeout=180)
        finally:
            child.kill()
        seconds = time.monotonic() - killed
    text = (work / "said").read_text()
    assert child.returncode == 1 and "Traceback" not in text, f"exit code {child.returncode}: {text}"
    (line,) = (line for line in text.splitlines() if line.startswith("ldpflow: "))
    # ``ray start --block`` ends the raylet when the GCS is gone, and either may be noticed first.
    assert re.search(rf"Ray's (raylet|{name}) .*has died.*run the same command again", line)
    assert not early or seconds < 20, seconds
    if not early:
        assert RunStore(run).read_summary() is not None
        findings = [finding.what for finding in check_run(str(run))[0]]
        assert all("replicates missing" in finding for finding in findings), findings
    return f"{name}: ended {seconds:.1f} s later, load {os.getloadavg()[0]:.0f}"


def sweep_command(work: Path, what: Study, *options: str) -> list[str]:
    (work / "study.toml").write_text(what.to_toml())
    words = f"-m ldpflow sweep {work / 'study.toml'} --out {work / 'run'} --engine ray --quiet"
    return [sys.executable, *words.split(), *options]


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
    sweep = " ".join(sweep_command(work, study()))
    hide = f"mount -t tmpfs -o ro,size=4k tmpfs /dev/shm && exec {sweep}"
    command = ["unshare", "--mount", "sh", "-c", hide]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    whole(work / "run")
    return "no /dev/shm"


def trial(what: str, work: Path, name: str) -> str:
    if what == "nodes":
        return node_lost(work)
    return without_shared_memory(work) if what == "shm" else lost(work, name, what)


def main(what: str, folder: str, count: str = "1", seed: str = "") -> None:
    if what == "sweep":
        sweep(folder)
    elif what == "driver":
        print(f"{driver_killed(Path(folder), int(count), int(seed))} kills")
    else:
        for number in range(int(count)):
            work = Path(folder, f"{what}-{number}")
            work.mkdir()
            print(trial(what, work, ("raylet", "gcs_server")[number % 2]), flush=True)
        print(f"{count} trials")


if __name__ == "__main__":
    main(*sys.argv[1:])
