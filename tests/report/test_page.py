"""The report, and the page that follows a sweep, as text."""

import dataclasses
import json
import re
import shutil
from unittest.mock import Mock

import pyarrow as pa
import pytest

from ldpflow.errors import InputError
from ldpflow.report import page
from ldpflow.report.answers import GLANCE, choices, glance
from ldpflow.report.page import report_html
from ldpflow.report.results import Results
from ldpflow.results import published
from ldpflow.results.arena import UNDECIDED, settings_of
from ldpflow.store.provenance import chain_checksums
from ldpflow.study import Study
from tests.published.test_compare import rows_as_printed
from tests.report.conftest import STUDY


def test_a_report_is_one_file_that_names_everything(results, page_text, shell):
    assert len(page_text.encode()) < 3_000_000
    for said in (
        "eps-LDP", "unit: record", "ldp_sgd", "randomized_response", "multiplier block bootstrap",
        "protects no data", "ldpflow sweep", "connect-src 'none'", "numpy", "MCSE", "Seed",
    ):  # fmt: skip
        assert said in page_text
    assert not re.search(r"(src|href)=\"(?!data:|#)", shell)
    assert shell.count('role="img"') == shell.count("aria-label=") - 1 >= 7  # and that of the picker
    assert f"{sum(r['failures'] for r in results.rows):,} of" in shell
    # The glossary has the settings, and the words of the tables' heads.
    words = set(re.findall(r"<dt>(.*?)</dt>", shell.partition('id="words"')[2].partition("</section>")[0]))
    assert {"τ (tau)", "ε", "β (beta)", "MCSE", "emp. SE", "SE error", "main cause", "shape", "cell"} <= words
    text = page_text.partition('id="figure-data">')[2].partition("<")[0]
    figures = json.loads(text, parse_constant=pytest.fail)
    assert all(len(figure["description"]) > 60 for figure in figures.values()) and len(figures) >= 7


def test_published_numbers_that_are_not_refuted_come_with_the_power(results, monkeypatch):
    summary = rows_as_printed()
    monkeypatch.setattr("ldpflow.report.page.draw_figures", lambda results: [])
    for coverage, verdict in (
        (summary[0]["coverage"], "<p>84 {}: not refuted"),
        (0.5, '"verdict bad">84 {}: REFUTED'),
    ):
        summary[0]["coverage"] = coverage
        found = [published.compare(pa.Table.from_pylist(summary), "dette-graw")]
        monkeypatch.setattr("ldpflow.report.page.published_comparisons", lambda results, found=found: found)
        text = report_html(results).partition('id="comparison-dette-graw"')[2].partition("</section>")[0]
        assert verdict.format("published numbers compared") in text and "agree" not in text
        assert text.count("Power: with 500 replicates a true difference of") == 2


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="Nothing finished"):
        Results.load(tmp_path / "absent")
    with pytest.raises(InputError, match="^run: "):
        page.follow(str(tmp_path / "absent"), None, lambda place, text: None)
    assert not (tmp_path / "absent").exists()


def running(run, copy):
    """Copy a run as if its sweep had not ended; a function that ends it."""
    shutil.copytree(run, copy)
    file = copy / "provenance.json"
    ended = file.read_text()
    (session,) = json.loads(ended)
    file.write_text(json.dumps(chain_checksums([session | {"ended": None}])))
    return lambda: file.write_text(ended) and None


def test_a_page_that_follows_a_sweep_is_written_again_until_the_sweep_ends(run, tmp_path, monkeypatch):
    """Nothing yet, some rows, nothing new, all rows, and the end of the session: three pages."""
    copy, hidden = tmp_path / "copy", tmp_path / "hidden"
    end = running(run, copy)
    (copy / "summary.parquet").unlink()
    parts = sorted((copy / "replicates").iterdir())
    hidden.mkdir()
    for part in parts:
        part.rename(hidden / part.name)
    events = iter([
        lambda: (hidden / parts[0].name).rename(parts[0]),
        lambda: None,
        lambda: [(hidden / part.name).rename(part) for part in parts[1:]],
        end,
    ])  # fmt: skip
    monkeypatch.setattr(page.time, "sleep", lambda seconds: next(events)())
    monkeypatch.setattr(page, "draw_figures", lambda results: [])
    file, written = tmp_path / "page.html", []
    found = page.follow(str(copy), str(file), lambda place, text: written.append(text))
    rows = [text.partition('id="cell-table"')[2].partition("</table>")[0].count("<tr>") for text in written]
    assert rows == [13, 49, 49] and len(found.rows) == 48
    assert ['data-reload="10"' in text for text in written] == [True, True, False]
    assert "Running, or interrupted: 64 of 256 replicates." in written[0]
    assert file.read_text() == written[-1] and [f.name for f in tmp_path.glob("page*")] == ["page.html"]


def test_a_page_that_is_interrupted_reads_itself_no_more(run, tmp_path, monkeypatch):
    running(run, tmp_path / "copy")
    monkeypatch.setattr(page.time, "sleep", Mock(side_effect=KeyboardInterrupt))
    monkeypatch.setattr(page, "draw_figures", lambda results: [])
    with pytest.raises(KeyboardInterrupt):
        page.follow(str(tmp_path / "copy"), None, lambda place, text: None)
    assert "<body>" in (tmp_path / "copy" / "report.html").read_text()


def test_a_running_sweep_is_summarised_from_its_parts_without_damaged_ones(run, results, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / "summary.parquet").unlink()
    assert Results.load(copy, from_parts=True).table.equals(results.table)
    part = next((copy / "replicates").rglob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.warns(UserWarning, match=part.name):
        found = Results.load(copy, from_parts=True)
    assert part.name in report_html(found, live=True)


def test_the_report_recommends_by_the_rule(results, shell):
    settings = settings_of(results.rows)
    found = choices(results, settings)
    assert found is not None and found["n"] == ["100", "1000"]
    assert [len(cells) for _, cells in found["rows"]] == [2] * 4
    section = shell.partition('id="which"')[2].partition("</section>")[0]
    shown = re.findall(r'<span class="(?:good|open|bad)">(.*?)</span><small>(.*?)</small>', section)
    assert len(shown) == len(settings) == 8
    for setting in settings:
        assert setting.reference is not None and setting.reference.row["method"] != "oracle"
        none = UNDECIDED if setting.undecided else "none holds its level"
        label = setting.reference.row["series"]
        assert (label if setting.best else f"{none}; nearest {label}") in [name for name, _ in shown]
    assert all(numbers.count("±") == 2 for _, numbers in shown)
    (row,) = (row for row in glance(results, settings) if row[0] == "oracle")
    assert row[GLANCE.index("recommended")] == "0"
    assert "Which interval?" in section


def test_a_run_that_is_not_finished_says_so_first(results, shell, monkeypatch):
    assert 'class="progress"' not in shell
    command = "/bin/ldpflow sweep small.toml --fresh --max-time 6s"
    stopped = {"command": command, "ended": "x", "stopped": "late"}
    more = Study.from_mapping(STUDY | {"replicates": 65})
    monkeypatch.setattr("ldpflow.report.progress.stored_study", lambda _: more)
    page = report_html(dataclasses.replace(results, sessions=[stopped]))
    text = page.partition('class="progress" role="status">')[2].partition("</p>")[0]
    assert text.startswith("Not finished: 256 of 260 replicates. To continue: ")
    assert text.endswith("ldpflow sweep small.toml --max-time 6s")
    assert page.index('class="progress"') < page.index('class="finding')
