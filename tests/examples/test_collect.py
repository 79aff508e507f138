"""examples/collect: reports survive crashes, each is counted once, and the transcript gives an interval."""

from __future__ import annotations

import csv
import importlib
import os
import re
import resource
import signal
import subprocess
import sys
import time
import urllib.request
from fractions import Fraction
from pathlib import Path
from unittest import mock

import mpmath
import numpy as np
import pytest

from ldpflow.cli import main

FOLDER = Path(__file__).parents[2] / "examples" / "collect"
DESIGN = {"tau": 0.9, "epsilon": 1.0, "gamma": 0.51, "c": 40.0, "theta0": 20.0}


@pytest.fixture
def module(monkeypatch):
    """Modules of the example by name."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


class Collector:
    """A server in a process of its own."""

    def __init__(self, folder, port=0):
        flags = [part for name, value in DESIGN.items() for part in (f"--{name}", repr(value))]
        command = [sys.executable, FOLDER / "server.py", "--folder", folder, "--port", str(port), *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        said = self.process.stdout.readline()
        self.port = int(re.search(r":(\d+),", said)[1])
        self.found = int(re.search(r", (\d+) reports", said)[1])

    def reports(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/state") as answer:
            return int(re.search(rb'"reports":\s*(\d+)', answer.read())[1])

    def stop(self, how):
        self.process.send_signal(how)
        self.process.wait(timeout=300)
        self.process.stdout.close()


def lines_of(folder):
    with open(folder / "transcript.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_users_and_two_crashes(tmp_path):
    pytest.importorskip("flask")
    users = 250
    collector = Collector(tmp_path)
    port = collector.port
    load = subprocess.Popen(
        [sys.executable, FOLDER / "load_test.py", "--port", str(port), "--users", str(users)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        for enough in (60, 140):
            while collector.reports() < enough:
                time.sleep(0.02)
            collector.stop(signal.SIGKILL)
            collector = Collector(tmp_path, port)
            assert collector.found >= enough
        said, _ = load.communicate(timeout=120)
    finally:
        load.kill()
        collector.stop(signal.SIGTERM)
    counted = int(re.match(rf"([\d,]+) of {users:,}", said)[1].replace(",", ""))
    lines = lines_of(tmp_path)
    # A crash costs at most the users who were just answering: four at a time, two crashes.
    assert users - 8 <= counted == len(lines) <= users
    assert len({line["user"] for line in lines}) == len(lines)
    assert [int(line["round"]) for line in lines] == list(range(1, len(lines) + 1))


def begun(module, tmp_path, reports=5):
    transcript = module("transcript")
    state = transcript.Transcript(tmp_path / "transcript.csv", transcript.Design(**DESIGN))
    for i in range(reports):
        assert state.add(f"{i:032x}", i + 1, i % 2)
    state.close()
    return transcript, state


def test_what_was_collected_is_analysed(module, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    transcript = module("transcript")
    state = transcript.Transcript(tmp_path / "transcript.csv", transcript.Design(**DESIGN))
    rng = np.random.default_rng(5)
    p = 1 / (1 + np.exp(-1.0))
    for i in range(1100):
        below = rng.normal(0.0, 30.0) < state.theta
        assert state.add(f"{i:032x}", i + 1, int(below == (rng.random() < p)))
    state.close()
    settings = str(tmp_path / "settings.toml")
    assert main(["analyse", str(tmp_path / "transcript.csv"), "--settings", settings]) in (0, 1)
    printed = capsys.readouterr()
    assert "1,100 reports" in printed.out and printed.err == ""


def test_a_line_that_was_cut_off(module, tmp_path):
    transcript, before = begun(module, tmp_path)
    file = tmp_path / "transcript.csv"
    whole = file.read_bytes()
    for cut in range(1, len(whole.splitlines()[-1]) + 1):
        file.write_bytes(whole[:-cut])
        state = transcript.Transcript(file, transcript.Design(**DESIGN))
        assert state.round == 5 and f"{4:032x}" not in state.reported
        assert state.add(f"{4:032x}", 5, 0)
        state.close()
        assert file.read_bytes() == whole and state.theta == before.theta


def bit_at(i, state):
    return state.add(f"{i:032x}", i + 1, i % 2)


def test_a_full_disk(module, tmp_path):
    """A report that cannot be written whole is not counted, leaves nothing, and counts when it is sent again.

    The limit of a file's size stands for the disk: the line is cut in the middle, as by a full one.
    """
    transcript, before = begun(module, tmp_path)
    file = tmp_path / "transcript.csv"
    whole = file.read_bytes()
    state = transcript.Transcript(file, transcript.Design(**DESIGN))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 10, hard))
    try:
        for _ in range(3):  # the device sends it again and again
            with pytest.raises(OSError):
                bit_at(5, state)
            assert file.read_bytes() == whole and state.theta == before.theta
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert bit_at(5, state) and not bit_at(5, state) and bit_at(6, state)
    state.close()
    again = transcript.Transcript(file, transcript.Design(**DESIGN))
    assert again.round == 8 and again.theta == state.theta
    again.close()
    assert [line["round"] for line in lines_of(tmp_path)] == [str(i) for i in range(1, 8)]


def test_a_disk_that_loses_what_it_took(module, tmp_path, monkeypatch):
    """After a failed fsync nobody knows what is on the disk: no report is counted until a new start."""
    transcript, _ = begun(module, tmp_path)
    file = tmp_path / "transcript.csv"
    state = transcript.Transcript(file, transcript.Design(**DESIGN))

    def fails(descriptor):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fails)
        with pytest.raises(OSError):
            bit_at(5, state)
    with pytest.raises(OSError, match="start"):
        bit_at(5, state)
    state.close()
    state = transcript.Transcript(file, transcript.Design(**DESIGN))
    assert state.round == 6 and bit_at(5, state)
    state.close()


def test_a_server_on_a_full_disk_asks_the_same_user_again(module, tmp_path, monkeypatch):
    pytest.importorskip("flask")
    transcript = module("transcript")
    state = transcript.Transcript(tmp_path / "transcript.csv", transcript.Design(**DESIGN))
    app = module("server").application(state)
    user = app.test_client()
    asked = user.post("/ask").get_json()
    report = {"user": asked["user"], "round": 1, "report": 1}

    def full(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(transcript.Transcript, "add", full)
        refused = user.post("/report", json=report)
    assert refused.status_code == 503 and "error" in refused.get_json()
    assert user.post("/report", json=report).get_json() == {"counted": True, "new": True}
    assert user.post("/ask").get_json()["round"] == 2
    state.close()


def test_two_servers_on_one_folder(module, tmp_path):
    transcript, _ = begun(module, tmp_path)
    file = tmp_path / "transcript.csv"
    first = transcript.Transcript(file, transcript.Design(**DESIGN))
    with pytest.raises(SystemExit, match="another collector"):
        transcript.Transcript(file, transcript.Design(**DESIGN))
    assert bit_at(5, first)
    first.close()
    second = transcript.Transcript(file, transcript.Design(**DESIGN))
    assert second.round == 7
    second.close()


@pytest.mark.parametrize("byte", [b"\r", b"\n", b",", b"\xff", b"\x00", b"7", b"1"])
def test_any_damaged_byte_is_refused(module, tmp_path, byte):
    """Nothing after it is cut off: those reports were confirmed."""
    transcript, _ = begun(module, tmp_path)
    file = tmp_path / "transcript.csv"
    whole = file.read_bytes()
    third = whole.index(b"\n2,") + 1
    for at in range(third, third + 20):
        if whole[at : at + 1] == byte:
            continue
        file.write_bytes(whole[:at] + byte + whole[at + 1 :])
        with pytest.raises(SystemExit, match="line 3"):
            transcript.Transcript(file, transcript.Design(**DESIGN))
        assert len(file.read_bytes()) == len(whole)


def test_an_answer_that_came_too_late_lets_the_next_user_be_asked(module, tmp_path, monkeypatch):
    """After a crash the user who was just answering reports, while the question is lent to another."""
    pytest.importorskip("flask")
    transcript = module("transcript")
    state = transcript.Transcript(tmp_path / "transcript.csv", transcript.Design(**DESIGN))
    monkeypatch.setattr(module("server"), "WAIT_SECONDS", 0.1)
    app = module("server").application(state)
    user = app.test_client()
    asked = user.post("/ask").get_json()
    assert user.post("/report", json={"user": "a" * 32, "round": 1, "report": 1}).status_code == 200
    late = {"user": asked["user"], "round": 1, "report": 0}
    assert user.post("/report", json=late).status_code == 409
    assert user.post("/ask").get_json()["round"] == 2
    state.close()


def test_another_design_is_refused(module, tmp_path):
    transcript, _ = begun(module, tmp_path)
    with pytest.raises(SystemExit, match="another design"):
        transcript.Transcript(tmp_path / "transcript.csv", transcript.Design(**(DESIGN | {"epsilon": 2.0})))


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 10), Fraction(16), Fraction(2.5)])
def test_the_probability_is_exact(module, epsilon):
    weight = module("randomiser").keep_weight(epsilon)
    with mpmath.mp.workdps(60):
        exact = 2**64 / (1 + mpmath.exp(-mpmath.mpf(epsilon.numerator) / epsilon.denominator))
        assert weight == int(mpmath.floor(exact))


def test_the_randomiser_keeps_the_bit_as_often(module, monkeypatch):
    """40,000 bits with seeded draws in the place of the system's: five standard deviations, 6e-7."""
    randomiser = module("randomiser")
    rng = np.random.default_rng(3)
    monkeypatch.setattr(
        randomiser.secrets, "randbelow", lambda n: int(rng.integers(0, n, dtype=np.uint64))
        if n < 2**64 else int.from_bytes(rng.bytes(8), "little"),
    )  # fmt: skip
    weight = randomiser.keep_weight(Fraction(1))
    p = 1 / (1 + np.exp(-1.0))
    for bit in (0, 1):
        kept = sum(randomiser.randomised(bit, weight) == bit for _ in range(20_000)) / 20_000
        assert abs(kept - p) < 5 * np.sqrt(p * (1 - p) / 20_000)


def test_a_device_sends_the_same_report_again(module, monkeypatch):
    client = module("client")
    connection = mock.Mock()
    connection.request.side_effect = [None, ConnectionResetError, ConnectionResetError, None]
    connection.getresponse.return_value.status = 200
    connection.getresponse.return_value.read.return_value = (
        b'{"user": "u", "round": 3, "theta": 1.5, "epsilon": 1.0}'
    )
    monkeypatch.setattr(client.http.client, "HTTPConnection", lambda *where, **options: connection)
    monkeypatch.setattr(client, "randomised", lambda bit, weight: connection.request.call_count % 2)
    assert client.Device(1.0, Fraction(1)).take_part("h", 1)
    sent = [call.args[1:3] for call in connection.request.call_args_list]
    assert [path for path, _ in sent] == ["/ask", "/report", "/report", "/report"]
    assert len({body for _, body in sent[1:]}) == 1


def test_a_device_keeps_to_its_budget(module, monkeypatch):
    client = module("client")
    question = {"user": "u", "round": 1, "theta": 0.0, "epsilon": 3.0}
    monkeypatch.setattr(client.Device, "post", lambda *arguments: question)
    with pytest.raises(ValueError, match="at most 1"):
        client.Device(0.0, Fraction(1)).take_part("h", 1)
