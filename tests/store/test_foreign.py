"""Files that are not ours stay where they are, and secrets stay out of everything that is written."""

import errno
import os
import shutil
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pytest

from ldpflow.engine.check import check_run, repair_run
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError, StorageError, redact
from ldpflow.store.files import RunLock
from ldpflow.store.part import UnreadablePart
from ldpflow.store.provenance import Session, read_sessions
from ldpflow.store.run_store import RunStore
from tests.faults.study import serial, study

SMALL = {"replicates": 8}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("made") / "run"
    serial(run, study(**SMALL))
    return run


@pytest.fixture
def run(made, tmp_path) -> Path:
    return shutil.copytree(made, tmp_path / "run")


@pytest.fixture
def stranger(tmp_path) -> Path:
    """A folder of somebody else's that looks like a partition."""
    folder = tmp_path / "stranger" / "path=p00112233445566aa"
    folder.mkdir(parents=True)
    (folder / "part-0-8-0123456789ab.parquet").write_bytes(b"precious")
    (folder / "notes.txt").write_text("precious")
    return folder


def untouched(folder: Path) -> bool:
    return sorted(p.name for p in folder.iterdir()) == ["notes.txt", "part-0-8-0123456789ab.parquet"]


def test_links_and_files_that_no_sweep_writes_are_neither_read_nor_moved(run, stranger):
    (run / "replicates" / stranger.name).symlink_to(stranger)
    (run / "replicates" / "loop").symlink_to("..")
    (run / "trajectories").symlink_to(stranger.parent)
    (run / "replicates" / "notes.txt").write_text("mine")
    copy = next((run / "replicates").glob("path=p*/")) / "copy.parquet"
    copy.write_text("mine")
    findings, _ = check_run(str(run))
    assert {finding.what.split(":")[0].split(" ")[0] for finding in findings} == {
        f"replicates/{stranger.name}", "replicates/loop", "trajectories/", "replicates/notes.txt",
        copy.relative_to(run).as_posix(),
    }  # fmt: skip
    assert all(not finding.bad for finding in findings)
    repair_run(str(run), engine="serial")
    serial(run, study(replicates=16))
    assert untouched(stranger) and not (run / "set_aside").exists()
    assert copy.read_text() == (run / "replicates" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["set_aside", "tmp"])
def test_nothing_is_written_through_a_link(run, tmp_path, name):
    target = tmp_path / "target"
    target.mkdir()
    part = next((run / "replicates").rglob("*.parquet"))
    part.write_bytes(b"damaged")
    (run / name).rmdir() if (run / name).exists() else None
    (run / name).symlink_to(target)
    with pytest.raises(InputError, match="regular files and folders"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        serial(run, study(**SMALL))
    assert not list(target.iterdir())


@pytest.mark.parametrize("target", ["/dev/zero", "pipe"])
def test_reading_a_run_follows_no_link(run, target):
    os.mkfifo(run / "pipe")
    name = "provenance.json"
    (run / name).unlink()
    (run / name).symlink_to(target)
    with pytest.raises(InputError, match="regular files"):
        RunStore(run).read(name)


@pytest.mark.parametrize("kind", ["folder", "pipe", "link to a pipe", "link to a file"])
def test_a_lock_that_is_no_regular_file_is_refused(run, tmp_path, kind):
    lock, other = run / "lock", tmp_path / "other"
    lock.unlink()
    if kind == "folder":
        lock.mkdir()
    elif kind == "link to a file":
        other.write_text("precious")
    else:
        os.mkfifo(lock if kind == "pipe" else other)
    if kind.startswith("link"):
        lock.symlink_to(other)
    for sweep in (lambda: serial(run, study(**SMALL)), lambda: repair_run(str(run), engine="serial")):
        with pytest.raises(InputError, match="is not allowed; expected"):
            sweep()
    assert not other.is_file() or other.read_text() == "precious"


def test_a_pipe_in_the_place_of_a_part_is_no_part(run, monkeypatch):
    """Put there between the listing of the folder and the opening."""
    part = next((run / "replicates").rglob("*.parquet"))
    part.unlink()
    os.mkfifo(part)
    name = part.relative_to(run).as_posix()
    store = RunStore(run)
    monkeypatch.setattr(store.replicates, "_names", lambda key: [(part.parent.name[6:], name)])
    bad = []
    assert store.replicates.scan(damaged=bad) == [] and bad == [UnreadablePart(name, "it is no regular file")]
    with pytest.raises(InputError, match="regular file"):
        store.replicates.read(damaged="refuse")


@pytest.mark.parametrize("name", ["study.toml", "provenance.json", "summary.parquet", "part"])
def test_a_sparse_file_is_refused_by_its_size(run, name, monkeypatch):
    file = next((run / "replicates").rglob("*.parquet")) if name == "part" else run / name
    os.truncate(file, 2**30)
    allocate = pa.allocate_buffer

    def small(size: int) -> pa.Buffer:
        assert size < 2**20, "all of it is to be read"
        return allocate(size)

    monkeypatch.setattr(pa, "allocate_buffer", small)
    store = RunStore(run)
    if name == "part":
        bad = []
        store.replicates.scan(damaged=bad)
        assert [part.name for part in bad] == [file.relative_to(run).as_posix()]
        return
    readers = {"study.toml": store.read_study, "provenance.json": partial(read_sessions, store)}
    with pytest.raises(InputError, match="1,073,741,824 bytes"):
        readers.get(name, store.read_summary)()


def test_a_footer_that_claims_most_of_a_large_file_is_not_read(run):
    part = next((run / "replicates").rglob("*.parquet"))
    with open(part, "r+b") as file:
        file.truncate(2**28)
        file.seek(-8, os.SEEK_END)
        file.write((2**27).to_bytes(4, "little") + b"PAR1")
    bad = []
    RunStore(run).replicates.scan(damaged=bad)
    assert "more than a sweep writes" in bad[0].reason


def test_files_that_killed_processes_left_go_with_the_next_sweep(run):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (run / "tmp").mkdir(exist_ok=True)
    left = [run / "tmp" / f"part-0-8-0123456789ab.parquet.{pid}.0123abcd" for pid in (ended.pid, os.getpid())]
    mine = run / "tmp" / "notes.txt"
    for file in (*left, mine):
        file.write_text("unfinished")
    serial(run, study(**SMALL))
    assert {*(run / "tmp").iterdir()} == {left[1], mine}


@pytest.mark.parametrize("fresh", [False, True])
def test_a_full_disk_says_what_to_type(tmp_path, monkeypatch, fresh):
    monkeypatch.setattr(os, "replace", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    said = "run the same command without `fresh` to" if fresh else "run the same command again to"
    with pytest.raises(StorageError, match=said):
        serial(tmp_path / "run", study(**SMALL), fresh=fresh)


@pytest.mark.parametrize(
    ("name", "content"), [("study.toml", "# my comments\nname = 'mine'\n"), ("thesis.tex", "mine")]
)
@pytest.mark.parametrize("fresh", [False, True])
def test_a_folder_with_files_of_the_user_is_refused(tmp_path, name, content, fresh):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=f"It holds {name}|not a run"):
        run_study(study(**SMALL), tmp_path, engine="serial", fresh=fresh)
    assert (tmp_path / name).read_text() == content and len(list(tmp_path.iterdir())) == 1


OPENED = "s3://AKIAEXAMPLE:hunter2@bucket/run?region=eu-west-1"
SECRET = "s3://AKIAEXAMPLE:hunter2@bucket/run?region=eu&secret_key=hunter2"


def test_credentials_in_an_address_are_shown_nowhere(tmp_path):
    store = RunStore(tmp_path / "run")
    with RunLock(store, f"ldpflow sweep --out {SECRET}"):
        Session(store, 1, f"ldpflow sweep --out '{SECRET}'").record()
        texts = [(tmp_path / "run" / name).read_text() for name in ("lock", "provenance.json")]
    error = InputError("out", SECRET, f"not {SECRET}", f"Try {SECRET}.")
    texts += [str(error), str(StorageError(SECRET, f"no answer from {SECRET}"))]
    texts.append(RunStore(OPENED).root)
    assert RunStore(OPENED).address == OPENED, "what it is opened by"
    for text in texts:
        assert "hunter2" not in text and "AKIA" not in text and "bucket" in text
    assert redact("https://example.org/a@b") == "https://example.org/a@b"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("s3://KEY:pa'ss-word@bucket/run", "s3://***@bucket/run"),
        ("s3://KEY:pa@ss-word@bucket/run", "s3://***@bucket/run"),
        ('s3://KEY:p"a/ss-word@bucket/run', "s3://***@bucket/run"),
        ("s3://pa'ss-word@bucket/run", "s3://***@bucket/run"),
        ("https://h/run?X-Amz-Credential=pass-word&n=1", "https://h/run?X-Amz-Credential=***&n=1"),
        ("https://h/run?n=1#token=pass-word", "https://h/run?n=1#token=***"),
        ("https://h/run?secret=pa'ss-word&n=1", "https://h/run?secret=***&n=1"),
    ],
)
def test_parts_of_a_secret_are_not_shown(address, shown):
    assert redact(address) == shown
    assert redact(f"'{address}' is not there") == f"'{shown}' is not there"
    messages = (InputError("out", address, "a folder", f"Not {address}."), StorageError(address, "full"))
    assert not any("word" in str(message) for message in messages), messages
