"""A study as a job: over HTTP, with a token, to a cluster that ``ray start`` made."""

import re
import time
import urllib.error
import urllib.request
from unittest.mock import Mock

import pytest

from ldpflow.cli import main
from ldpflow.engine import jobs
from ldpflow.engine.jobs import check, write_study
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.run import open_run
from ldpflow.store.files import RunLock
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study, load_study
from ldpflow.study.plugins import load_plugin
from ldpflow.study.reading import toml_text
from tests.cluster.own_cluster import ROOT, own_cluster
from tests.faults.study import MAPPING, row_bytes, serial, whole

STUDY = MAPPING | {
    "replicates": 320,
    "problem": {"kind": "quantile", "tau": [0.5]},
    "grid": {"n": [1000, 200_000], "level": [0.9]},
}

SMALL = STUDY | {"replicates": 40, "grid": {"n": [200], "level": [0.9]}}
PLUGIN = ROOT / "tests" / "api" / "plugin_method.py"
PLUGGED = SMALL | {"method": [{"kind": "fixed_width", "half": [0.1]}]}


@pytest.fixture(scope="module")
def cluster():
    with own_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    file = tmp_path_factory.mktemp("study") / "faults.toml"
    file.write_text(Study.from_mapping(STUDY).to_toml())
    return file


def scraped(cluster):
    """What the cluster's Prometheus endpoint says of the sweep, by name; nothing before it listens."""
    try:
        with urllib.request.urlopen(f"{cluster.metrics}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    except urllib.error.URLError:
        return {}
    lines = re.findall(r"^(ray_ldpflow_\w+)\{(.*)\} (\S+)$", text, re.MULTILINE)
    assert all('run="' in labels for _, labels, _ in lines)
    return {name: float(value) for name, _, value in lines}


def submitted(cluster, *words):
    done = cluster.run("ldpflow", "submit", *words, "--address", cluster.address)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def followed(cluster, job):
    done = cluster.run(*f"ray.scripts.scripts job logs {job} --address {cluster.address} --follow".split())
    assert done.returncode == 0 and f"'{job}' succeeded" in done.stdout + done.stderr, done
    return done.stdout


def test_a_submitted_study_has_the_rows_of_a_serial_run(tmp_path, cluster, study):
    out = tmp_path / "run"
    # One at a time, so that there is something to be seen of a run that takes seconds.
    job, hints = submitted(cluster, study, "--out", f"file://{out}", "--max-in-flight", 1)
    seen = {}
    deadline = time.monotonic() + 120
    while seen.get("ray_ldpflow_replicates_done_total", 0) < STUDY["replicates"]:
        seen |= scraped(cluster)
        assert time.monotonic() < deadline, seen
        time.sleep(0.1)
    assert seen["ray_ldpflow_replicates_done_total"] == STUDY["replicates"]
    assert seen["ray_ldpflow_steps_done_total"] == STUDY["replicates"] * 200_000
    assert seen["ray_ldpflow_batches_done_total"] == STUDY["replicates"] / 32
    assert 0 < seen["ray_ldpflow_kernel_seconds_total"] < 60
    assert seen["ray_ldpflow_batches_in_flight"] in (0, 1)

    for command, more in (("logs", " --follow"), ("status", ""), ("stop", "")):
        assert f" ray job {command} {job} --address {cluster.address}{more}\n" in hints
    assert f"{STUDY['replicates']} replicates; computed in" in followed(cluster, job)

    # Nothing has failed, so that counter is not there.
    drawn = set(re.findall(r"ray_ldpflow_\w+", (ROOT / "workflows/cluster/grafana.json").read_text()))
    assert drawn - set(seen) == {"ray_ldpflow_batches_failed_total"}

    # What travelled: the study, and the package without anything beside it.
    sent = cluster.folder / "session_latest" / "runtime_resources"
    assert {file.name for file in sent.glob("working_dir_files/*/*")} == {"study.toml"}
    assert {file.name for file in sent.glob("py_modules_files/*/*")} == {"ldpflow"}

    expected = tmp_path / "serial"
    run_study(load_study(str(study)), expected, engine="serial")
    whole(out, row_bytes(expected))


@pytest.mark.slow
def test_plugins_travel_with_a_job_that_goes_on_when_submitted_again(tmp_path, cluster):
    (tmp_path / "study.toml").write_text(toml_text(PLUGGED))
    out = tmp_path / "run"
    submit = (tmp_path / "study.toml", "--out", f"file://{out}", "--plugin", PLUGIN)
    followed(cluster, submitted(cluster, *submit)[0])
    summary = open_run(out).summary()
    assert summary["replicates"].to_pylist() == [40] and summary["whole_width_median"].to_pylist() == [0.2]
    assert "rows: 40 reused, 0 to compute" in followed(cluster, submitted(cluster, *submit)[0])


def test_a_shipped_study_runs_from_its_folder_alone(tmp_path, monkeypatch):
    load_plugin(str(PLUGIN))
    write_study(Study.from_mapping(PLUGGED | {"replicates": 4}), str(tmp_path))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["plugin_method.py", "study.toml"]
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", "study.toml", "--engine", "serial", "--out", "run", "--quiet"]) == 0
    assert open_run(tmp_path / "run").summary()["method"].to_pylist() == ["fixed_width"]


def test_without_the_token(tmp_path, cluster):
    submit = ("ldpflow", "submit", "quickstart", "--out", tmp_path / "run", "--address", cluster.address)
    (tmp_path / "token").write_text("wrong")
    done = cluster.run(*submit, RAY_AUTH_TOKEN_PATH=str(tmp_path / "token"))
    assert done.returncode == 2 and not (tmp_path / "run").exists()
    assert done.stderr.count("ldpflow:") == 1 and "Traceback" not in done.stderr
    for said in ("--address", ".ray/auth_token", "Invalid authentication token"):
        assert said in done.stderr
    headers = {"Authorization": "Bearer wrong"}
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(urllib.request.Request(f"{cluster.address}/api/jobs/", headers=headers))


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("ray://127.0.0.1:10001", "dashboard of the cluster"),
        ("http://127.0.0.1:9", "Is the cluster up, and the tunnel"),
        ("http://host.invalid", "Is the cluster up, and the tunnel"),
    ],
)
def test_addresses_for_submitting(address, says):
    with pytest.raises(InputError, match=says):
        jobs.Jobs(jobs.cluster_address(address))


def test_a_folder_of_this_machine_is_refused(study):
    with pytest.raises(InputError, match="^out: 'run' is not allowed.*give file:///"):
        object.__new__(jobs.Jobs).submit(load_study(str(study)), "run")


def test_a_place_that_holds_another_study_or_is_in_use(tmp_path, study):
    serial(tmp_path / "run", Study.from_mapping(SMALL | {"seed": 5, "replicates": 4}))
    with pytest.raises(InputError, match="seed: '4' is not allowed.*\n  - seed = 5\n  \\+ seed = 4"):
        check(str(tmp_path / "run"), str(study))
    with RunLock(RunStore(tmp_path), "somebody"):
        with pytest.raises(InputError, match="no other sweep is writing"):
            check(str(tmp_path), str(study))


@pytest.mark.parametrize("error", [OSError("AWS Error ACCESS_DENIED"), PermissionError(13, "ACCESS_DENIED")])
def test_a_store_without_credentials(study, monkeypatch, error):
    denying = Mock(type_name="s3")
    denying.open_input_file.side_effect = error
    monkeypatch.setattr("ldpflow.store.files.open_filesystem", lambda root: (denying, "bucket/run"))
    with pytest.raises(InputError, match="ACCESS_DENIED. Give the machines a role"):
        check("s3://bucket/run", str(study))
