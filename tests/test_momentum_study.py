"""Private empirical risk minimisation as a study: from TOML to rows, again, further, and refused."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ldpflow.components.algorithms.dp_nsgd import DpNsgd
from ldpflow.components.problems.nonconvex_logistic import NonconvexLogistic
from ldpflow.engine.replay import replay
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.numerics.streams import LANES
from ldpflow.report.pictures import FIGURES
from ldpflow.report.results import Results
from ldpflow.results.trajectories import read_trajectories
from ldpflow.simulators.families import simulator_from_settings
from ldpflow.simulators.finite_sum import FiniteSum, draw_records, minimum, risk
from ldpflow.simulators.rows import Batch, simulate
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study
from tests.kernels import uncompiled

PROBLEM = {"kind": "nonconvex_logistic", "d": 3, "penalty": 0.5}
STUDY = {
    "name": "momentum", "seed": 11, "replicates": 34, "grid": {"n": [30]}, "trajectory": {"points": 4},
    "problem": PROBLEM,
    "algorithm": [
        {"kind": "dp_nsgd", "noise": ["tree", "none"], "epsilon": 4.0, "epochs": 6.0},
        {"kind": "dp_gd", "epsilon": 4.0, "epochs": 6.0},
        {"kind": "dp_sgd", "epsilon": 4.0, "epochs": 6.0, "batch_size": 10},
    ],
}  # fmt: skip


def study(**changes):
    return Study.from_mapping(STUDY | changes)


@pytest.fixture(scope="module", autouse=True)
def plain_python():
    with pytest.MonkeyPatch.context() as patched:
        uncompiled.use(patched)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "r"
    run_study(study(), out, engine="serial")
    return out


def test_every_row_says_what_it_is_private_against(run):
    table = pq.read_table(run / "trajectories.parquet")
    names = ("privacy_notion", "privacy_unit", "epsilon", "delta", "mechanism")
    found = {(row["noise"] != "none", *map(row.get, names)) for row in table.to_pylist()}
    private = (True, "(eps, delta)-DP (central)", "record (replacement)", 4.0, 1e-6, "none")
    assert found == {private, (False, "none", None, None, None, "none")}
    # What the spec asks to be reported with every result.
    assert {"n", "d", "order", *(column.name for column in DpNsgd.derived)} <= set(table.column_names)


def test_rows_and_their_summary(run):
    path = FiniteSum(NonconvexLogistic(d=3, penalty=0.5), DpNsgd(epsilon=4.0, epochs=6.0), 30)
    assert "mechanism" not in path.settings() and simulator_from_settings(path.settings()) == path
    every = read_trajectories(RunStore(run), damaged="refuse")
    every = every.filter(pc.equal(every["path"], f"p{path.key}"))
    rows = every.filter(pc.equal(every["replicate"], 33))
    assert rows["step"].to_pylist() == [22, 67, 112, 157, 180] and set(rows["n"].to_pylist()) == {30}
    output = rows["output_loss"].to_pylist()
    assert output[:-1] == [None] * 4 and output[-1] is not None
    # Over replicates, the mean along the path is that over the checkpoints before the last.
    summary = pq.read_table(run / "trajectories.parquet")
    mean_norm = pc.equal(summary["stat"], "mean_gradient_norm")
    (row,) = summary.filter(pc.and_(pc.equal(summary["path"], f"p{path.key}"), mean_norm)).to_pylist()
    before = every.filter(pc.less(every["step"], 180))
    assert (row["step"], row["replicates"]) == (180, 34)
    assert row["mean"] == pytest.approx(pc.mean(before["gradient_norm"]).as_py(), rel=1e-12)
    # Any settings: the noise is below its bound on average, at seven standard errors.
    assert row["theory_bound"] > row["mean"]
    computed, stored = replay(run, path.key, 7, 8)
    assert computed.num_rows == 10 and computed.equals(stored)


def rates(study, run, x):
    run_study(study, run, engine="serial")
    return FIGURES["rates"].chart(Results.load(run), x).to_dict()["data"]["values"]


def test_rates_have_theorys_slope_through_the_start_of_a_line(tmp_path):
    algorithm = STUDY["algorithm"][0] | {"noise": "tree"}
    points = rates(study(algorithm=algorithm, replicates=2, grid={"n": [20, 30]}), tmp_path / "run", "n")
    first, last = sorted(points, key=lambda point: point["x"])
    assert first["limit"] == first["y"]
    assert np.log(last["limit"] / first["limit"]) / np.log(30 / 20) == pytest.approx(-0.5, abs=1e-5)


def test_rates_of_several_laws_have_a_panel_each(tmp_path):
    laws = [{"separation": 1.0}, {"separation": 1.5, "direction": "axis"}]
    problem = [PROBLEM | law for law in laws]
    algorithm = {"kind": "dp_gd", "epsilon": 4.0, "epochs": [2.0, 4.0]}
    several = study(problem=problem, algorithm=algorithm, replicates=3, grid={"n": [10, 20, 30]})
    for x, others in (("n", ("epochs = 2", "epochs = 4")), ("epochs", ("n = 10", "n = 20", "n = 30"))):
        points = rates(several, tmp_path / "run", x)
        ends = ("separation = 1", "separation = 1.5")
        assert {p["panel"] for p in points} == {f"{other}, {end}" for other in others for end in ends}
        assert len({(p["panel"], p["x"]) for p in points}) == len(points) == 12


def private(kind="dp_nsgd", **settings):
    return {"algorithm": {"kind": kind, "epsilon": 1.0, **settings}}


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"algorithm": {"kind": "ldp_sgd"}}, "mechanism", "a table"),
        ({"algorithm": {"kind": "ldp_sgd"}, "mechanism": {"kind": "none"}}, "algorithm.kind", "visits"),
        ({"mechanism": {"kind": "laplace", "epsilon": 1.0}}, "algorithm.kind", "adds noise itself"),
        ({"problem": {"kind": "quantile"}}, "algorithm.kind", "fixed data set"),
        ({"method": {"kind": "BM"}}, "method.kind", "no true parameter"),
        ({"trajectory": None}, "trajectory", "has no intervals"),
        ({"grid": {"n": 30, "independent_n": True}}, "grid.independent_n", "false for"),
        (private(alpha=0.01), "algorithm.alpha", "at least 1/M"),
        (private(batch_size=40), "algorithm.batch_size", "at most n = 30"),
        (private("dp_sgd", batch_size=31), "algorithm.batch_size", "at most n = 30"),
        (private("dp_nsgd_reduced", epochs=0.5), "algorithm.epochs", "more than 1"),
        (private(parameters="balanced", epochs=4.0), "algorithm", "chooses epochs itself"),
        (private(parameters="balanced", noise="none"), "algorithm.parameters", "no noise"),
        (private("dp_gd", epochs=1e9) | {"grid": {"n": 10**7}}, "grid.n", "MiB"),
    ],
)
def test_what_does_not_go_together_is_refused(changes, field, words):
    mapping = {k: v for k, v in (STUDY | changes).items() if v is not None}
    with pytest.raises(InputError) as caught:
        Study.from_mapping(mapping)
    assert caught.value.field == field
    assert words in str(caught.value)


def test_the_excess_risk_where_the_risk_is_convex():
    problem = NonconvexLogistic(d=3, penalty=0.0)
    records = draw_records(problem, 0, 60, range(LANES))
    least = minimum(problem, records, LANES)
    alone = minimum(problem, draw_records(problem, 0, 60, [5]), 1)
    assert alone[0] == least[5]  # a row does not depend on its neighbours
    rng = np.random.default_rng(0)
    losses, _ = risk(problem, records, rng.normal(scale=2.0, size=(50, 3, LANES)))
    assert np.isfinite(least).all() and (losses >= least - 1e-12).all()
    # In a study it is the excess risk of every iterate.
    path = FiniteSum(problem, DpNsgd(epochs=2.0), 60)
    batch = Batch(path, 0, 5, 6, (), (), (1, 60, 120))
    rows = simulate(batch).trajectories
    excess = rows["loss"].to_numpy() - least[5]
    assert rows["last_exc"].to_numpy() == pytest.approx(excess, abs=1e-15) and (excess > 0).all()
    assert problem.convex() and not NonconvexLogistic(penalty=0.1).convex()


def test_columns_of_a_path_hold_no_infinity():
    columns = FiniteSum(NonconvexLogistic(), DpNsgd(noise="none", epsilon=3.0), 50).columns()
    assert columns["epsilon"] is None and columns["cost"] is None and columns["sigma"] == 0.0
    assert pa.array([columns["cross"]]).null_count == 1
    # The baseline without noise is one path, whatever budget stands beside it.
    assert DpNsgd(noise="none", epsilon=3.0) == DpNsgd(noise="none")
