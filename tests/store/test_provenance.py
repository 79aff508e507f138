"""Sessions of a run."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from ldpflow.errors import InputError
from ldpflow.store.provenance import Session, read_sessions
from ldpflow.store.run_store import RunStore


def test_a_resumed_run_appends_a_session_and_a_killed_one_stays(tmp_path):
    store = RunStore(tmp_path)
    Session(store, seed=3, command="ldpflow sweep a").record()
    second = Session(store, seed=3, command="ldpflow sweep b")
    second.record()
    second.end({"0123": 3.25}, exit_code=0)
    killed, done = read_sessions(store)
    assert killed["command"] == "ldpflow sweep a" and killed["ended"] is None
    assert done["command"] == "ldpflow sweep b" and done["ns_per_step"] == {"0123": 3.25}
    assert done["exit_code"] == 0 and done["seed"] == 3 and done["wall_seconds"] >= 0
    started, ended = (datetime.fromisoformat(done[name]) for name in ("started", "ended"))
    assert started <= ended and started.utcoffset().total_seconds() == 0
    assert done["versions"]["pyarrow"] == pa.__version__
    assert done["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert done["machine"]["cores"] >= done["machine"]["cores_usable"] >= 1
    assert done["machine"]["host"] and done["machine"]["processor"]
    assert json.loads(Path(tmp_path, "provenance.json").read_text()) == [killed, done]


@pytest.mark.parametrize("text", ["[{", "{}", "[1]", "\xff"])
def test_a_spoilt_file_is_named(tmp_path, text):
    Path(tmp_path, "provenance.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"provenance\.json"):
        Session(RunStore(tmp_path), seed=1).record()
