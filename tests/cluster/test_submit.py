"""A study as a job: over HTTP, with a token, to a cluster that ``ray start`` made."""

from __future__ import annotations

import re
import sys
import time
import urllib.error
import urllib.request
from unittest import mock

import pytest

from ldpflow.engine import jobs, run_study
from ldpflow.engine.preflight import check
from ldpflow.errors import InputError
from ldpflow.study import Study, load_study
from tests.cluster.own_cluster import ROOT, own_cluster
from tests.faults.study import MAPPING, row_bytes, whole

STUDY = MAPPING | {
    "replicates": 480,
    "problem": {"kind": "quantile", "tau": [0.5]},
    "grid": {"n": [1000, 200_000], "level": [0.9]},
}


@pytest.fixture(scope="module")
def cluster():
    with own_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    file = tmp_path_factory.mktemp("study") / "faults.toml"
    file.write_text(Study.from_mapping(STUDY).to_toml())
    return file


@pytest.fixture
def environment(cluster, monkeypatch):
    """This process as somebody with the token."""
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, cluster.environment[name])
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", cluster.address)


def scraped(cluster):
    """What the cluster's Prometheus endpoint says of the sweep: name and value."""
    with urllib.request.urlopen(f"{cluster.metrics}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    found = {}
    for line in lines:
        if line.startswith("ray_ldpflow_"):
            assert 'run="' in line
            found[line.partition("{")[0]] = float(line.rpartition(" ")[2])
    return found


def test_submitted_followed_fetched_resumed(tmp_path, cluster, study):
    out = tmp_path / "run"
    submit = ("submit", study, "--out", out, "--address", cluster.address)
    # One at a time, so that there is something to be seen of a run that takes seconds.
    first = cluster.run(*submit, "--max-in-flight", 1)
    assert first.returncode == 0, first.stderr
    job = first.stdout.strip()
    for command in ("logs", "status", "stop"):
        assert f"ldpflow jobs {command} {job} --address {cluster.address}" in first.stderr

    seen = {}
    deadline = time.monotonic() + 60
    while seen.get("ray_ldpflow_replicates_done_total", 0) < STUDY["replicates"]:
        seen |= scraped(cluster)
        assert time.monotonic() < deadline, seen
        time.sleep(0.1)
    assert seen["ray_ldpflow_replicates_done_total"] == STUDY["replicates"]
    assert seen["ray_ldpflow_steps_done_total"] == STUDY["replicates"] * 200_000
    assert seen["ray_ldpflow_batches_done_total"] == STUDY["replicates"] / 32
    assert 0 < seen["ray_ldpflow_kernel_seconds_total"] < 60
    assert seen["ray_ldpflow_batches_in_flight"] in (0, 1)

    # Nothing has failed, so that counter is not there.
    drawn = set(re.findall(r"ray_ldpflow_\w+", (ROOT / "workflows/cluster/grafana.json").read_text()))
    assert drawn - set(seen) == {"ray_ldpflow_batches_failed_total"}

    followed = cluster.run("jobs", "logs", job, "--address", cluster.address)
    assert followed.returncode == 0, followed.stdout + followed.stderr
    assert f"{STUDY['replicates']} replicates in" in followed.stdout
    assert f"{job}  SUCCEEDED  faults  {out}" in followed.stderr
    everything = cluster.run("jobs", "status", "--address", cluster.address)
    assert f"{job}  SUCCEEDED" in everything.stdout

    expected = tmp_path / "serial"
    run_study(load_study(str(study)), expected, engine="serial")
    whole(out, row_bytes(expected))

    again = cluster.run(*submit, "--wait")
    assert again.returncode == 0, again.stdout + again.stderr
    assert "rows: 1,920 reused, 0 to compute" in again.stdout
    other = cluster.run(*submit, "--seed", 5)
    assert other.returncode == 2 and "seed: 5 is not allowed" in other.stderr
    whole(out, row_bytes(expected))


@pytest.mark.parametrize(
    ("token", "says"),
    [("wrong", "Invalid authentication token"), (None, "file cannot be opened")],
)
def test_without_the_token(tmp_path, cluster, token, says):
    """Refused by the dashboard itself, and by one message."""
    file = tmp_path / "token"
    if token is not None:
        file.write_text(token)
    done = cluster.run(
        "submit", "quickstart", "--out", tmp_path / "run", "--address", cluster.address,
        RAY_AUTH_TOKEN_PATH=str(file),
    )
    assert done.returncode == 2
    assert done.stderr.count("ldpflow:") == 1 and "Traceback" not in done.stderr
    assert "--address" in done.stderr and ".ray/auth_token" in done.stderr
    assert not (tmp_path / "run").exists()
    assert says in done.stderr
    if token:
        request = urllib.request.Request(
            f"{cluster.address}/api/jobs/", headers={"Authorization": f"Bearer {token}"}
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=10)
        assert refused.value.code == 403


@pytest.mark.parametrize("changed", ["ray.__version__", "sys.version_info"])
def test_other_versions(cluster, environment, changed):
    there = {"ray.__version__": "2.1.0", "sys.version_info": (3, 99, 1)}[changed]
    with mock.patch(changed, there), pytest.raises(InputError) as refused:
        jobs.Jobs(cluster.address).check_versions()
    assert "there and" in refused.value.hint and refused.value.field == "--address"


def test_a_job_that_is_not_there(cluster, environment):
    with pytest.raises(InputError, match="'nope' is not allowed; expected a job of this cluster"):
        jobs.Jobs(cluster.address).state("nope")


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("ray://127.0.0.1:10001", "dashboard of the cluster"),
        ("auto", "dashboard of the cluster"),
        ("http://127.0.0.1:9", "Is the cluster up, and the tunnel"),
        ("http://host.invalid", "Is the cluster up, and the tunnel"),
    ],
)
def test_addresses_for_submitting(address, says):
    with pytest.raises(InputError, match=says):
        jobs.Jobs(jobs.cluster_address(address))


def test_a_folder_that_the_head_does_not_have(tmp_path):
    (tmp_path / "study.toml").write_text(Study.from_mapping(STUDY).to_toml())
    with jobs.probed(str(tmp_path / "run")) as (place, probe):
        check(place, probe, str(tmp_path / "study.toml"))
        with pytest.raises(InputError, match="a place that the head of the cluster has too"):
            check(str(tmp_path / "other"), probe, str(tmp_path / "study.toml"))
    assert not list((tmp_path / "run").glob("tmp/*"))


def test_python_that_runs_the_tests_is_the_clusters(cluster):
    assert sys.executable.startswith(cluster.environment["PATH"].split(":")[0])
