"""``ldpflow analyse`` and ``ldpflow transcript``: table, JSON, CSV, page, exit codes, what is refused."""

import csv
import io
import json
import random
import tomllib

import pytest

from ldpflow import client
from ldpflow.study.reading import toml_text
from tests.oracles import transcript
from tests.oracles.column_law import example_column
from tests.oracles.transcript import demo
from tests.transcripts.conftest import as_table, write


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    file = tmp_path_factory.mktemp("settings") / "collection.toml"
    file.write_text(toml_text(transcript.SETTINGS))
    return file


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    rows, _ = demo()
    return write(as_table(rows), tmp_path_factory.mktemp("transcripts") / "reports.csv")


@pytest.mark.thorough
def test_table_and_page(ldpflow, file, settings, tmp_path):
    page = tmp_path / "page.html"
    shown = ldpflow("analyse", settings, file, "--html", page)
    assert shown.code == 0 and "computed" in shown.out and "status" not in shown.out
    (line,) = (line.split() for line in shown.out.splitlines() if line.split()[:1] == ["BM"])
    assert line[1:5] == ["39.21", "38.08", "40.33", "0.68"], "two digits of the standard error"
    assert "SHA-256 of the transcript" in " ".join(shown.out.split())
    for method in ("BB (beta 0.75)", "TR (degree 3)"):
        assert method in shown.out
    text = page.read_text()
    assert "Estimates along the run" in text and "For a methods section" in text
    assert "38.4215" in text and "http://" not in text.partition('<script type="module">')[0]
    refused = ldpflow("analyse", settings, file, "--html", tmp_path / "none" / "page.html")
    assert refused.code == 2 and "--html" in refused.err


def test_csv_and_json(ldpflow, file, tmp_path):
    settings = tmp_path / "own.toml"
    methods = {"method": [{"kind": "BM"}, {"kind": "TR"}], "level": 0.95}
    settings.write_text(toml_text(transcript.SETTINGS | methods))
    command = ("analyse", file, "--settings", settings, "--format")
    lines = list(csv.DictReader(io.StringIO(ldpflow(*command, "csv").out)))
    plain = json.loads(ldpflow(*command, "json").out)
    assert [float(line["lower"]) for line in lines] == [row["lower"] for row in plain["rows"]]
    assert {(line["method"], line["level"]) for line in lines} == {("BM", "0.95"), ("TR", "0.95")}
    assert plain["users"] == 20_000 and plain["verdicts"][0]["flags"] == []
    assert plain["privacy"] == {"notion": "eps-LDP", "unit": "record"}
    short = write(as_table(demo(n=1500)[0]), tmp_path / "short.csv")  # fewer than 25 relaxation times: a flag
    assert [ldpflow("analyse", settings, short, *more).code for more in ((), ("--strict",))] == [0, 1]


@pytest.mark.thorough
def test_a_page_has_nothing_of_a_pilot(ldpflow, tmp_path):
    """Neither its values nor their table: of a transcript that was simulated from it, nor in an error."""
    values = example_column(400).tolist()
    pilot, study = tmp_path / "pilot.csv", tmp_path / "own.toml"
    pilot.write_text("amount\n" + "\n".join(map(repr, values)) + "\n")
    study.write_text(
        f"name = 'own'\nseed = 1\nreplicates = 2\n[grid]\nn = [2000]\n[problem]\nkind = 'quantile'\n"
        f"tau = 0.5\nlaw = 'empirical'\nfile = '{pilot}'\n[mechanism]\nkind = 'randomized_response'\n"
        "epsilon = 1.0\n[algorithm]\nkind = 'ldp_sgd'\nc = 1000.0\ntheta0 = 2000.0\n[[method]]\nkind = 'BM'\n"
    )
    run, file, page = tmp_path / "run", tmp_path / "reports.csv", tmp_path / "page.html"
    assert ldpflow("sweep", study, "--out", run, "--engine", "serial", "--quiet").code == 0
    assert ldpflow("transcript", run, "--replicate", 0, "-o", file).code == 0
    shown = ldpflow("analyse", f"{file}.toml", file, "--html", page)
    assert shown.code in (0, 1)
    settings = file.with_name("reports.csv.toml").read_text()
    table = tomllib.loads((run / "study.toml").read_text())["problem"]["law_table"]
    odd = tmp_path / "odd.toml"
    odd.write_text(settings.replace("[problem]", f"[problem]\nlaw_table = {table!r}"))
    refused = ldpflow("analyse", file, "--settings", odd)
    assert refused.code == 2 and "problem.law_table" in refused.err
    found = page.read_text() + shown.out + shown.err + settings + refused.err
    assert table[:40] not in found and "pilot.csv" not in found
    assert not [text for value in values if len(text := str(value)) > 9 and text in found]


def test_a_design_and_several_files(ldpflow, tmp_path):
    draw = random.Random(3)
    answers = [client.grr(draw.gauss(30.0, 9.0), 1.0, 0.0, 64.0, 8, draw=draw.randrange) for _ in range(1500)]
    files = [tmp_path / f"{at}.csv" for at in range(3)]
    for at, file in enumerate(files):
        file.write_text("\n".join(["report", *map(str, answers[at::3])]) + "\n")
    design, page = tmp_path / "design.toml", tmp_path / "page.html"
    design.write_text(
        "name = 'd'\n[problem]\nkind = 'quantile'\ntau = [0.5, 0.75]\n[protocol]\nkind = 'grr'\n"
        "epsilon = 1.0\nrange = [0.0, 64.0]\nk = 8\n[grid]\nn = 1600\n[[method]]\nkind = 'inversion'\n"
        "[collection]\nunit = 'min'\n"
    )
    command = ("analyse", design, *files, "--n", "1.5e3", "--html", page, "--adversarial-share", 0.01)
    shown = ldpflow(*command)
    assert shown.code == 0
    for text in (shown.out, page.read_text()):
        assert "(min)" in text and "1% of users who send any" in text
    for arguments, said in (
        ((design,), "files of reports after the design"),
        ((design, *files, "--settings", design), "--settings"),
        ((*files, design), "design.toml"),
        ((design, *files), "1500, the reports of the file"),
    ):
        refused = ldpflow("analyse", *arguments)
        assert refused.code == 2 and said in refused.err and len(refused.err.splitlines()) == 1
