"""The cluster files that people copy, by Ray's own schema and options, and by KubeRay's fields."""

import json
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest
import ray
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.scripts.scripts import start as ray_start

import ldpflow

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "workflows" / "cluster"
LAUNCHER = [ROOT / "cluster.yaml", FOLDER / "gcp.yaml"]
SCHEMA = json.loads((Path(ray.__file__).parent / "autoscaler" / "ray-schema.json").read_text())
# ray.io/v1: fields that KubeRay's reference of the resource lists, as far as they are used here.
FIELDS = set(
    "entrypoint rayClusterSpec shutdownAfterJobFinishes submissionMode submitterPodTemplate authOptions "
    "ttlSecondsAfterFinished autoscalerOptions enableInTreeAutoscaling rayVersion headGroupSpec replicas "
    "workerGroupSpecs rayStartParams template groupName maxReplicas minReplicas".split()
)


def options(command):
    """The arguments of ``ray start`` in a shell command, as Ray itself parses them."""
    words = command.partition("ray start ")[2].split()
    return ray_start.make_context("start", words, resilient_parsing=False).params


@pytest.mark.parametrize("file", LAUNCHER, ids=lambda file: file.name)
def test_launcher_files(file):
    config = yaml.safe_load(file.read_text())
    jsonschema.validate(config, SCHEMA)
    validate_config(prepare_config(config))
    types = config["available_node_types"]
    assert types[config["head_node_type"]]["resources"] == {"CPU": 0}
    assert types["worker"]["min_workers"] == 0
    assert types["worker"]["max_workers"] == config["max_workers"]
    spot = json.dumps(types["worker"]["node_config"]).lower()
    assert "spot" in spot and "spot" not in json.dumps(types["head"]).lower()
    assert any("nofile" in option for option in config["docker"]["run_options"])
    assert config["file_mounts"]["/home/ray/.ray/auth_token"] == "~/.ray/auth_token"
    head, worker = config["head_start_ray_commands"][-1], config["worker_start_ray_commands"][-1]
    assert options(head)["num_cpus"] == 0 and options(head)["dashboard_host"] == "127.0.0.1"
    assert options(head)["head"] and not options(worker)["head"]
    for command in (head, worker):
        assert "RAY_AUTH_MODE=token" in command and "ulimit -n" in command
    # The package of this very tree, not one of the same name from elsewhere.
    (setup,) = config["setup_commands"]
    mount = next(there for there, here in config["file_mounts"].items() if here == ".")
    assert f"{mount}[cluster]" in setup
    assert {".git", ".venv", "runs"} <= set(config["rsync_exclude"])


def test_rayjob():
    job = yaml.safe_load((FOLDER / "rayjob.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    cluster = job["spec"]["rayClusterSpec"]
    assert {*job["spec"], *cluster, *cluster["headGroupSpec"], *cluster["workerGroupSpecs"][0]} <= FIELDS
    assert cluster["authOptions"]["mode"] == "token"
    head, (workers,) = cluster["headGroupSpec"], cluster["workerGroupSpecs"]
    assert head["rayStartParams"]["num-cpus"] == "0" and workers["minReplicas"] == 0
    known = {name.replace("_", "-") for name in options("ray start --head")}
    for group in (head, workers):
        # A map of strings; other YAML scalars are refused by the operator.
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
        assert set(group["rayStartParams"]) <= known
    command = job["spec"]["entrypoint"].split()
    assert command[:2] == ["ldpflow", "sweep"] and "--address" in command
    assert job["spec"]["submissionMode"] in ("K8sJobMode", "HTTPMode", "InteractiveMode")


def test_versions_are_those_that_are_installed():
    extra = (ROOT / "pyproject.toml").read_text()
    assert f'cluster = ["ray[default]=={ray.__version__}"]' in extra
    found = []
    for file in [*LAUNCHER, FOLDER / "rayjob.yaml", FOLDER / "Dockerfile"]:
        text = file.read_text()
        here = re.findall(r"(?:rayproject/ray:|rayVersion: \"|ray\[default\]==)(\d[\d.]*\d)", text)
        assert here, file
        found += here
        assert set(re.findall(r"ldpflow:(\d[\d.]*\d)", text)) <= {ldpflow.__version__}
    assert set(found) == {ray.__version__}


def test_nothing_switches_the_token_off():
    for file in [ROOT / "cluster.yaml", *FOLDER.iterdir(), *Path(ldpflow.__file__).parent.rglob("*.py")]:
        assert "disabled" not in re.findall(r"RAY_AUTH_MODE\W+(\w+)", file.read_text()), file


def test_slurm_script_is_a_shell_script():
    subprocess.run(["bash", "-n", FOLDER / "slurm.sh"], check=True)
