"""The Python interface, as a user types it."""

import ast
import copy
import inspect
import os
import pickle
import pydoc
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import altair
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

import ldpflow as lf
from ldpflow.options import SweepOptions
from ldpflow.report.pictures import FIGURES
from ldpflow.run import show_tables
from ldpflow.sweeps import cautions, run_sweep
from tests import studies

ROOT = Path(__file__).parents[2]
KEYS = ("epsilon", "law", "n", "replicate")


def small(**changes):
    methods = [lf.BlockBootstrap(beta=[0.65, 0.75], B=40), lf.SelfNormalization(), lf.Oracle()]
    settings = {"methods": methods, "n": [5e2, 1e3], "replicates": 40, "seed": 1, "name": "mine"}
    parts = {"problem": lf.Quantile(tau=[0.5, 0.9]), "mechanism": lf.RandomizedResponse(epsilon=[0.5, 1.0])}
    return studies.small(**settings | parts | changes)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return lf.sweep(small(), tmp_path_factory.mktemp("python") / "run", executor="serial", progress=True)


def test_names_are_listed_and_unknown_ones_refused():
    assert dir(lf) == sorted(lf.__all__) and {"Study", "Run", "sweep", "BlockBootstrap"} <= {*dir(lf)}
    with pytest.raises(AttributeError, match="Quantilez"):
        lf.Quantilez  # noqa: B018


def test_a_study_shows_as_its_constructor_and_as_a_table():
    study = small(monitor={"first_n": 500})
    names = {name: getattr(lf, name) for name in lf.__all__}
    assert eval(repr(study), names) == study == lf.Study.load(study.to_toml())
    assert "RandomizedResponse(epsilon=[0.5, 1.0])" in repr(study) and "gamma" not in repr(study)
    for name in ("arena", "protocols-quartiles", "gdp-trajectories", "tr-steps"):
        assert eval(repr(lf.Study.load(name)), names) == lf.Study.load(name), name
    assert study.methods == study.method and {"methods", "replace", "to_toml", "n"} <= {*dir(study)}
    page = small()._repr_html_()
    assert "<b>mine</b>" in page and "4 paths, 32 cells, 40 replicates" in page
    assert "tau = 0.5, 0.9; law = normal" in page and "beta = 0.65, 0.75" in page


def test_another_study_is_refused_before_it_is_warned_of(run, recwarn):
    lost = lf.open_run(run.out).study.replace(seed=99, n=[50])
    with pytest.raises(lf.InputError, match="seed"):
        lf.sweep(lost, run.out, executor="serial")
    assert not recwarn.list


def test_a_run_that_takes_on_other_cells_or_another_study_is_named(tmp_path):
    out, said = tmp_path / "r", []

    def sweep(**changes):
        study = small(problem=lf.Quantile(tau=0.5), methods=lf.SelfNormalization(), replicates=2, **changes)
        said.clear()
        run_sweep(study, out, SweepOptions(engine="serial"), on_engine=said.append, on_caution=said.append)
        return [text for text in said if str(out) in text]

    ways = ": `out` gives a run of its own, `fresh` starts over"
    assert sweep() == [] and sweep() == []
    assert sweep(n=10) == [f"mine adds 2 cells to 4 in {out}{ways}"]
    assert sweep(n=500) == [] and sweep(n=[10, 100, 500, 1000]) == []
    assert sweep(n=20, name="other") == [f"other adds 2 cells to 8 in {out}, the run of mine{ways}"]
    assert f"mine adds 0 cells to 10 in {out}, the run of other{ways}" in sweep(n=20)


def test_help_of_a_component_is_its_page():
    found = pydoc.render_doc(lf.Quantile, renderer=pydoc.plaintext)
    assert len(found.splitlines()) < 250 and "model_" not in found and "pydantic_" not in found
    for text in ("tau : a number in (0, 1) [share]", "g(x, theta) = -tau", "Dette and Graw, 2024", ">>> "):
        assert text in found, text
    shown = str(inspect.signature(lf.BlockBootstrap))
    assert shown.startswith("(*, beta: float | list[float] = 0.75, B: int")
    assert "theta0 : a finite number" in lf.LdpSgd.__doc__ and "B perturbed" not in lf.LdpSgd.__doc__
    assert {"truth", "tau"} <= {*dir(lf.Quantile(tau=0.5))} and "model_" not in str(dir(lf.Quantile(tau=0.5)))
    assert not {"key_settings", "complete_axes", "from_values"} & {*dir(lf.BatchMeans())}
    assert repr(lf.RandomizedResponse()) == "RandomizedResponse()"
    assert str(lf.Quantile(tau=0.9)) == "Quantile(tau=0.9)" and repr(lf.BatchMeans()) == "BatchMeans()"


def test_lists_are_axes_and_scalars_are_scalars():
    axes = lf.QuantileRegression(coefficients=[(1.0, 2.0), (0.0, 1.0)])
    assert len(small(problem=axes, mechanism=lf.Laplace(epsilon=1.0)).simulators()) == 2
    axes = lf.Quantile(tau=[0.5, 0.9])
    assert repr(axes) == "Quantile(tau=[0.5, 0.9])" and pickle.loads(pickle.dumps(axes)) == axes
    with pytest.raises(AttributeError, match="no attribute 'tau'"):
        axes.tau  # noqa: B018


def test_large_steps_warn_of_the_methods_around_the_average_alone():
    study = small(problem=lf.Quantile(tau=0.9), algorithm=lf.LdpSgd(c=6.0), n=20_000)
    large = {}
    for method in (lf.BatchMeans(), lf.TranscriptRegression(degree=3), lf.ParallelRuns()):
        large[method.kind] = "steps too large" in str(cautions(study.replace(methods=method)))
    assert large == {"BM": True, "TR": False, "PAR": True}


def test_summary_rows_and_their_conditions(run):
    summary = run.summary(where="method == 'BB' and n == 1000", sort="-coverage")
    assert isinstance(summary, pa.Table) and summary.num_rows == 2 * 2 * 2
    coverage = summary["coverage"].to_pylist()
    assert coverage == sorted(coverage, reverse=True)
    rows = run.rows(method="BB", n=1_000)
    assert rows.num_rows == 40 * 2 * 2 * 2 and set(rows["n"].to_pylist()) == {1000}
    assert run.rows(where="replicate < 3 and method == 'SN'").num_rows == 3 * 4 * 2
    states = run.summary(sort="level_state", columns=["method", "level_state"])["level_state"].to_pylist()
    assert states == sorted(states) and set(states) <= {"fails", "holds", "unclear"}
    assert "level_state" not in run.summary(sort="level_state").column_names
    short = run.summary(short=True, sort="-coverage")
    assert short.column_names[:5] == ["epsilon", "tau", "n", "method", "beta"] and short.num_columns < 17
    assert short.num_rows == summary.num_rows * 4 and sorted(short["level_state"].to_pylist()) == states


def test_rows_have_the_settings_of_their_path(run):
    rows, summary = run.rows(), run.summary()
    settings = summary.column_names[: summary.column_names.index("n")]
    assert {"epsilon", "tau", "law", "gamma"} < set(settings) < set(rows.column_names)
    keys = ["epsilon", "law", "tau", "n", "method", "beta"]
    expected = summary.to_pandas().fillna({"beta": 0.0}).set_index(keys)["coverage_failures_as_misses"]
    groups = rows.to_pandas().fillna({"beta": 0.0}).groupby(keys)["covered"]
    shares = groups.agg(lambda covered: (covered == True).mean())  # noqa: E712 - null where there is no interval
    assert shares.index.sort_values().equals(expected.index.sort_values())
    assert (shares - expected).abs().max() < 1e-12


def test_plain_readers_join_rows_and_settings_with_the_line_of_the_page(run):
    text = (ROOT / "docs" / "run_directory.md").read_text().partition("## Rows with their settings")[2]
    shown = ast.parse(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1])
    lines = [ast.unparse(statement) for statement in shown.body]
    modules = {name: import_module(name) for name in ("duckdb", "polars", "pandas", "pyarrow")}
    expected = sorted(zip(*(run.rows()[name].to_pylist() for name in KEYS), strict=True))
    assert [line.partition(".")[0] for line in lines] == ["duckdb", "polars", "pandas", "pyarrow"]
    for line in lines:
        found = eval(line.replace("runs/t1", run.out), modules)
        frame = found.df() if line.startswith("duckdb") else found.to_pandas() if "pyarrow" in line else found
        assert sorted(zip(*(frame[name] for name in KEYS), strict=True)) == expected, line
    (Path(run.out) / "paths.parquet").rename(Path(run.out) / "away")
    assert ["paths.parquet: absent" in finding.what for finding in run.check().findings] == [True]
    (Path(run.out) / "away").rename(Path(run.out) / "paths.parquet")


def test_what_a_run_offers(run):
    compared = run.compare("method", baseline="oracle")
    few = run.compare("method", baseline="oracle", where="n == 1000", short=True)
    undefined = ["length_pairs", "undefined", "undefined_baseline"]
    measures = ["vs", "coverage_difference", "coverage_difference_mcse", "length_ratio", "length_ratio_mcse"]
    assert few.column_names == ["epsilon", "tau", "n", "method", "beta", *measures, "pairs", *undefined]
    assert few.num_rows == compared.num_rows / 2 and {*few["vs"].to_pylist()} == {"oracle"}
    assert {*run.compare("epsilon", short=True)["vs"].to_pylist()} == {"epsilon=0.5"}
    explained, short = run.explain(sort=["bias_effect", "-length_mean"]), run.explain(short=True).to_pylist()
    worst = explained["bias_effect"].to_pylist()
    assert worst == sorted(worst) and len(explained["explanation"]) == run.summary().num_rows
    assert {"method", "length_effect", "length_effect_mcse", "level_state", "cause"} <= {*short[0]}
    for row in short:
        effects = [value or 0.0 for name, value in row.items() if name.endswith("_effect")]
        assert row["level"] + sum(effects) == pytest.approx(row["coverage"], abs=1e-12) and any(effects)
    state, cause = short[0]["level_state"], short[0]["cause"]
    chosen = run.summary(f"level_state == '{state}'")
    assert chosen.num_rows == [row["level_state"] for row in short].count(state)
    assert chosen.schema == run.summary().schema
    few = run.explain(f"cause == {cause!r} and level_state == '{state}' and n > 0")
    assert few.num_rows >= 1 and {*few["cause"].to_pylist()} == {cause}
    assert run.study == small() and run.provenance[0]["seed"] == 1 and run.result.finished_replicates == 40
    assert lf.open_run(run.out).summary().equals(run.summary())


def test_components_are_replaced_by_components():
    study = small().replace(mechanism=lf.Laplace(epsilon=[1.0, 2.0]), methods=[lf.BatchMeans()], n=[2e3])
    expected = small(mechanism=lf.Laplace(epsilon=[1.0, 2.0]), methods=lf.BatchMeans(), n=2e3)
    assert study == expected and study.hash() == expected.hash()
    for wrong in (3.0, "laplace", [lf.Laplace(), 1.0]):
        with pytest.raises(lf.InputError, match=r"^mechanism: .*RandomizedResponse\(epsilon=1.0\)"):
            small().replace(mechanism=wrong)


def test_a_path_is_replayed_by_the_first_digits_of_its_key(run):
    keys = sorted(set(run.summary()["path"].to_pylist()))
    assert len(keys) == 4 and len({key[:4] for key in keys}) == 4
    again = run.replay(keys[1][:4], 3)
    assert again.equal and again.stored.num_rows == 8
    for given, said in ((None, "path is missing"), ("pxyz", "path: 'pxyz'")):
        with pytest.raises(lf.InputError) as caught:
            run.replay(given, 3)
        text = str(caught.value)
        assert text.startswith(said) and all(key in text for key in keys)


def test_a_package_of_an_extra_that_is_missing_comes_with_the_line_that_installs_it(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    said = r"^vl_convert is not installed.*'ldpflow\[report\]'"
    for call in (run.report, lambda: run.plot("coverage")):
        with pytest.raises(lf.MissingExtra, match=said) as caught:
            call()
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_run_without_intervals_shows_the_errors_of_its_paths(tmp_path):
    few = {"collection": {"unit": "EUR"}, "replicates": 2, "trajectory": {"first": 10, "points": 3}}
    run = lf.sweep(studies.small(methods=[], **few), tmp_path / "run", executor="serial")
    assert repr(run).endswith("0 cells, 0 replicates")
    page = run._repr_html_()
    assert "and so of lengths, is EUR." in page and "last_sq" in page and page.count("<tr>") == 2


def test_pictures_and_pages(run):
    chart = run.plot("coverage", x="n")
    assert "vega-lite" in chart.to_json() and "image/svg+xml" in str(chart._repr_mimebundle_(None, None))
    with altair.renderers.enable("html"):
        assert "text/html" in str(chart._repr_mimebundle_(None, None))
    for again in (pickle.loads(pickle.dumps(chart)), copy.deepcopy(chart)):  # a dashboard's cache pickles it
        again.title.text = "Title of a copy"
        assert "Title of a copy" in str(again._repr_mimebundle_(None, None))
    page = run._repr_html_()  # of 32 rows a line for each method and the ten worst cells
    assert "32 cells, 40 replicates" in page and page.count("<table>") == 2
    assert page.count("<tr>") == 1 + 4 + 1 + 10 and "10 of 32 rows, the worst" in page and "holds" in page
    with pytest.raises(lf.InputError, match="open_run"):
        lf.Run(run.out)
    with pytest.raises(lf.InputError, match="Did you mean 'coverage'"):
        run.plot("covrage")
    assert all(f"``{name}``" in lf.Run.plot.__doc__ for name in FIGURES)


def test_a_record_in_memory_gives_the_stored_intervals(run):
    study = small()
    method = lf.SelfNormalization()
    simulator = study.simulators()[0]
    record = lf.simulate(simulator, seed=1, replicates=range(32), n=[1e3], methods=[method])
    found = method.intervals(record, 1000, [0.9])
    rows = run.rows(method="SN", n=1000, path=f"p{simulator.key}").sort_by("replicate")
    assert found.lower[0, 0].tolist() == rows["lower"].to_pylist()[:32]
    assert lf.simulate(simulator, seed=1, replicates=range(3), n=[1e3]).replicates.tolist() == [0, 1, 2]


def test_a_notebook_shows_progress_and_tables_by_default(run, tmp_path, monkeypatch):
    events, html = [], mock.Mock()
    shell = SimpleNamespace(kernel=1, display_formatter=SimpleNamespace(formatters={"text/html": html}))
    monkeypatch.setattr("ldpflow.cli.progress.reporter", lambda *given: nullcontext(events.append))
    study = studies.small(replicates=2)
    for found, progress, shown in ((object(), None, False), (shell, False, False), (shell, None, True)):
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda found=found: found))
        lf.sweep(study, tmp_path / f"{shown}-{progress}", executor="serial", progress=progress)
        assert bool(events) == shown
    show_tables()
    module, name, table_html = html.for_type_by_name.call_args.args
    assert getattr(sys.modules[module], name) is pa.Table
    page = table_html(run.rows())
    assert page.startswith("<p>Rows: 1,280, columns: ") and page.count("<tr>") == 1 + 30
    assert "<td>quantile</td>" in page and table_html(run.trajectories()).count("<tr>") == 1
    # It would break a cause at each space, and leave a sentence the width of a word.
    page = table_html(pa.table({"cause": ["19% too short", "none"], "explanation": ["It is so. " * 30, "?"]}))
    assert '<td style="white-space: nowrap">19% too short</td>' in page and "<td>none</td>" in page
    assert '<td style="min-width: 40em; text-align: left">It is so. ' in page


def test_a_notebook_shows_tables_from_the_import_on():
    code = (
        "import sys; from types import SimpleNamespace as Of; from unittest.mock import Mock; html = Mock();"
        "shell = Of(kernel=1, display_formatter=Of(formatters={'text/html': html}));"
        "sys.modules['IPython'] = Of(get_ipython=lambda: shell); import ldpflow;"
        "assert html.for_type_by_name.call_args.args[:2] == ('pyarrow.lib', 'Table');"
        "assert not {'pyarrow', 'numpy'} & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0


def test_a_warning_names_the_line_of_the_user(tmp_path):
    study = studies.small(replicates=2)
    lf.sweep(study, tmp_path / "run", executor="serial")
    with pytest.warns(UserWarning) as found:
        lf.sweep(study.replace(c=0.01), tmp_path / "run", executor="serial", fresh=True)
    assert {warning.category for warning in found} == {UserWarning, lf.Caution}
    assert {warning.filename for warning in found} == {__file__}


def test_an_interrupted_sweep_stops_in_order(tmp_path):
    def interrupt():
        while not (tmp_path / "run" / "study.toml").exists():
            time.sleep(0.02)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(lf.SweepInterrupted, match="what had finished is in") as caught:
        lf.sweep(small(n=[1e6], replicates=4000), tmp_path / "run", executor="serial")
    assert isinstance(caught.value, KeyboardInterrupt) and caught.value.result.finished_replicates < 4000


@pytest.mark.thorough
def test_the_types_are_those_that_users_need(tmp_path):
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"]
    command += ["--no-site-packages"]  # reading the types of numpy takes five times as long
    command += ["--ignore-missing-imports", Path(__file__).parent / "typed_use.py"]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
