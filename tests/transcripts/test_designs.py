"""A design file as settings, several files as one collection, what is printed, and misspelt columns."""

import math
import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import ldpflow as lf
from ldpflow import client
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.practice.transcripts.collection import read_collection, read_settings
from ldpflow.practice.transcripts.reading import RowError
from ldpflow.practice.transcripts.result import interval_words
from ldpflow.practice.transcripts.writing import stored_transcript
from ldpflow.report.analysis_page import analysis_html
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study
from ldpflow.study.reading import toml_text
from tests.oracles.transcript import SETTINGS, demo
from tests.transcripts.conftest import as_table, changed, field_of, write
from tests.transcripts.test_protocols import HAAR as SIGNS
from tests.transcripts.test_protocols import ROUNDS, rounds_table

DESIGN = """
name = "sessions"
seed = 1
replicates = 512
[problem]
kind = "quantile"
tau = [0.5, 0.9]
law = "empirical"
file = "pilot-that-is-not-there.csv"
column = "secret_column"
sha256 = "00"
[protocol]
kind = "grr"
epsilon = [1.0]
range = [[0.0, 1024.0]]
k = 16
[grid]
n = 3000
level = 0.9
[[method]]
kind = "inversion"
limits = ["outer"]
[collection]
unit = "s"
"""
SAME = {
    "problem": {"kind": "quantiles", "taus": [0.5, 0.9]},
    "protocol": {"kind": "grr", "epsilon": 1.0, "range": [0.0, 1024.0], "k": 16},
    "method": {"kind": "inversion", "limits": "outer"},
}


@pytest.fixture(scope="module")
def reports():
    draw = random.Random(8)
    values = [draw.lognormvariate(4.5, 1.0) for _ in range(3000)]
    return [client.grr(x, 1.0, 0.0, 1024.0, 16, draw=draw.randrange) for x in values]


@pytest.fixture
def design(tmp_path):
    file = tmp_path / "design.toml"
    file.write_text(DESIGN)
    return file


def write_parts(folder, table, *ends):
    """Consecutive rows of a table as files."""
    edges = [0, *ends, table.num_rows]
    return [
        write(table.slice(a, b - a), folder / f"part-{at}.csv") for at, (a, b) in enumerate(pairwise(edges))
    ]


def numbers(analysis):
    return [(row["estimate"], row["lower"], row["upper"]) for row in analysis.rows]


def test_a_design_is_read_as_settings_and_its_law_is_not(design, reports, tmp_path):
    files = write_parts(tmp_path, pa.table({"report": reports}), 700, 2100)
    found = lf.analyse(files, design)
    assert numbers(found) == numbers(lf.analyse({"report": reports}, SAME)) and found.files == 3
    assert found.reported(1)["limits"] == "outer" and found.collection.n == 3000
    texts = [str(found), analysis_html(found)]
    for text in texts:
        assert all(interval_words(found.reported(j), "s") in text for j in (0, 1))
    assert "value (s)" in texts[1] and found.to_dict()["unit"] == "s"
    assert not [text for text in (*texts, found.methods_paragraph()) if "pilot" in text or "secret" in text]


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("n = 3000", "n = [1000, 3000]", "grid.n"),
        ("n = 3000", "n = 2999", "n"),
        ("[[method]]", '[[method]]\nkind = "fieller"\n[[method]]', "method"),
        ('limits = ["outer"]', 'limits = ["outer", "line"]', "method"),
        ("epsilon = [1.0]", "epsilon = [1.0, 2.0]", "protocol"),
        ("k = 16", "k = 8", "report"),
        ('kind = "grr"', 'kind = "rounds"', "problem.tau"),
        ('unit = "s"', "unit = 3", "collection.unit"),
        ('name = "sessions"', "colour = 3", "colour"),
        ('column = "secret_column"', "edgse = [0.0, 1.0]", "problem.edgse"),
        ('column = "secret_column"', "units = {location = 5.0, scale = 2.0}", "problem.units"),
        ("level = 0.9", "leve = 0.9", "grid.leve"),
        ("[protocol]", 'transform = "log"\nedges = [0.0, 1.0]\n[protocol]', "problem.edges"),
        ("[protocol]", "edges = [1.0, 1.0]\n[protocol]", "problem.edges"),
        ("[protocol]", "jitter = [1.0, 2.0]\n[protocol]", "problem.jitter"),
    ],
)  # fmt: skip
def test_designs_that_cannot_be_right(design, reports, old, new, field):
    assert DESIGN.count(old) == 1
    design.write_text(DESIGN.replace(old, new))
    with pytest.raises(InputError) as caught:
        lf.analyse({"report": reports}, design)
    assert field in (caught.value.field, getattr(caught.value, "column", None))


def with_settings(reports, text, file):
    """Reports in a Parquet file whose metadata has settings."""
    pq.write_table(pa.table({"report": reports}).replace_schema_metadata({"ldpflow": text}), file)
    return file


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('level = 0.5\n[protocol]\nk = 16\n[method]\nkind = "inversion"\nlimits = "line"\n', None),
        ("n = 3000\n[problem]\ntau = 0.5\n[protocol]\nk = 16\n", None),
        ("[protocol]\nepsilon = 2.0\n", "protocol.epsilon"),
        ('[problem]\ntransform = "log1p"\n[protocol]\nk = 16\n', "problem.transform"),
    ],
)
def test_metadata_of_another_collection_is_refused(design, reports, tmp_path, text, field):
    """A design's wishes win over those of the file, its facts must agree."""
    file = with_settings(reports, text, tmp_path / "reports.parquet")
    if field is None:
        assert numbers(lf.analyse(file, design)) == numbers(lf.analyse({"report": reports}, design))
    else:
        assert field_of(lf.analyse, file, design) == field


def test_a_scale_in_metadata_is_never_lost(reports, tmp_path):
    protocol = SAME["protocol"] | {"range": [0.0, 7.0]}
    own = {"problem": {"tau": 0.9, "transform": "log1p"}, "protocol": protocol}
    file = with_settings(reports, toml_text(own), tmp_path / "reports.parquet")
    found = lf.analyse(file, {"problem": {"tau": 0.5}})
    bare = lf.analyse({"report": reports}, {"problem": {"tau": 0.5}, "protocol": protocol})
    assert found.to_dict()["problem"]["scale"] == "log1p"
    assert found.reported()["estimate"] == pytest.approx(math.expm1(bare.reported()["estimate"]), rel=1e-12)
    text = toml_text(own | {"problem": {"tau": 0.9}})
    other = with_settings(reports, text, tmp_path / "other.parquet")
    assert field_of(lf.analyse, [file, other]) == "problem.transform"


def test_errors_of_several_files_name_the_file_and_its_row(design, reports, tmp_path):
    users = [f"u{i}" for i in range(3000)]
    users[2500] = "u17"
    table = pa.table({"report": reports, "user": users})
    with pytest.raises(RowError, match=r"part-2.csv, row 401, user: 'the user of row 18 of .*part-0.csv'"):
        lf.analyse(write_parts(tmp_path, table, 700, 2100), design)
    damaged = changed(table, 800, "report", 16)
    files = write_parts(tmp_path, damaged, 700, 2100)
    with pytest.raises(RowError, match=r"part-1.csv, row 100, report: 16"):
        lf.analyse(files, design)
    with pytest.raises(RowError, match=r"table 2, row 100, report"):
        lf.analyse([damaged.slice(0, 700), damaged.slice(700)], design)
    files[1].write_text(files[1].read_text().replace("16,u799", "x,u799"))
    with pytest.raises(RowError, match=r"part-1.csv, row 100, report: 'x'"):
        lf.analyse(files, design)
    assert field_of(lf.analyse, [files[0], files[0]], design) == "file"
    write(table.drop_columns("user"), files[1])
    with pytest.raises(InputError, match=r"report in .*part-1.csv"):
        lf.analyse(files, design)


@pytest.fixture(scope="module")
def path():
    return demo(2000)[0]


def test_parts_of_a_path(path, tmp_path):
    table, settings = as_table(path, round=range(1, 2001)), SETTINGS | {"method": [{"kind": "BM"}]}
    first, second, third = write_parts(tmp_path, table, 801, 1300)
    assert numbers(lf.analyse([first, second, third], settings)) == numbers(lf.analyse(table, settings))
    with pytest.raises(RowError, match=r"part-2.csv, row 1, round"):
        lf.analyse([first, third, second], settings)


def test_rounds_in_several_files_are_consecutive_parts(tmp_path):
    table = rounds_table(n=3000)
    whole = numbers(lf.analyse(table, ROUNDS))
    assert numbers(lf.analyse(write_parts(tmp_path, table, 700, 1900), ROUNDS)) == whole
    own = pa.array(np.random.default_rng(1).random(table.num_rows) < 0.3)
    parts = [table.filter(own), table.filter(pc.invert(own))]
    for some, column in ((parts, "theta"), ([part.drop_columns("theta") for part in parts], "round")):
        with pytest.raises(RowError, match="sort those of several files into one") as caught:
            lf.analyse(some, ROUNDS)
        assert caught.value.column == column


def test_a_path_without_its_questions_is_refused(path):
    for names in (["report"], ["report", "thetas"]):
        table = as_table(path, thetas=[0.0] * 2000).select(names)
        with pytest.raises(InputError, match="a column theta. The collector writes") as caught:
            lf.analyse(table, SETTINGS)
        assert caught.value.field == "columns"
    further = as_table(path, thetas=[0.0] * 2000, state=["a"] * 2000)
    assert "thetas, state" in lf.analyse(further, SETTINGS | {"method": [{"kind": "BM"}]}).notes[0]


def test_settings_of_a_study_of_a_path(tmp_path):
    """Defaults, vectors of starts and steps, and simulation settings of a study file."""
    file = tmp_path / "design.toml"
    file.write_text(
        'name = "two"\n[problem]\nkind = "quantiles"\ntaus = [0.5, 0.9]\nlaw = "gamma"\nshape = 2.0\n'
        "[mechanism]\n"
        'kind = "cells"\nepsilon = 1.0\nsampling = "private_bit"\n[algorithm]\nkind = "minibatch_sgd"\n'
        "batch_size = 20\nc = [[30.0, 90.0]]\ntheta0 = [[8.0, 24.0]]\n[grid]\nn = 1000\n[[method]]\n"
        'kind = "TR"\nseparate = true\nvariance = "residual"\n'
    )
    found = read_settings(file)
    assert found == {
        "problem": {"kind": "quantiles", "taus": [0.5, 0.9]}
        | {"transform": None, "edges": None, "jitter": None},
        "mechanism": {"kind": "cells", "epsilon": 1.0, "sampling": "private_bit"},
        "algorithm": {"kind": "minibatch_sgd", "batch_size": 20, "gamma": 0.51}
        | {"c": [30.0, 90.0], "theta0": [8.0, 24.0]},
        "method": {"kind": "TR", "separate": True, "variance": "residual"},
        "n": 1000,
    }  # fmt: skip
    with pytest.raises(InputError, match=r"algorithm.c: \[30.0, 90.0\]"):
        table = {"report": [0, 1] * 500} | {f"theta_{q}": [0.0] * 1000 for q in range(3)}
        lf.analyse(table, found | {"problem": {"kind": "quantiles", "taus": [0.3, 0.5, 0.9]}})


SGD = {"mechanism": {"kind": "randomized_response", "epsilon": 2.0}}
SGD |= {"algorithm": {"kind": "ldp_sgd", "c": 2.0, "theta0": 4.0}}
HAAR = {"protocol": {"kind": "haar", "epsilon": 2.0, "range": [[0.0, 1.0]], "k": 32}}
SEARCH = {"protocol": {"kind": "rounds", "epsilon": 2.0, "range": [[0.0, 10.0]]}}
LOG, EDGES = {"transform": "log1p"}, {"edges": [0.0, 30.0, 100.0, 2000.0]}


@pytest.mark.parametrize(
    ("tables", "scale", "method"),
    [
        pytest.param(SGD, LOG, "TR", marks=pytest.mark.thorough),
        (HAAR, EDGES, "inversion"),
        (SEARCH, LOG, "fieller"),
    ],
    ids=["sgd", "haar", "rounds"],
)
def test_results_on_a_scale_come_back_in_the_unit(tables, scale, method, tmp_path):
    """A sweep of the design, a transcript of it and its analysis with the design give one row, bit for bit.

    Without the scale the analysis has the numbers on the scale, and the literal inverse gives the others.
    """
    pilot, draw = tmp_path / "pilot.csv", random.Random(2)
    pilot.write_text("x\n" + "\n".join(str(round(draw.lognormvariate(4.5, 1.0))) for _ in range(800)) + "\n")
    problem = {"kind": "quantile", "tau": 0.5}
    text = toml_text(
        {"name": "s", "replicates": 2, "grid": {"n": 4000}, "method": [{"kind": method}], **tables}
        | {"problem": problem | scale | {"law": "empirical", "jitter": 1.0, "file": str(pilot)}}
    )
    file, run, reports = (tmp_path / name for name in ("design.toml", "run", "reports.parquet"))
    file.write_text(text)
    study = Study.from_toml(text)
    run_study(study, run, engine="serial")
    (plan,) = study.plans()
    stored_transcript(run, plan.simulator.key, 1, reports)
    found = lf.analyse(reports, file)
    rows = RunStore(run).replicates.read(plan.simulator.key, damaged="refuse").to_pylist()
    (stored,) = [row for row in rows if row["replicate"] == 1 and row["method"] == method]
    own = found.reported()
    names = ("estimate", "lower", "upper")
    for name in (*names, *["se"] * (method == "TR")):
        assert own[name] == stored[name]
    assert 20.0 < own["lower"] < own["upper"] < 500.0
    assert "on the scale" in found.methods_paragraph() and "noise of width 1" in str(found)
    if method != "fieller":
        wide = lf.analyse(reports, file, adversarial_share=0.005).reported()
        assert wide["lower"] <= own["lower"] < own["upper"] <= wide["upper"]
    table = pq.read_table(reports).replace_schema_metadata({})
    on_scale = lf.analyse(table, read_settings(file) | {"problem": problem}).reported()
    for name in names:
        literal = math.expm1(on_scale[name])
        if scale is EDGES:
            literal = np.interp(on_scale[name] * 3, range(4), EDGES["edges"])
        assert own[name] == pytest.approx(literal, rel=1e-12)


def test_what_is_read():
    methods = [{"kind": "TR", "degree": 3, "burn_in": "0.01n"}, {"kind": "BB", "beta": [0.7, 0.8]}]
    collection = read_collection(SETTINGS | {"level": [0.9, 0.95], "origin": 39, "method": methods})
    assert collection.levels == (0.9, 0.95) and collection.origin == (39.0,)
    assert [m.kind for m in collection.methods] == ["TR", "BB", "BB"]
    assert read_collection(with_own("problem", tau=[0.9]) | {"path": None}) == read_collection(SETTINGS)
    rounds = read_collection(SETTINGS | {"algorithm": {"c": 1.0, "gamma": 0.6, "batch_size": 20}})
    assert rounds.batch_size == 20 and rounds.start is None


def with_own(table, settings=SETTINGS, **own):
    """Settings with others in a table; ``...`` leaves one out."""
    return settings | {table: {k: v for k, v in (settings[table] | own).items() if v is not ...}}


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        (SETTINGS | {"colour": 1}, "colour"),
        (with_own("problem", tau=...), "problem.tau"),
        (with_own("problem", tau=[0.5, 0.9]), "problem.tau"),
        (SETTINGS | {"problem": {"kind": "quantiles", "taus": [0.9, 0.5]}}, "problem.taus"),
        (SETTINGS | {"problem": {"kind": "quantiles", "taus": [0.5]}}, "mechanism.kind"),
        ({"problem": {"kind": "other"}, "mechanism": {"kind": "cells", "epsilon": 1.0}}, "mechanism.kind"),
        (with_own("problem", law="normal"), "problem.law"),
        (with_own("problem", kind="quantil"), "problem.kind"),
        (with_own("mechanism", kind=...), "mechanism.kind"),
        (with_own("mechanism", epsilon=...), "mechanism.epsilon"),
        (with_own("mechanism", kind="deployed_response"), "mechanism.kind"),
        (with_own("mechanism", kind=["randomized_response", "laplace"]), "mechanism"),
        (SETTINGS | {"mechanism": {"kind": "gaussian", "mu": 1.0, "mu_min": 0.5}}, "mechanism"),
        (with_own("algorithm", c=...), "algorithm.c"),
        (with_own("algorithm", gamma=...), "algorithm.gamma"),
        (with_own("algorithm", radius=2.0), "algorithm.radius"),
        (with_own("algorithm", kind="dp_nsgd"), "algorithm.kind"),
        (with_own("algorithm", kind="minibatch_sgd", noise="batch"), "algorithm.noise"),
        (with_own("algorithm", final_theta="x"), "algorithm.final_theta"),
        (with_own("algorithm", theta0=[1.0, "a"]), "algorithm.theta0"),
        (SETTINGS | {"level": 1.0}, "level"),
        (SETTINGS | {"level": []}, "level"),
        (SETTINGS | {"level": [0.5 + i / 1000 for i in range(200)]}, "level"),
        (SETTINGS | {"problem": 3}, "problem"),
        (SETTINGS | {"method": {"kind": ["TR", "BM"]}}, "method"),
        (SETTINGS | {"method": [{"kind": "BM"}] * 300}, "method"),
        (SETTINGS | {"origin": "here"}, "origin"),
        (with_own("protocol", SIGNS, k=...), "protocol.k"),
        (with_own("protocol", SIGNS, epsilon=...), "protocol.epsilon"),
        (with_own("protocol", SIGNS, kind=...), "protocol.kind"),
        (with_own("protocol", SIGNS, liars=0.1), "protocol.liars"),
        (SIGNS | {"mechanism": {"kind": "randomized_response", "epsilon": 1.0}}, "mechanism"),
        (SIGNS | {"problem": {"kind": "linear_regression"}}, "problem.kind"),
        (SIGNS | {"protocol": ROUNDS["protocol"]}, "problem.taus"),
    ],
)
def test_what_is_refused(settings, field):
    assert field_of(read_collection, settings) == field
