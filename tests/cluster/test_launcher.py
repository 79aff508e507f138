"""cluster.yaml in the hands of Ray's launcher, with moto in the part of EC2 and IAM."""

import json
import os
import subprocess
import sys

import pytest

from tests.cluster.own_cluster import ROOT

# In a process of its own: it has another home, and Ray keeps its clients.
LAUNCH = """
import json, logging, sys
import boto3, yaml
from moto.server import ThreadedMotoServer
from ray.autoscaler._private.providers import _get_node_provider, _get_node_provider_cls
from ray.autoscaler._private.util import prepare_config
import os

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
os.environ["AWS_ENDPOINT_URL"] = "http://127.0.0.1:{}".format(server.get_host_and_port()[1])
config = prepare_config(yaml.safe_load(open(sys.argv[1])))
launcher = _get_node_provider_cls(config["provider"])
config = launcher.bootstrap_config(launcher.fillout_available_node_types_resources(config))
types = config["available_node_types"]
provider = _get_node_provider(config["provider"], config["cluster_name"], use_cache=False)
head = {**config["head_node"], **types["head"]["node_config"]}
for name, node in (("head", head), ("worker", types["worker"]["node_config"])):
    provider.create_node(node, {"ray-node-name": name, "ray-node-type": name}, 1)
ec2 = boto3.client("ec2", region_name=config["provider"]["region"])
machines = [m for r in ec2.describe_instances()["Reservations"] for m in r["Instances"]]
ours = [g for g in ec2.describe_security_groups()["SecurityGroups"] if "ldpflow" in g["GroupName"]]
print(json.dumps({
    "resources": {name: kind["resources"] for name, kind in types.items()},
    "machines": {
        m["InstanceType"]: [m.get("InstanceLifecycle"), "IamInstanceProfile" in m] for m in machines
    },
    "open": [
        [rule.get("FromPort"), rule.get("ToPort")]
        for group in ours for rule in group["IpPermissions"] if rule["IpRanges"]
    ],
}))
server.stop()
"""


@pytest.mark.slow
def test_machines_that_are_started(tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "RAY_"))} | {
        "HOME": str(tmp_path),
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-west-2",
        "MOTO_IAM_LOAD_MANAGED_POLICIES": "true",
    }
    command = [sys.executable, "-c", LAUNCH, str(ROOT / "cluster.yaml")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["resources"]["head"] == {"CPU": 0}
    assert found["resources"]["worker"]["CPU"] == 16, "as EC2 says of the type"
    # The head has the role and is not taken away; workers are spot machines without a role.
    assert found["machines"] == {"m7a.xlarge": [None, True], "c7a.4xlarge": ["spot", False]}
    assert found["open"] == [[22, 22]], "ssh only"
