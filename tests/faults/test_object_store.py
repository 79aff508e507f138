"""RUN at an s3:// address, against a real server over real connections, some of them spoilt."""

from __future__ import annotations

import pytest

import ldpflow.store.files
from ldpflow.cli import main
from tests.faults import object_store
from tests.faults.study import trials


@pytest.fixture(scope="module")
def proxy():
    with object_store.bucket() as proxy:
        yield proxy


@pytest.mark.parametrize(
    ("fault", "trial"),
    trials(merged=(1, 1), disturbed=(3, 6), killed_in_put=(0, 8), down=(0, 1)),
)
def test_fault(tmp_path, proxy, fault, trial):
    getattr(object_store, fault)(tmp_path, proxy, trial)


@pytest.mark.parametrize(
    ("endpoint", "out"),
    [
        (None, "s3://absent/run"),
        pytest.param("http://127.0.0.1:9", "s3://studies/run", marks=pytest.mark.slow),
    ],
    ids=["no bucket", "nobody there"],  # where nothing listens the client tries again for 6 s
)
def test_an_address_without_a_store(proxy, monkeypatch, capsys, endpoint, out):
    """The command line: one message, exit code 1."""
    monkeypatch.setattr(ldpflow.store.files, "PUT_PAUSES", ())
    if endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    code = main(["sweep", "--engine", "serial", "--out", out, "--quiet"])
    said = capsys.readouterr().err
    assert code == 1 and said.startswith("ldpflow: ") and out in said
