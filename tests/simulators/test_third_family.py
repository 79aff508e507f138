"""A third family of simulators, without a path: it plugs into study, engine, store, summary and report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pytest
from pydantic import Field

from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.components.intervals.interval import IntervalMethod, normal_intervals
from ldpflow.components.intervals.record import Record
from ldpflow.components.mechanisms import PrivacyStatement
from ldpflow.components.problems import PROBLEMS, BaseProblem
from ldpflow.engine.check import check_run
from ldpflow.engine.prediction import predict
from ldpflow.engine.replay import replay
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.numerics.streams import counter_keys
from ldpflow.report.page import report_html
from ldpflow.report.results import Results
from ldpflow.settings import Settings
from ldpflow.simulators.approach import LimitLaw, limit_law
from ldpflow.simulators.families import FAMILIES, PARTS, simulator_from_settings
from ldpflow.simulators.simulator import Cost, Request, Simulator
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study

# --- the family: 1 answer of n, flipped with probability 1/(1 + e^epsilon) -------------------------------


class Share(BaseProblem):
    """The share p of a population that has a property."""

    kind: Literal["share"] = "share"
    p: Annotated[float, Field(gt=0, lt=1)] = 0.3
    dimension: ClassVar[int] = 1

    def variates(self):
        return ()

    def kernel_parameters(self):
        return {}


class Flip(Settings):
    """Every user's answer, given truthfully with probability ``keep``."""

    family: ClassVar[str] = "shares"
    kind: Literal["flip"] = "flip"
    keep: Annotated[float, Field(gt=0.5, le=1)] = 0.75


@dataclass(frozen=True)
class Tally(Record):
    seed: int
    replicates: Any
    counts: Any
    protocol: Flip
    p: float

    @property
    def truth(self):
        return np.array([self.p])

    def finite(self, n):
        return np.ones(len(self.replicates), bool)


class Wald(IntervalMethod):
    """Normal interval of the share."""

    kind: Literal["wald"] = "wald"
    record: ClassVar[type[Record]] = Tally

    def intervals(self, record, n, levels):
        slope = 2 * record.protocol.keep - 1
        reported = record.counts / n
        estimate = (reported - 1 + record.protocol.keep) / slope
        se = np.sqrt(reported * (1 - reported) / n) / slope
        return normal_intervals(estimate[None], se[None], levels)


@dataclass(frozen=True)
class Shares(Simulator[Request, Tally]):
    family: ClassVar[str] = "shares"
    tables: ClassVar[tuple[str, ...]] = ("problem", "protocol")
    problem: Share
    protocol: Flip
    horizon: int | None

    def parts(self):
        return {"problem": self.problem, "protocol": self.protocol}

    @classmethod
    def of_study(cls, parts, users, independent_n):
        for n in users:
            yield cls(parts["problem"], parts["protocol"], n), (n,)

    def truth(self):
        return np.array([self.problem.p])

    def privacy(self):
        keep = self.protocol.keep
        return PrivacyStatement("eps-LDP", epsilon=float(np.log(keep / (1 - keep))))

    def interval_record(self):
        return Tally

    def reported(self):
        p, keep = self.problem.p, self.protocol.keep
        return p * keep + (1 - p) * (1 - keep)

    def cost(self, request, replicates):
        return Cost(replicates, 1e-6 * replicates)

    def run(self, seed, replicates, request):
        words = [counter_keys(seed, "reports", self.key, replicate) for replicate in replicates]
        counts = [np.random.default_rng(w).binomial(self.horizon, self.reported()) for w in words]
        return Tally(seed, np.array(replicates), np.array(counts), self.protocol, self.problem.p)


@limit_law.register
def limit_law_of_shares(simulator: Shares):
    q = simulator.reported()
    return LimitLaw((q * (1 - q) / (2 * simulator.protocol.keep - 1) ** 2,))


# --- it runs through everything else ---------------------------------------------------------------------

STUDY = {
    "name": "shares",
    "seed": 8,
    "replicates": 300,
    "problem": {"kind": "share", "p": [0.3, 0.6]},
    "protocol": {"kind": "flip", "keep": [0.6, 0.75]},
    "grid": {"n": [500, 2000], "level": 0.9},
    "method": [{"kind": "wald"}],
}


@pytest.fixture(autouse=True, scope="module")
def family():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FAMILIES, "shares", Shares)
        patch.setitem(PROBLEMS, "share", Share)
        patch.setitem(PARTS["protocol"], "flip", Flip)
        patch.setitem(INTERVAL_METHODS, "wald", Wald)
        yield


@pytest.fixture(scope="module")
def run(family, tmp_path_factory):
    run = tmp_path_factory.mktemp("shares") / "run"
    result = run_study(Study.from_mapping(STUDY), run, engine="serial")
    assert not result.failed_batches and result.finished_replicates == 300
    return run


def test_it_runs_is_stored_summarised_and_reported(run):
    store = RunStore(run)
    rows = store.replicates.read(damaged="refuse")
    assert rows.num_rows == 2 * 2 * 2 * 300 and set(rows["status"].to_pylist()) == {"ok"}
    for row in store.read_summary().to_pylist():
        assert row["protocol"] == "flip" and row["algorithm"] is None and row["mechanism"] is None
        assert row["epsilon"] == pytest.approx(np.log(row["keep"] / (1 - row["keep"])))
        assert row["horizon"] == row["n"] and row["replicates"] == 300
        # 8 cells at five standard errors: fails once in 200,000 seeds, coverage being .9 within .005.
        assert abs(row["coverage"] - 0.9) < 5 * 0.0174
        assert row["length_relative"] == pytest.approx(1.0, abs=0.02)
    assert check_run(str(run))[0] == []
    page = report_html(Results.load(run))
    assert "share" in page and "flip" in page and "wald" in page


def test_it_is_replayed_bit_for_bit(run):
    key = Study.from_mapping(STUDY).plans()[3].simulator.key
    computed, stored = replay(run, key, 7, 40)
    assert computed.num_rows == 34 and computed.equals(stored)


def test_the_stored_settings_make_the_simulator_again():
    study = Study.from_mapping(STUDY)
    for plan in study.plans():
        assert simulator_from_settings(plan.simulator.settings()) == plan.simulator
    assert Study.from_mapping(study.settings()).plans() == study.plans()
    assert study.replace({"protocol.keep": 0.9}).plans()[0].simulator.protocol.keep == 0.9
    assert predict(study.plans(), 100, 1, "serial").steps == 8 * 100


def test_methods_of_other_records_are_left_out_or_refused():
    with pytest.raises(InputError, match=r"^mechanism: "):
        Study.from_mapping(STUDY | {"mechanism": {"kind": "laplace", "epsilon": 1.0}})
    both = STUDY | {
        "problem": {"kind": "quantile"},
        "protocol": {"kind": "flip"},
        "algorithm": {"kind": "ldp_sgd"},
        "mechanism": {"kind": "randomized_response", "epsilon": 1.0},
        "method": [{"kind": "BM"}, {"kind": "wald"}],
    }
    plans = Study.from_mapping(both).plans()
    kinds = {type(plan.simulator).__name__: {c.method.kind for c in plan.cells} for plan in plans}
    assert kinds == {"OnePass": {"BM"}, "Shares": {"wald"}}
