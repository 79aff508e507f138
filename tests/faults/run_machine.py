"""A state machine over a run: sweep, kill, extend, damage, delete, duplicate, check, repair, summarise.

The model is a set of row keys and a dictionary with the rows of one sweep over the whole design.
After each step the run holds the rows of the model, bit for bit, or a damage is named.

    python -m tests.faults.run_machine SECONDS [--s3]

explores at random for that long and prints the number of examples and steps.
"""

import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from contextlib import nullcontext
from functools import cache
from itertools import chain, combinations, product
from typing import Any

import pyarrow.fs as fs
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as explore

from ldpflow.engine.check import check_run, repair_run
from ldpflow.errors import DamagedRun, InputError
from ldpflow.results.summary import stored_summary
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study
from tests.faults.killed_sweeps import killed_sweep, sweep
from tests.studies import changed

TAUS, EPSILONS, SIZES, REPLICATES = (0.5, 0.9), (0.5, 1.0), (40, 100), (8, 16, 24)
METHODS: dict[str, Any] = {"BB": {"kind": "BB", "B": 8}, "SN": {"kind": "SN"}}
LAST_LINE = 2**15
PLACES = st.integers(0, 2**20)
"""A part or a byte, less multiples of their number, which may differ when an example is repeated."""

Rows = dict[tuple[Any, ...], str]
counts: Counter[str] = Counter()
"""Examples and steps of this process."""


def tables(
    taus: Any = TAUS,
    epsilons: Any = EPSILONS,
    sizes: Any = SIZES,
    methods: Any = METHODS,
    replicates: int = 24,
) -> dict[str, Any]:
    parts = {"problem__tau": sorted(taus), "mechanism__epsilon": sorted(epsilons)}
    grid, method = {"n": sorted(sizes), "level": [0.9]}, [METHODS[name] for name in sorted(methods)]
    return changed(**parts, replicates=replicates, grid=grid, method=method)


def some(values: Any) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(sorted(values)), min_size=1, max_size=len(values), unique=True)


STUDIES = st.builds(
    tables, some(TAUS), some(EPSILONS), some(SIZES), some(METHODS), st.sampled_from(REPLICATES)
)


def keys_of(study: dict[str, Any]) -> set[tuple[Any, ...]]:
    methods = [table["kind"] for table in study["method"]]
    return {*product(paths_of(study), study["grid"]["n"], methods, range(study["replicates"]))}


def paths_of(study: dict[str, Any]) -> dict[str, tuple[float, float]]:
    plans = Study.from_mapping(study).plans()
    columns = {plan.simulator.key: plan.simulator.columns() for plan in plans}
    return {key: (values["tau"], values["epsilon"]) for key, values in columns.items()}


def rows_of(table: Any) -> Rows:
    found: Rows = {}
    for row in table.to_pylist():
        path = row["path"].removeprefix("p")
        key = (path, row["n"], row["method"], row["replicate"])
        assert key not in found, f"{key} is there twice"
        found[key] = repr(row)  # every bit of a number but a NaN's
    return found


@cache
def reference() -> Rows:
    with tempfile.TemporaryDirectory() as folder:
        sweep(f"{folder}/run", tables(), "serial")
        rows = rows_of(RunStore(f"{folder}/run").replicates.read(damaged="refuse"))
    assert set(rows) == keys_of(tables())
    return rows


class RunMachine(RuleBasedStateMachine):
    """A run in a folder of its own."""

    place: str

    @initialize()
    def begin(self) -> None:
        counts["examples"] += 1
        self.address = f"{self.place}/{counts['examples']}"
        self.filesystem, self.folder = fs.FileSystem.from_uri(
            self.address if "://" in self.address else f"file://{self.address}"
        )
        self.present: set[tuple[Any, ...]] = set()  # rows that can be read
        self.lost: set[tuple[Any, ...]] = set()  # rows of damaged parts
        self.seen: set[tuple[str, bytes]] = set()  # parts before a damage
        self.damaged = self.doubled = self.deleted = False
        self.study: dict[str, Any] | None = None  # that study.toml has, if it is known

    def teardown(self) -> None:
        if hasattr(self, "filesystem") and "://" not in self.address:
            shutil.rmtree(self.address, ignore_errors=True)

    def parts(self) -> list[str]:
        selector = fs.FileSelector(f"{self.folder}/replicates", recursive=True, allow_not_found=True)
        files = self.filesystem.get_file_info(selector)
        return sorted(file.path for file in files if file.path.endswith(".parquet"))

    def read(self, name: str) -> bytes:
        with self.filesystem.open_input_file(name) as file:
            return file.read()

    def write(self, name: str, content: bytes) -> None:
        with self.filesystem.open_output_stream(name) as file:
            file.write(content)

    def stored(self, damaged: Any = "refuse") -> Rows:
        return rows_of(RunStore(self.address).replicates.read(damaged=damaged))

    def grows(self, study: dict[str, Any], certainly: bool) -> bool:
        """Whether the run may grow to a study: one has all the problems of the other.

        The footers of some damaged parts still say of which problem their rows are: certainly if it makes no
        difference which do.
        """
        taus = paths_of(tables())
        after = set(study["problem"]["tau"])
        present, lost = ({taus[key[0]][0] for key in rows} for rows in (self.present, self.lost))
        subsets = chain.from_iterable(combinations(lost, size) for size in range(len(lost) + 1))
        known = [present.union(subset) for subset in subsets]
        allowed = [before <= after or after <= before for before in known]
        return all(allowed) if certainly else any(allowed)

    def is_swept(self, study: dict[str, Any]) -> None:
        self.present |= keys_of(study)
        self.damaged = self.doubled = self.deleted = False
        self.lost.clear()
        self.study = study

    @rule(study=STUDIES, engine=st.sampled_from(("serial", "threads")))
    def sweep(self, study: dict[str, Any], engine: str) -> None:
        """Extend, or sweep again: replicates, n, methods, budgets or problems more or fewer."""
        before = {name: self.read(name) for name in self.parts()}
        try:
            sweep(self.address, study, engine)
        except InputError as error:
            assert error.field == "problem.tau" and not self.grows(study, certainly=True)
            # Broken parts may have been set aside before; no other has changed.
            assert {name: self.read(name) for name in self.parts()}.items() <= before.items()
            self.look()
        else:
            assert self.grows(study, certainly=False)
            self.is_swept(study)

    @rule(study=STUDIES, engine=st.sampled_from(("serial", "threads")), line=st.integers(1, LAST_LINE))
    def kill(self, study: dict[str, Any], engine: str, line: int) -> None:
        """Kill a sweep with SIGKILL at a line of engine or store."""
        if not self.grows(study, certainly=True):
            return
        code = killed_sweep(self.address, study, engine, line)
        if code == 0:
            self.is_swept(study)
            return
        assert code == -signal.SIGKILL, code
        before = self.present
        self.look()
        assert before <= self.present <= before | self.lost | keys_of(study)

    def look(self) -> None:
        """Take what can be read for present: after a step that may have ended anywhere."""
        if RunStore(self.address).holds_run():
            self.damaged = False
            try:
                self.present = set(self.stored())
            except DamagedRun:
                self.damaged = True
                self.present = set(self.stored([]))
        self.study = None

    def pick(self, data: Any) -> str:
        names = self.parts()
        return names[data.draw(PLACES) % len(names)]

    def take_lost(self) -> list[Any]:
        """Move rows that cannot be read from present to lost; the parts that are named as damaged."""
        found: list[Any] = []
        readable = set(self.stored(found))
        assert readable <= self.present
        self.lost |= self.present - readable
        self.present = readable
        return found

    @precondition(lambda self: self.parts() and not self.doubled)
    @rule(data=st.data(), how=st.sampled_from(("truncate", "zero", "flip", "exchange")))
    def damage(self, data: Any, how: str) -> None:
        """Truncate, zero, flip a bit of a part, or put another part in its place."""
        name = self.pick(data)
        content = self.read(name)
        if not content:
            return
        if how == "exchange":
            broken = self.read(self.pick(data))
        else:
            at = data.draw(PLACES) % len(content)
            flipped = bytearray(content)
            flipped[at] ^= 1 << (at % 8)
            broken = {"truncate": content[:at], "zero": bytes(len(content)), "flip": bytes(flipped)}[how]
        self.seen.add((name, content))
        if (name, broken) in self.seen:  # a bit that is flipped twice is no damage
            return
        self.write(name, broken)
        assert self.take_lost(), f"{how} of {name} is not noticed"
        self.damaged = True

    @precondition(lambda self: self.parts() and not self.doubled)
    @rule(data=st.data())
    def delete(self, data: Any) -> None:
        self.filesystem.delete_file(self.pick(data))
        self.damaged = bool(self.take_lost())
        self.deleted = True

    @precondition(lambda self: self.parts() and not (self.damaged or self.deleted))
    @rule(data=st.data())
    def duplicate(self, data: Any) -> None:
        name = self.pick(data)
        stem, last = name.removesuffix(".parquet")[:-1], name.removesuffix(".parquet")[-1]
        self.write(f"{stem}{'0' if last != '0' else '1'}.parquet", self.read(name))
        found: list[Any] = []
        assert set(self.stored(found)) == self.present
        self.damaged, self.doubled = bool(found), not found

    @precondition(lambda self: RunStore(self.address).holds_run())
    @rule()
    def check(self) -> None:
        findings, _ = check_run(self.address)
        assert findings or not self.damaged
        if self.study is not None and not self.damaged and not self.doubled and not self.lost:
            assert findings == [] or not keys_of(self.study) <= self.present

    @precondition(lambda self: self.study is not None)
    @rule(engine=st.sampled_from(("serial", "threads")))
    def repair(self, engine: str) -> None:
        assert self.study is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            repair_run(self.address, engine=engine)
        self.is_swept(self.study)
        assert not any(finding.bad for finding in check_run(self.address)[0])

    @precondition(lambda self: self.present and not (self.damaged or self.doubled or self.deleted))
    @rule()
    def summarise(self) -> None:
        """Summarise: every cell counts the replicates that the model has of it."""
        wanted = Counter(key[:3] for key in self.present)
        summary = stored_summary(RunStore(self.address), damaged="refuse")
        found = {
            (row["path"].removeprefix("p"), row["n"], row["method"]): row["replicates"]
            for row in summary.to_pylist()
        }
        assert found == dict(wanted)

    @precondition(lambda self: self.present)
    @rule(study=STUDIES)
    def change_study(self, study: dict[str, Any]) -> None:
        """Another seed, or other problems alone, are refused."""
        problem = {"kind": "quantile", "tau": [0.25]}
        for field, other in (("seed", {"seed": 12}), ("problem.tau", {"problem": problem})):
            with pytest.raises(InputError, match=field):
                sweep(self.address, study | other, "serial")
        self.look()

    @invariant()
    def rows_are_those_of_an_uninterrupted_run(self) -> None:
        counts["steps"] += 1
        if not hasattr(self, "address") or not RunStore(self.address).holds_run():
            return
        try:
            found = self.stored()
        except DamagedRun:
            assert self.damaged or self.deleted
            found = self.stored([])
        else:
            # A deleted part is noticed if a summary counts its rows.
            assert not self.damaged
        expected = reference()
        assert found == {key: expected[key] for key in self.present}


def machine(place: str) -> type[RunMachine]:
    reference()
    return type("RunMachineThere", (RunMachine,), {"place": place})


PROFILE = settings(
    deadline=None, suppress_health_check=list(HealthCheck), stateful_step_count=10, print_blob=True
)


def main(seconds: str, place: str = "") -> None:
    from tests.faults.object_store import BUCKET, bucket

    end = time.monotonic() + float(seconds)
    few = settings(PROFILE, max_examples=50, database=None, phases=[Phase.generate])
    with tempfile.TemporaryDirectory() as folder, bucket() if place else nullcontext():
        kind = machine(f"s3://{BUCKET}" if place == "--s3" else folder)
        while time.monotonic() < end:
            number = random.randrange(2**32)
            print(f"seed {number}, {dict(counts)}", flush=True)
            explore(seed(number)(kind), settings=few)
    print(dict(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
