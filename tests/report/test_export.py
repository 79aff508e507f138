"""The exported file, its views, the questions, and the page that documents the tables."""

from pathlib import Path

import duckdb
import pytest

from ldpflow.errors import InputError
from ldpflow.report.export import export_duckdb
from ldpflow.results.arena import HOLDS, settings_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def file(results, tmp_path_factory):
    file = tmp_path_factory.mktemp("export") / "study.duckdb"
    export_duckdb(results, file)
    with pytest.raises(InputError, match="`force`"):
        export_duckdb(results, file)
    with pytest.raises(InputError, match="^output: '' is not allowed.* It is a directory"):
        export_duckdb(results, "", replace=True)
    export_duckdb(results, file, replace=True)
    return str(file)


def test_the_ten_questions_have_answers(results, file):
    with duckdb.connect(file, read_only=True) as db:
        questions = (ROOT / "docs/questions.sql").read_text()
        statements = [s for s in questions.split(";") if "SELECT" in s]
        assert len(statements) == 10
        for statement in statements:
            assert db.execute(statement).fetchall(), statement
        counted = db.execute("SELECT count(*) FROM replicates").fetchone()
        assert counted == (results.store.replicates.read(damaged="refuse").num_rows,)
        for view in ("replicates", "coverage"):
            groups = db.execute(f"SELECT epsilon, law FROM {view} GROUP BY ALL ORDER BY ALL").fetchall()
            assert groups == [(0.5, "normal"), (1.0, "normal")]
        # The last running coverage of a cell is its coverage.
        ends = db.execute(
            "SELECT count(*) FROM running_coverage r JOIN summary s USING (path, n, method, level, "
            "coordinate) WHERE r.beta IS NOT DISTINCT FROM s.beta AND r.replicate = 63 "
            "AND abs(r.coverage_failures_as_misses - s.coverage_failures_as_misses) < 1e-12"
        ).fetchone()
        assert ends == (len(results.rows),)


def test_no_question_hides_a_factor_that_varies(results, file):
    """No two rows of an answer have the same words."""
    with duckdb.connect(file, read_only=True) as db:
        for view, series in (("coverage", ", series"), ("best", ", series"), ("best_beta", "")):
            words = f"setting, n, level, coordinate{series}"
            count, different = db.execute(
                f"SELECT count(*), count(DISTINCT ({words})) FROM {view}"
            ).fetchone()
            assert count == different > 0, view
        # A cell without any interval is last among the methods, not absent.
        counts = "count(coverage_failures_as_misses), count(coverage)"
        shown = db.execute(f"SELECT {counts} FROM coverage").fetchone()
        assert shown == (len(results.rows), sum(row["coverage"] is not None for row in results.rows))


def test_what_is_best_follows_the_rule_of_the_arena(results, file):
    """The first of a setting is the arena's choice, or the nearest; 64 replicates are too few to name one."""
    keys = ("path", "n", "level", "coordinate")
    with duckdb.connect(file, read_only=True) as db:
        firsts = db.execute(
            f"SELECT {', '.join(keys)}, method, beta, level_state FROM best WHERE place = 1"
        ).fetchall()
        betas = db.execute(f"SELECT {', '.join(keys)}, beta FROM best_beta").fetchall()
        methods = "SELECT DISTINCT method, barred IS NULL, place IS NULL FROM summary ORDER BY ALL"
        judged = db.execute(methods).fetchall()
    assert judged == [*((name, True, False) for name in ("BB", "BM", "SN")), ("oracle", False, True)]
    settings = settings_of(results.table.to_pylist())
    best = [(s.keys, s.reference.row, s.reference.state) for s in settings]
    assert set(firsts) == {(*map(of.get, keys), row["method"], row["beta"], state) for of, row, state in best}
    assert sum(first[-1] == HOLDS for first in firsts) == sum(s.best is not None for s in settings) < 4
    assert set(betas) == {
        (*map(s.keys.get, keys), next(e.row["beta"] for e in s.entries if e.row["method"] == "BB"))
        for s in settings
    }
