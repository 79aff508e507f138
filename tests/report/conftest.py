"""A small run that the engine itself has made, with failures in it, and its page."""

import re

import pytest

from ldpflow.engine.run import run_study
from ldpflow.report.page import report_html
from ldpflow.report.results import Results
from ldpflow.study import Study
from tests.studies import changed

STUDY = changed(
    name="small", replicates=64, algorithm__gamma=0.51, grid={"n": [100, 1000], "level": 0.9},
    method=[{"kind": "BB", "beta": [0.6, 0.75, 0.95], "B": 50}, {"kind": "BM"}, {"kind": "SN"},
            {"kind": "oracle"}],
)  # fmt: skip


def sweep(tmp_path_factory, study):
    folder = tmp_path_factory.mktemp("runs") / study["name"]
    run_study(Study.from_mapping(study), folder, engine="serial")
    return folder


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    return sweep(tmp_path_factory, STUDY)


@pytest.fixture(scope="session")
def results(run):
    return Results.load(run)


@pytest.fixture(scope="session")
def page_text(results):
    return report_html(results)


@pytest.fixture(scope="session")
def shell(page_text):
    return re.sub(r"<script.*?</script>", "", page_text, flags=re.S)
