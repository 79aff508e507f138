"""Ctrl-C once and twice, limits, two sweeps at once, a dead one's lock, and a run that grows."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.compute as pc
import pytest

from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.options import read_bytes, read_seconds
from ldpflow.run import Run, open_run
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import REPLICATES
from ldpflow.study import Study
from tests.faults.study import rewrite
from tests.kernels import uncompiled
from tests.studies import changed

# A batch of this takes minutes: what is stopped is a kernel that runs.
LONG = ["--n", "1e9", "--epsilon", "1", "--method", "BM", "--replicates", "64"]
SHORT = ["--n", "500", "--epsilon", "1", "--method", "BM", "--engine", "serial", "--quiet"]


def sweeping(run, *flags):
    """A serial sweep in a process of its own, once it computes."""
    command = [sys.executable, "-m", "ldpflow", "sweep", *LONG, "--engine", "serial"]
    process = subprocess.Popen(
        [*command, "--out", str(run), "--quiet", *flags], stderr=subprocess.PIPE, text=True
    )
    while process.poll() is None and not handles_termination(process.pid):
        time.sleep(0.05)
    return process


def handles_termination(pid):
    """Whether a process handles SIGTERM, as a sweep does while it computes."""
    caught = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
    return int(caught[1], 16) >> (signal.SIGTERM - 1) & 1


def ended(process, seconds):
    try:
        _, text = process.communicate(timeout=seconds)
    finally:
        process.kill()
    assert "Traceback" not in text, text
    return process.returncode, text


@pytest.mark.thorough
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, marks=pytest.mark.slow),  # a terminal that closes
    ],
)
def test_interrupted_once_while_a_kernel_runs(tmp_path, number):
    process = sweeping(tmp_path / "run")
    process.send_signal(number)
    code, text = ended(process, 60)
    assert code == 130
    assert "again to stop at once" in text and "Run the same command again" in text
    assert RunStore(tmp_path / "run").read_summary() is not None


def test_two_sweeps_at_once_and_the_lock_of_one_that_was_interrupted_twice(ldpflow, tmp_path):
    process = sweeping(tmp_path / "run")
    refused = ldpflow("sweep", *LONG, "--engine", "serial", "--out", tmp_path / "run")
    assert refused.code == 2
    assert f"process {process.pid}" in refused.err and os.uname().nodename in refused.err
    assert " sweep --n 1e9 " in refused.err, "its command"
    process.send_signal(signal.SIGINT)
    while "again to stop at once" not in (line := process.stderr.readline()):
        assert line, "the sweep has ended"
    process.send_signal(signal.SIGINT)
    code, text = ended(process, 60)
    assert (code, "stopped at once" in text) == (130, True)
    taken = ldpflow("sweep", *SHORT, "--replicates", "8", "--out", tmp_path / "run")
    assert taken.code == 0
    (line,) = taken.err.splitlines()
    assert line.startswith("ldpflow: warning: ") and f"lock of process {process.pid}" in line


@pytest.mark.parametrize("flags", [["--max-time", "1s"], ["--max-memory", "1M"]])
def test_limits(ldpflow, tmp_path, flags, monkeypatch):
    monkeypatch.setattr("ldpflow.engine.loop.DRAIN_SECONDS", 0.2)
    run = tmp_path / "run"
    assert ldpflow("sweep", *SHORT, "--replicates", "70", "--out", run).code == 0
    # What is dropped goes on in a thread of this process, to its end: seconds, and not minutes.
    seconds = ["1e8" if word == "1e9" else word for word in LONG]
    shown = ldpflow("sweep", "--n", "500", *seconds, "--engine", "serial", "--out", run, *flags)
    assert shown.code == 0 and "limit" in shown.err and "0 of 64 replicates" in shown.err
    assert open_run(run).summary()["replicates"].to_pylist() == [70], "what is there, and nothing that is not"
    shown = " ".join(ldpflow("summary", run).out.split())
    assert shown.startswith("Not finished: 0 of 64 replicates. To continue: ")


def test_the_summary_of_a_run_that_runs_missed_its_target_or_has_more_than_was_asked(
    ldpflow, tmp_path, monkeypatch
):
    run = tmp_path / "run"
    late = {"stopped": "the time limit of 1 s has passed"}
    target = {"command": "ldpflow sweep --target-mcse .04 --fresh", "precision": {"target_mcse": 0.04}}

    def heading(**session):
        monkeypatch.setattr(Run, "provenance", property(lambda _: [{"ended": "x"} | session]))
        shown = ldpflow("summary", run)
        assert shown.code == 0 and not shown.err
        return " ".join(shown.out.split()).partition(" coverage ")[0]

    for replicates in ("80", "60"):  # 80 are enough
        assert ldpflow("sweep", *SHORT, "--replicates", replicates, "--out", run).code == 0
        assert "inished" not in heading(**late) and "interrupted" not in heading(ended=None)
    said = "80 replicates or more of every path, which may not reach the target. To continue"
    shown = heading(ended=None, **target)
    assert shown.startswith(f"Running, or interrupted: {said} it, if it does not run: ldpflow")
    assert heading(**late, **target) == f"Not finished: {said}: ldpflow sweep --target-mcse .04"
    assert "target" not in heading(**target)


def test_a_run_of_trajectories_alone_says_that_it_is_not_finished(ldpflow, tmp_path, monkeypatch):
    uncompiled.use(monkeypatch)
    parts = {"problem": {"kind": "quadratic"}, "mechanism": {"kind": "gaussian", "mu": [1.0, 2.0]}}
    parts |= {"method": ..., "trajectory": {"points": 2}, "grid": {"n": 40}}
    study = Study.from_mapping(changed(replicates=4, **parts))
    run_study(study, tmp_path, engine="serial")
    assert "inished" not in ldpflow("summary", tmp_path).out
    monkeypatch.setattr(Run, "provenance", property(lambda _: [{"ended": "x", "stopped": "late"}]))
    monkeypatch.setattr("ldpflow.report.progress.stored_study", lambda _: study.replace({"replicates": 9}))
    said = "Not finished: 8 of 18 replicates. To continue: "
    assert " ".join(ldpflow("summary", tmp_path).out.split()).startswith(said)


def test_growing_and_starting_over_are_said(ldpflow, tmp_path):
    run = tmp_path / "run"
    flags = [flag for flag in SHORT if flag != "--quiet"]
    assert ldpflow("sweep", *flags, "--replicates", "70", "--out", run).err == ""
    grown = ldpflow("sweep", *flags, "--level", ".9", "--level", ".8", "--replicates", "80", "--out", run)
    assert "70 reused, 90 to compute" in grown.err
    fresh = ldpflow("sweep", *flags, "--seed", "1", "--replicates", "8", "--out", run, "--fresh")
    assert fresh.code == 0 and "old run was moved to" in fresh.err
    assert (tmp_path / "run.old-1" / "study.toml").is_file()


def test_rows_computed_again_must_equal_the_stored_ones(ldpflow, tmp_path):
    """As if another version of a kernel had written the run."""
    run = tmp_path / "run"
    assert ldpflow("sweep", *SHORT, "--replicates", "8", "--out", run).code == 0
    (part,) = (run / "replicates").rglob("*.parquet")
    at = REPLICATES.names.index("estimate")
    rewrite(part, lambda table, meta: table.set_column(at, REPLICATES[at], pc.add(table[at], 1e-15)))
    shown = ldpflow("sweep", *SHORT, "--replicates", "8", "--level", ".9", "--level", ".8", "--out", run)
    assert shown.code == 1
    assert "stored rows and rows computed again" in shown.err and "replicate = 0" in shown.err
    assert "ldpflow replay" in shown.err


def test_times_and_sizes():
    assert [*map(read_seconds, ("90", "1h30m", "1.5m"))] == [90, 5400, 90]
    assert [*map(read_bytes, ("500M", "8g", "1.5 GiB", "7"))] == [500 * 2**20, 2**33, 3 * 2**29, 7]
    for wrong in ("", "h", "-1", "2 h", "nan", "1e3", "2x", "٣", "0"):
        for read in (read_seconds, read_bytes):
            with pytest.raises(InputError):
                read(wrong)
