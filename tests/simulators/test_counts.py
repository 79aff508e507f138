"""Protocols as a family of simulators: rows, statuses, keys, same bits, and what is refused."""

import numpy as np
import pytest

from ldpflow.components.intervals.counts import Fieller, Inversion
from ldpflow.components.problems.quantile import Quantile
from ldpflow.components.protocols import PROTOCOLS
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.simulators.approach import limit_law
from ldpflow.simulators.counts import Counts
from ldpflow.simulators.families import simulator_from_settings
from ldpflow.simulators.rows import Batch, simulate
from ldpflow.simulators.simulator import Cell
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study

RANGE = (-6.3, 9.7)
ONE_SHOT = [kind for kind in PROTOCOLS if kind != "rounds"]


def simulator(kind, n=10_000, tau=0.5, **settings):
    return Counts(Quantile(tau=tau), PROTOCOLS[kind](range=RANGE, **settings), n)


def methods(kind):
    return (Fieller(),) if kind == "rounds" else (Inversion(), Inversion(limits="line"))


def cells(kind, n=10_000, levels=(0.9, 0.95)):
    return tuple(Cell(n, method, level) for method in methods(kind) for level in levels)


def study(**changes):
    return {
        "name": "protocols",
        "problem": {"kind": "quantile"},
        "protocol": {"kind": "haar", "epsilon": 1.0, "range": [-8.0, 8.0]},
        "grid": {"n": [1000]},
        "method": [{"kind": "inversion"}],
        **changes,
    }


def test_settings_describe_the_simulator():
    made = simulator("grr", epsilon=0.7, liars=0.01)
    assert simulator_from_settings(made.settings()) == made
    others = [simulator("grr"), simulator("grr", n=20_000), simulator("grr", tau=0.6)]
    assert len({made.key, *(other.key for other in others)}) == 4
    assert made.privacy().epsilon == 0.7


def test_an_interval_that_ends_at_the_range_has_a_status_and_no_length():
    made = simulator("grr", n=2000, tau=0.9, epsilon=0.5)
    rows = simulate(Batch(made, 7, 0, 64, cells("grr", n=2000))).rows.to_pylist()
    ended = [row for row in rows if row["status"] == "range_end"]
    assert len(ended) > 32
    for row in ended:
        assert row["range_end"] == 1.0 and np.isnan(row["length"]) and row["covered"] is not None
        assert row["limits"] != "outer" or row["lower"] == RANGE[0] or row["upper"] == RANGE[1]


def test_an_undefined_interval_is_no_miss():
    made = simulator("rounds", n=200, tau=0.9, epsilon=0.5)
    rows = simulate(Batch(made, 7, 0, 200, cells("rounds", n=200))).rows.to_pylist()
    undefined = [row for row in rows if row["status"] == "undefined"]
    assert undefined
    assert all(row["covered"] is None and np.isnan(row["lower"]) for row in undefined)
    assert all(np.isfinite(row["estimate"]) and row["se"] is None for row in undefined)


def test_coverage_of_a_study_counts_intervals_that_end_at_the_range(tmp_path):
    chosen = Study.from_mapping(
        study(
            replicates=100,
            problem={"kind": "quantile", "tau": 0.9},
            protocol={"kind": "grr", "range": list(RANGE), "epsilon": 1.0},
            grid={"n": [3000]},
        )
    )
    run_study(chosen, tmp_path / "run", engine="serial")
    (row,) = RunStore(tmp_path / "run").read_summary().to_pylist()
    rows = RunStore(tmp_path / "run").replicates.read(damaged="refuse").to_pylist()
    assert row["failures"] == 0 and row["bins"] == 16
    assert row["coverage"] == np.mean([r["covered"] for r in rows])
    assert row["range_end_share"] == np.mean([r["status"] == "range_end" for r in rows])
    lengths = [r["length"] for r in rows if r["status"] == "ok"]
    assert 0 < len(lengths) < 100
    assert row["length_mean"] == pytest.approx(np.mean(lengths))


def test_a_study_of_algorithms_and_protocols():
    chosen = Study.from_mapping(
        study(
            mechanism={"kind": "randomized_response", "epsilon": [0.5, 1.0]},
            algorithm={"kind": "ldp_sgd"},
            protocol={"kind": ["haar", "rounds"], "range": [-8.0, 8.0], "epsilon": [0.5, 1.0]},
            grid={"n": [1000, 2000]},
            method=[{"kind": "inversion"}, {"kind": "fieller"}, {"kind": "BM"}],
        )
    )
    families = [plan.simulator.family for plan in chosen.plans()]
    assert families.count("one_pass") == 2
    assert families.count("counts") == 2 * 2 * 2
    assert all(len({cell.method.kind for cell in plan.cells}) == 1 for plan in chosen.plans())
    assert Study.from_mapping(chosen.settings()).hash() == chosen.hash()


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("protocol.range", {"protocol": {"kind": "haar", "epsilon": 1.0}}),
        ("protocol.kind", {"problem": {"kind": "quantile_regression"}}),
        ("method.kind", {"method": [{"kind": "fieller"}]}),
        ("method.kind", {"method": [{"kind": "BM"}]}),
        ("grid.n", {"protocol": {"kind": "rounds", "epsilon": 1.0, "range": [0.0, 1.0]}, "grid": {"n": [50]},
                    "method": [{"kind": "fieller"}]}),
        ("mechanism", {"mechanism": {"kind": "randomized_response", "epsilon": 1.0}}),
    ],
)  # fmt: skip
def test_what_is_refused(field, changes):
    with pytest.raises(InputError) as error:
        Study.from_mapping(study(**changes))
    assert error.value.field == field


def test_the_standard_error_of_the_bound_stands_beside_every_cell():
    made = simulator("rounds", n=10_000, epsilon=1.0)
    expected = np.sqrt(1.1706736 / 10_000) * np.sqrt(2 * np.pi)
    assert made.columns()["efficient_se"] == pytest.approx(expected, rel=1e-7)
    assert limit_law(made) is None


@pytest.mark.parametrize("kind", ONE_SHOT)
def test_asymptotic_law_of_a_histogram(kind):
    """Twice the users, with the same number of bins: the same variance of sqrt(n) times the error."""
    first, second = simulator(kind, k=16), simulator(kind, n=20_000, k=16)
    assert limit_law(first).variances == limit_law(second).variances
    assert limit_law(simulator(kind, k=16, liars=0.1)) is None
    half = limit_law(simulator(kind, k=16, answer_below=0.5, answer_above=0.5)).variances[0]
    assert half == pytest.approx(2 * limit_law(first).variances[0])
