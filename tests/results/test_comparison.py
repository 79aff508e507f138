"""What can be compared with what in a run, and what is refused."""

from __future__ import annotations

import pytest

from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.results.comparison import comparisons
from ldpflow.results.summary import stored_cells, stored_paths, summary_of
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study
from tests.studies import changed


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    study = Study.from_mapping(
        changed(
            replicates=64,
            algorithm={"kind": "ldp_sgd", "gamma": [0.6, 0.7]},
            grid={"n": [200, 400], "level": 0.9},
            method=[{"kind": "BB", "beta": [0.75, 0.85], "B": 50}, {"kind": "SN"}],
        )
    )
    out = tmp_path_factory.mktemp("comparison") / "run"
    run_study(study, out, engine="serial")
    store = RunStore(out)
    return list(stored_cells(store, damaged="refuse")), stored_paths(store.replicates, damaged="refuse")


def test_methods_on_the_same_paths(run):
    found = comparisons(*run, by="method")
    assert len(found) == 2 * 2 * 2 * 2 * 2  # tau, epsilon, gamma, n; two against the first
    assert {(c.differs["method"], c.differs["beta"]) for c in found} == {("BB", 0.85), ("SN", None)}
    assert {c.baseline for c in found} == {"BB beta=0.75"} and {c.result.pairs for c in found} == {64}


def test_a_difference_is_the_difference_of_the_summaries(run):
    cells, paths = run
    summary = summary_of(cells, paths).to_pylist()

    def of(c, **own):
        wanted = {**c.shared, **own}
        (row,) = (r for r in summary if all(r.get(k) == v for k, v in wanted.items() if k in r))
        return row

    for c in comparisons(cells, paths, by="epsilon"):
        mine, other = of(c, epsilon=1.0), of(c, epsilon=0.5)
        assert c.differs == {"epsilon": 1.0} and c.baseline == "0.5"
        assert c.result.coverage_difference == pytest.approx(mine["coverage"] - other["coverage"])
        assert c.result.length_ratio == pytest.approx(mine["length_mean"] / other["length_mean"])


def test_budgets_that_are_settings_are_not_mixed(tmp_path):
    """A method at mu = 2 is compared with another at mu = 2."""
    tables = {"problem": {"kind": "quadratic"}, "mechanism": {"kind": "gaussian", "mu": [1.0, 2.0]}}
    study = changed(replicates=8, grid={"n": 200, "level": 0.9}, method=[{"kind": ["BM", "SN"]}], **tables)
    run_study(Study.from_mapping(study), tmp_path, engine="serial")
    store = RunStore(tmp_path)
    cells = list(stored_cells(store, damaged="refuse"))
    paths = stored_paths(store.replicates, damaged="refuse")
    found = comparisons(cells, paths, by="method")
    assert [(c.differs["method"], c.shared["mu"]) for c in found] == [("SN", 1.0), ("SN", 2.0)]
    found = comparisons(cells, paths, by="mu")
    assert [(c.shared["method"], c.differs) for c in found] == [("BM", {"mu": 2.0}), ("SN", {"mu": 2.0})]


@pytest.mark.parametrize(("by", "count"), [("gamma", 24), ("beta", 16), ("n", 24)])
def test_by_one_setting(run, by, count):
    assert len(comparisons(*run, by=by)) == count


def test_a_baseline_that_is_named(run):
    assert {c.baseline for c in comparisons(*run, by="method", baseline="SN")} == {"SN"}
    assert {c.baseline for c in comparisons(*run, by="n", baseline="4e2")} == {"400"}


@pytest.mark.parametrize(
    ("by", "baseline", "field"),
    [
        ("tau", None, "by"),  # other problems have other users
        ("level", None, "by"),  # one only
        ("nonsense", None, "by"),
        ("method", "BM", "baseline"),
        ("epsilon", "x", "baseline"),
    ],
)
def test_refused(run, by, baseline, field):
    with pytest.raises(InputError, match=field):
        comparisons(*run, by=by, baseline=baseline)


def test_private_bits_drawn_directly_have_no_users_to_share():
    for sampling, users in (("data", 1), ("private_bit", 2)):
        mechanism = {"kind": "randomized_response", "epsilon": [1, 2], "sampling": sampling}
        plans = Study.from_mapping(changed(mechanism=mechanism, problem__tau=0.5)).plans()
        assert len({plan.simulator.users_key() for plan in plans}) == users
