"""The bundled studies of Gaussian privacy against reference table, bounds and figure facts.

Minutes of Monte Carlo (marked slow); the output is kept in docs/gaussian_tables.md. Acceptance facts A11 and
A16, and sections 7 and 8 of the specification.
"""

import pyarrow.parquet as pq
import pytest

import ldpflow as lf
from ldpflow.engine.run import run_study
from ldpflow.study import load_study

pytestmark = pytest.mark.slow

BUDGETS = (0.5, 1.0, 2.0, 3.0)
EXPONENTS = (0.3, 0.6, 0.9)
DIMENSIONS = (5, 10, 20)
LAST = 100_000


@pytest.fixture(scope="module", params=["gdp-trajectories", "gdp-trajectories-logistic"])
def curves(request, tmp_path_factory):
    """The bundled study at 5 of its checkpoints, which change no bit of the others."""
    out = tmp_path_factory.mktemp("gdp")
    settings = load_study(request.param).settings()
    run_study(lf.Study.from_mapping({**settings, "trajectory": {"points": 5}}), out, engine="serial")
    table = pq.read_table(out / "trajectories.parquet").to_pylist()
    rows = {(r["dimension"], r["mu"], r["gamma"], r["stat"], r["n"]): r for r in table}
    assert len(rows) == len(table) == 36 * 5 * 5
    return rows


def test_below_the_bounds(curves):
    checked = [r for r in curves.values() if r["theory_bound"] is not None]
    assert len(checked) == 36 * 5 * 2
    assert max((r["mean"] + 3 * r["mcse"]) / r["theory_bound"] for r in checked) <= 1


def test_figure_facts(curves):
    """A16: who wins, errors fall in mu, distances grow in d (excess loss at alpha = .9 does not)."""

    def end(d, mu, alpha, stat):
        return curves[(d, mu, alpha, stat, LAST)]["mean"]

    for d in DIMENSIONS:
        for mu in BUDGETS:
            for kind in ("sq", "exc"):
                early, middle, late = (
                    end(d, mu, a, f"avg_{kind}") - end(d, mu, a, f"last_{kind}") for a in EXPONENTS
                )
                assert early < 0 < late
                assert middle > 0
    for alpha in EXPONENTS:
        for stat in ("last_sq", "avg_sq", "last_exc", "avg_exc"):
            for d in DIMENSIONS:
                errors = [end(d, mu, alpha, stat) for mu in BUDGETS]
                assert errors == sorted(errors, reverse=True)
            for mu in BUDGETS:
                errors = [end(d, mu, alpha, stat) for d in DIMENSIONS]
                assert errors == sorted(errors) or (stat.endswith("exc") and alpha == 0.9)
