"""RUN at an s3:// address, against a real server over real connections, some of them spoilt."""

from __future__ import annotations

import pytest

import ldpflow.store.files
from ldpflow.cli import main
from tests.faults import object_store


@pytest.fixture(scope="module")
def proxy():
    with object_store.bucket() as proxy:
        yield proxy


def test_undisturbed(tmp_path, proxy):
    object_store.undisturbed(tmp_path, proxy, 0)


@pytest.mark.parametrize("trial", range(3))
def test_disturbed(tmp_path, proxy, trial):
    object_store.disturbed(tmp_path, proxy, trial)


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(2))
def test_killed_while_a_part_is_uploaded(tmp_path, proxy, trial):
    object_store.killed_in_put(tmp_path, proxy, trial)


@pytest.mark.slow
def test_down(tmp_path, proxy):
    object_store.down(tmp_path, proxy, 0)


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
