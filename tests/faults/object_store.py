"""An S3-speaking server (moto's, in this process) and a proxy before it that misbehaves."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import ldpflow.store.dataset
import ldpflow.store.files
from ldpflow.engine.loop import Progress
from ldpflow.engine.run import run_study
from ldpflow.errors import StorageError
from ldpflow.store.run_store import RunStore
from tests.faults.on_disk import small_parts
from tests.faults.study import row_bytes, serial, study, whole

BUCKET = "studies"
ACCESS = {
    "AWS_ACCESS_KEY_ID": "nobody",
    "AWS_SECRET_ACCESS_KEY": "nothing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class Proxy:
    """Passes connections on to the server, until a test has it refuse, slow down or cut.

    ``refused``, ``slow`` and ``cut`` count the connections that are still to be spoilt; a cut one
    ends after a few bytes of a request that puts a part. ``in_put`` is called with the number of such a
    request when half of its first bytes have gone to the server.
    """

    def __init__(self, port: int) -> None:
        self.upstream = port
        self.refused = self.slow = self.cut = 0
        self.spoilt = 0
        self.puts = 0  # of parts
        self.in_put: Callable[[int], None] | None = None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.spoil("refused"):
                # A reset, as where nobody listens.
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self.upstream))
            for pair in ((client, server, True), (server, client, False)):
                threading.Thread(target=self.pump, args=pair, daemon=True).start()

    def spoil(self, what: str) -> bool:
        left = getattr(self, what)
        if left > 0:
            setattr(self, what, left - 1)
            self.spoilt += 1
        return bool(left > 0)

    def pump(self, source: socket.socket, sink: socket.socket, asking: bool) -> None:
        try:
            while data := source.recv(65536):
                if asking and self.spoil("slow"):
                    time.sleep(0.5)
                if asking and data.startswith(b"PUT") and b"part-" in data:
                    half = len(data) // 2
                    if self.spoil("cut"):
                        sink.sendall(data[:half])
                        break
                    self.puts += 1
                    if self.in_put is not None:
                        sink.sendall(data[:half])
                        data = data[half:]
                        self.in_put(self.puts)
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def bucket() -> Iterator[Proxy]:
    """A server with one bucket; environment variables say where, as pyarrow looks for them."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line per request
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    proxy = Proxy(port)
    try:
        with mock.patch.dict(os.environ, ACCESS, AWS_ENDPOINT_URL=f"http://127.0.0.1:{proxy.port}"):
            address = f"http://127.0.0.1:{port}/{BUCKET}"
            urllib.request.urlopen(urllib.request.Request(address, method="PUT"), timeout=10)
            yield proxy
    finally:
        proxy.listener.close()
        server.stop()


def merged(work: Path, proxy: Proxy, trial: int) -> None:
    """Merge and start over at an s3:// address; run_machine sweeps, grows and damages there."""
    run = f"s3://{BUCKET}/merged-{trial}/run"
    one: dict[str, Any] = {"problem": {"kind": "quantile", "tau": 0.5}, "replicates": 64}
    with small_parts():
        expected = serial(run, study(**one))
    store = RunStore(run)
    with mock.patch.object(ldpflow.store.dataset, "MANY", 1):
        before = len(store.replicates.scan(damaged="refuse"))
        serial(run, study(**one))
        assert len(store.replicates.scan(damaged="refuse")) < before
    whole(run, expected)
    with pytest.warns(UserWarning, match="old run was moved"):
        serial(run, study(**one | {"seed": 9, "replicates": 4}), fresh=True)
    assert row_bytes(f"{run}.old-1") == expected


def disturbed(work: Path, proxy: Proxy, trial: int) -> None:
    what = ("refused", "slow", "cut")[trial % 3]
    run = f"s3://{BUCKET}/{what}-{trial}/run"
    setattr(proxy, what, 3)
    before = proxy.spoilt
    with small_parts():
        serial(run)
    assert proxy.spoilt > before
    whole(run)


def killed_in_put(work: Path, proxy: Proxy, trial: int) -> None:
    """The sweep is killed (SIGKILL) while a part goes to the store: half a part is none; it goes on."""
    run = f"s3://{BUCKET}/killed-{trial}/run"
    command = [sys.executable, "-m", "tests.faults.object_store", run]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    before = proxy.puts

    def kill(number: int) -> None:
        if number - before == 1 + trial % 4 and child.poll() is None:
            child.send_signal(signal.SIGKILL)
            child.wait()

    proxy.in_put = kill
    try:
        _, said = child.communicate(timeout=240)
    finally:
        proxy.in_put = None
        child.kill()
    assert child.returncode == -signal.SIGKILL, said
    parts = RunStore(run).replicates.scan(damaged="refuse")
    assert len(parts) <= trial % 4, "what was cut in its middle is not there"
    with small_parts(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the lock of a dead process is taken over
        serial(run)
    whole(run)


def down(work: Path, proxy: Proxy, trial: int) -> None:
    """The server is gone for longer than anybody waits: a clear error; back, it goes on."""
    run = f"s3://{BUCKET}/down-{trial}/run"

    def gone(event: Progress) -> None:
        if event.done_batches == 1 + trial % 4:
            proxy.cut = proxy.refused = 10**6

    with small_parts(), mock.patch.object(ldpflow.store.files, "PUT_PAUSES", (0.1, 0.1)):
        with pytest.raises(StorageError, match="run the same command again"):
            run_study(study(), run, engine="serial", on_event=gone)
        proxy.cut = proxy.refused = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # The lock's heartbeat could not be taken away either; this process is not dead.
            RunStore(run).filesystem.delete_file(RunStore(run).full("lock"))
            serial(run)
    whole(run)


if __name__ == "__main__":
    with small_parts():
        serial(sys.argv[1])
