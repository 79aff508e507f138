"""The table of a pilot's values stays in the run directory: no page, citation, export or display has it."""

import json
import re
from html import unescape
from pathlib import Path

import duckdb
import pytest

import ldpflow as lf
from ldpflow.cli import main
from ldpflow.documents import parse_toml
from tests.kernels import uncompiled
from tests.oracles.column_law import example_column
from tests.studies import small

HEXADECIMAL = re.compile(r"0x1\.[0-9a-f]{13}p[+-]\d+")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pilot")
    file = folder / "pilot.csv"
    file.write_text("a\n" + "".join(f"{v!r}\n" for v in example_column(1000).tolist()))
    problem = lf.Quantile(law="empirical", file=str(file), column="a")
    algorithm = lf.LdpSgd(c=1000.0, theta0=2000.0)
    study = small(problem=problem, algorithm=algorithm, n=200, replicates=8, name="pilot")
    with pytest.MonkeyPatch.context() as patched:
        uncompiled.use(patched)
        with pytest.warns(lf.Caution, match="holds the values of the pilot"):
            swept = lf.sweep(study, folder / "run", executor="serial")
        yield swept


@pytest.mark.thorough
def test_report_and_displays_are_without_it(run, tmp_path):
    """The text in the report is a study file that gives the paths of the run from the pilot's file."""
    # Or this file would show nothing.
    assert len(HEXADECIMAL.findall((Path(run.out) / "study.toml").read_text())) > 30
    page = Path(run.report(tmp_path / "report.html")).read_text()
    assert not HEXADECIMAL.search(page) and "law_table is left out" in page
    study = run.study
    texts = [repr(study), repr(study.components()), repr(study.simulators()), repr(study.problem[0])]
    texts += [repr(study.simulators()[0].problem.data_law()), run._repr_html_(), json.dumps(run.provenance)]
    assert not any(HEXADECIMAL.search(text) for text in texts)
    (text,) = re.findall(r"every default written out</summary><pre><code>(.*?)</code>", page, re.S)
    assert "law_table" not in json.dumps(parse_toml(unescape(text), "study"))
    again = lf.Study.from_toml(unescape(text))
    assert [s.key for s in again.simulators()] == [s.key for s in study.simulators()]


@pytest.mark.parametrize(
    "command",
    ["cite", "cite --text", "summary --format json", "summary --format csv", "explain", "check",
     "replay --replicate 3"],
)  # fmt: skip
def test_what_commands_print_is_without_it(run, capsys, command):
    name, *options = command.split()
    assert main([name, run.out, *options]) == 0
    assert not HEXADECIMAL.search("".join(capsys.readouterr()))


def test_files_for_others_are_without_it(run, tmp_path):
    file = str(tmp_path / "study.duckdb")
    assert main(["export", run.out, "-o", file]) == 0
    with duckdb.connect(file, read_only=True) as db:
        for (name,) in db.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            assert not HEXADECIMAL.search(repr(db.execute(f"FROM {name}").fetchall())), name
    for name in ("summary.parquet", "paths.parquet"):
        assert not HEXADECIMAL.search((Path(run.out) / name).read_bytes().decode("latin-1")), name
