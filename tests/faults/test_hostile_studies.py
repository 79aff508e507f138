"""Studies as a stranger may write them: an exit code, soon, in bounded memory, and no code is run."""

import contextlib
import io
import json
import resource
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from ldpflow.cli import main
from ldpflow.documents import append_checksum
from ldpflow.study import GROUPS
from ldpflow.study.reading import toml_text
from tests.faults.study import serial, study

SLOWEST = 20.0
LARGEST = 2 * 2**30

NUMBERS = [
    0, -1, 1, 2, 10**6, 10**12, 2**31, 2**53, 2**62, 2**63 - 1, 2**63, 10**300, 0.0, -0.0, 0.5, 1e-300,
    5e-324, 1.7976931348623157e308, 1 - 1e-9, 1e-6, float("inf"), float("nan"), 1e12, 999_999_999,
]  # fmt: skip
TEXTS = [
    "", " ", "\0", "\x1b[2J\x1b]0;x\x07", "\u202e\u0661", "é" * 200, "x" * 5000, "../../etc/passwd",
    "/dev/zero", "=1+1", "\n[plugins]\nfiles = ['plug.py']", "__class__", "None", "nan", "a\u0000b",
    "\U0001f4a9", "{x.y}", "%s%n", "<script>",
]  # fmt: skip
PLUGINS = [
    {"files": ["plug.py"]}, {"modules": "os"}, {"names": ["x"], "sha256": [1]}, {"names": 3},
    {"names": ["../../x"]}, {"sha256": [["a"]]}, {"names": ["x"] * 50, "sha256": ["0" * 64] * 50}, [1],
]  # fmt: skip
DAMAGE = ["\0", "]", '"', "\u2028", "[" * 5000, "'''", "a." * 300, None]
"""Put somewhere into the file; None: the file ends there."""
STORED = [
    ["summary"], ["check"], ["cite", "--text"], ["explain"], ["report"], ["replay", "--replicate", "0"],
    ["cite"], ["verify"], ["compare"], ["summary", "--null", "0"], ["check", "--recompute", "0.5"],
    ["plot", "coverage", "-o", "plot.svg"],
]  # fmt: skip


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else 1


SIMPLE = st.sampled_from([*NUMBERS, *TEXTS, True, False])
ODD = st.one_of(
    SIMPLE,
    st.recursive(
        SIMPLE,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["kind", "n", "x", "é", "a b"]), inner, max_size=1)
        ),
        max_leaves=4,
    ),
    st.sampled_from([5, 50, 70, 200]).map(nested),
    st.sampled_from([[0.5] * 100_001, [0.25] * 3000]),
)


TABLES = sorted(study().settings())
KEYS = {
    **{
        group: sorted({name for kind in kinds.values() for name in kind.model_fields})
        for group, kinds in GROUPS.items()
    },
    "grid": ["n", "level", "independent_n"],
    "trajectory": ["first", "points"],
    "monitor": ["first_n", "target_length", "target_n"],
}
KINDS = sorted(kind for kinds in GROUPS.values() for kind in kinds)
EDITS = st.one_of(
    st.tuples(st.sampled_from([*TABLES, "unknown", "\x1b[1m", "é"]), st.none(), ODD | st.none()),
    st.tuples(st.just("plugins"), st.none(), st.sampled_from(PLUGINS)),
    *(
        st.tuples(st.just(table), st.sampled_from(keys), ODD | st.sampled_from(KINDS))
        for table, keys in KEYS.items()
    ),
)
"""Table, key or None, value; a table whose value is None goes."""


def hostile_text(edits: list[tuple[str, str | None, Any]]) -> str:
    tables = json.loads(json.dumps(study().settings()))
    for name, key, value in edits:
        if key is None:
            tables[name] = value
            continue
        entry = tables.setdefault(name, {})
        entry = entry[0] if isinstance(entry, list) and entry else entry
        if isinstance(entry, dict):
            entry[key] = value
    try:
        text = toml_text({name: table for name, table in tables.items() if table is not None})
    except (AttributeError, RecursionError):  # a list of numbers in the place of tables, for example
        assume(False)
        raise
    return text.encode("utf-8", "replace").decode()


@pytest.mark.thorough
@pytest.mark.parametrize("examples", [15, pytest.param(260, marks=pytest.mark.slow)])
def test_a_hostile_study_has_an_answer(tmp_path, monkeypatch, examples):
    monkeypatch.chdir(tmp_path)
    serial("run", study(replicates=8))
    Path("plug.py").write_text("open('mark', 'w')")
    codes = set()

    @settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.lists(EDITS, min_size=1, max_size=4),
        st.none() | st.tuples(st.floats(0, 1), st.sampled_from(DAMAGE)),
        st.sampled_from(STORED),
    )
    def answers(edits, damage, command):
        text = hostile_text(edits)
        if damage is not None:
            at = int(damage[0] * len(text))
            text = text[:at] if damage[1] is None else text[:at] + damage[1] + text[at:]
        Path("hostile.toml").write_text(text, encoding="utf-8")
        body = f"# Resolved study, hash {'0' * 16}\n{text}\n"
        Path("run", "study.toml").write_text(append_checksum(body), encoding="utf-8")
        for line in (["sweep", "hostile.toml", "--dry-run"], [command[0], "run", *command[1:]]):
            before = time.process_time()
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
                code = main(line)
            assert code in (0, 1, 2), said.getvalue()
            assert time.process_time() - before < SLOWEST
            codes.add(code)
            if line[0] == "sweep":  # a study that one sweeps runs the plug-ins that it names
                Path("mark").unlink(missing_ok=True)

    answers()
    assert 2 in codes and not Path("mark").exists()
    assert 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < LARGEST
