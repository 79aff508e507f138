"""A Ray cluster of this test's own, as ``ray start`` makes it: token, dashboard, jobs, metrics.

It listens on 127.0.0.1 alone, on ports that were free, and ends with the processes that were
started here; ``ray stop`` would end everybody's.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
START_SECONDS = 60.0
RAY_START = [sys.executable, "-m", "ray.scripts.scripts", "start"]


@dataclass
class OwnCluster:
    """Where it is, and an environment for those who may use it."""

    folder: Path
    address: str  # of the dashboard
    gcs: str
    metrics: str
    environment: dict[str, str]

    @property
    def token(self) -> str:
        return (self.folder / "token").read_text()

    def run(self, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", *map(str, words)],
            env={**self.environment, **environment}, capture_output=True, text=True, timeout=300,
        )  # fmt: skip


def free_ports(count: int) -> list[int]:
    found: set[int] = set()
    while len(found) < count:
        port = 20000 + secrets.randbelow(10000)
        with socket.socket() as trial, suppress(OSError):
            trial.bind(("127.0.0.1", port))
            found.add(port)
    return [*found]


def environment(folder: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "AWS_"))}
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}",
        "PYTHONPATH": str(ROOT),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(folder / "token"),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_metrics_report_interval_ms": "500",
        "COLUMNS": "100",
        "NO_COLOR": "1",
    }


@contextmanager
def own_cluster(num_cpus: int = 2) -> Iterator[OwnCluster]:
    # Ray's sockets allow no long path.
    folder = Path(tempfile.mkdtemp(prefix="ldpflow-", dir="/tmp"))
    (folder / "token").write_text(secrets.token_hex(32))
    gcs, dashboard, metrics, agent, client = free_ports(5)
    env = environment(folder)
    options = (
        f"--head --block --node-ip-address 127.0.0.1 --port {gcs} --dashboard-port {dashboard} "
        f"--metrics-export-port {metrics} --dashboard-agent-listen-port {agent} "
        f"--ray-client-server-port {client} --min-worker-port 0 --max-worker-port 0 --num-cpus {num_cpus} "
        f"--object-store-memory {200 * 10**6} --temp-dir {folder} --disable-usage-stats"
    )
    with open(folder / "start.log", "w") as log:
        head = subprocess.Popen(
            [*RAY_START, *options.split()], env=env, cwd=folder,
            stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    http = "http://127.0.0.1"
    cluster = OwnCluster(folder, f"{http}:{dashboard}", f"127.0.0.1:{gcs}", f"{http}:{metrics}", env)
    try:
        wait_for_jobs(cluster, head)
        yield cluster
    finally:
        end(head)
        shutil.rmtree(folder, ignore_errors=True)


def wait_for_jobs(cluster: OwnCluster, head: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    request = urllib.request.Request(
        f"{cluster.address}/api/jobs/", headers={"Authorization": f"Bearer {cluster.token}"}
    )
    while True:
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                json.load(answer)
                return
        except OSError:
            log = (cluster.folder / "start.log").read_text()
            assert head.poll() is None and time.monotonic() < deadline, log
            time.sleep(0.2)


def end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(10)
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = entry.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[3]) == process.pid:
                os.kill(int(entry.parent.name), signal.SIGKILL)
    process.wait()
