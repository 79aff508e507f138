"""Files around the package: workflows, forms, the changelog and the citation file."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import ldpflow

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


FORMS = ROOT / ".github" / "ISSUE_TEMPLATE"
SCHEMAS = {
    "vendor.github-workflows": WORKFLOWS,
    "vendor.github-issue-forms": sorted({*FORMS.glob("*.yml")} - {FORMS / "config.yml"}),
    "vendor.github-issue-config": [FORMS / "config.yml"],
    "vendor.citation-file-format": [ROOT / "CITATION.cff"],
    "vendor.dependabot": [ROOT / ".github" / "dependabot.yml"],
}


@pytest.mark.thorough
@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_have_the_form_of_their_schema(schema):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *SCHEMAS[schema]]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_linter_of_workflows_finds_nothing():
    program = Path(sys.executable).with_name("zizmor")
    files = [*WORKFLOWS, ROOT / ".github" / "dependabot.yml"]
    command = [program, "--offline", "--no-progress", "--no-config", *files]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_version_is_the_same_everywhere():
    version = ldpflow.__version__
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version
    headings = re.findall(r"^## \[(.*?)\](.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0][0] == version
    assert re.fullmatch(r" - (not yet released|\d{4}-\d\d-\d\d)", headings[0][1])
    cluster = [file.read_text() for file in (ROOT / "workflows" / "cluster").iterdir() if file.is_file()]
    images = re.findall(r"REGISTRY/ldpflow:(\S+)", "".join(cluster))
    assert len(images) >= 4 and {*images} == {version}
    assert f"git tag v{version}" in (ROOT / "CONTRIBUTING.md").read_text()


def test_actions_are_pinned_and_workflows_ask_for_no_more_rights_than_they_need():
    assert len(WORKFLOWS) == 3
    for file in WORKFLOWS:
        used = [line for line in file.read_text().splitlines() if "uses:" in line]
        assert used and all(re.search(r"uses: [\w/-]+@[0-9a-f]{40} # v\d", line) for line in used), file.name
        workflow = yaml.safe_load(file.read_text())
        assert workflow["permissions"] == {"contents": "read"}
        for name, job in workflow["jobs"].items():
            assert job.get("permissions", {}) in ({}, {"id-token": "write"}), (file.name, name)


def test_the_matrix_runs_the_pythons_that_are_supported():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())
    listed = [c.rpartition(" ")[2] for c in project["classifiers"] if "Python :: 3." in c]
    pythons = workflow["jobs"]["tests"]["strategy"]["matrix"]["python"]
    assert pythons == listed == ["3.11", "3.12", "3.13", "3.14"]
    assert project["requires-python"] == ">=3.11"
