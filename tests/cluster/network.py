"""Machines on one machine: Ray nodes in network namespaces of their own, each with its address.

Needs root and ``ip``. Everything made here is taken away again; no address but those of the
namespaces' own network is ever spoken to.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from tests.cluster.own_cluster import RAY_START, end, environment

NET = "10.213.77"
GCS_PORT = 6379


def ip(*words: object) -> None:
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True, timeout=30)


class Network:
    """A switch and machines: ``with Network() as network: network.node("head", 0, head=True)``."""

    def __init__(self) -> None:
        if os.geteuid() != 0 or shutil.which("ip") is None:
            pytest.skip("network namespaces need root and ip")
        self.id = f"ldp{secrets.token_hex(2)}"
        self.switch = f"{self.id}-switch"
        self.folder = Path(tempfile.mkdtemp(prefix="ldpn-", dir="/tmp"))
        (self.folder / "token").write_text(secrets.token_hex(32))
        self.machines: dict[str, int] = {}
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Network:
        try:
            ip("netns", "add", self.switch)
            ip("-n", self.switch, "link", "add", "name", "bridge", "type", "bridge")
        except subprocess.CalledProcessError as error:
            self.__exit__()
            pytest.skip(f"no network namespaces here: {error.stderr.decode()}")
        ip("-n", self.switch, "link", "set", "bridge", "up")
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self.nodes.values():
            if process.poll() is None:
                end(process)
        for name in [*(self.namespace(name) for name in self.machines), self.switch]:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def namespace(self, machine: str) -> str:
        return f"{self.id}-{machine}"

    def address(self, machine: str) -> str:
        return f"{NET}.{self.machines[machine]}"

    def machine(self, name: str) -> None:
        self.machines[name] = number = len(self.machines) + 1
        space, port = self.namespace(name), f"port{number}"
        ip("netns", "add", space)
        ip("-n", space, "link", "set", "lo", "up")
        ip(*f"link add eth0 netns {space} type veth peer name {port} netns {self.switch}".split())
        ip("-n", space, "addr", "add", f"{NET}.{number}/24", "dev", "eth0")
        ip("-n", space, "link", "set", "eth0", "up")
        ip("-n", self.switch, "link", "set", port, "master", "bridge", "up")

    def plugged(self, machine: str, plugged: bool) -> None:
        port = f"port{self.machines[machine]}"
        ip("-n", self.switch, "link", "set", port, "up" if plugged else "down")

    def start(self, machine: str, *command: object, **more: str) -> subprocess.Popen[bytes]:
        """A process on a machine, with its own session and compile cache; its output goes to a file."""
        own = {"LDPFLOW_CACHE_DIR": str(self.folder / f"cache-{machine}"), "RAY_DISABLE_IMPORT_WARNING": "1"}
        with open(self.folder / f"{machine}.log", "a") as log:
            return subprocess.Popen(
                ["ip", "netns", "exec", self.namespace(machine), *map(str, command)],
                env=environment(self.folder) | own | more, cwd=self.folder, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def node(self, machine: str, num_cpus: int, head: bool = False, **more: str) -> None:
        if machine not in self.machines:
            self.machine(machine)
        gcs = f"{self.address('head')}:{GCS_PORT}"
        where = f"--head --port {GCS_PORT} --include-dashboard true" if head else f"--address {gcs}"
        options = (
            f"{where} --block --node-ip-address {self.address(machine)} --num-cpus {num_cpus} "
            f"--object-store-memory {150 * 10**6} --temp-dir {self.folder / f't-{machine}'} "
            "--disable-usage-stats"
        )
        self.nodes[machine] = self.start(machine, *RAY_START, *options.split(), **more)
        deadline = time.monotonic() + 90
        while head and self.start("head", *RAY_START[:-1], "status", "--address", gcs).wait(120):
            assert time.monotonic() < deadline, self.log("head")
            time.sleep(1)

    def log(self, machine: str) -> str:
        return (self.folder / f"{machine}.log").read_text()

    def kill(self, machine: str) -> None:
        """A machine is gone: the other ends of its connections see no reset."""
        self.plugged(machine, False)
        end(self.nodes[machine])
