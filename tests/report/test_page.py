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


@pytest.fixture
def undrawn(monkeypatch):
    monkeypatch.setattr(page, "draw_figures", lambda results: [])


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


@pytest.mark.parametrize(
    ("coverage", "verdict"), [(None, "<p>84 {}: not refuted"), (0.5, '"verdict bad">84 {}: REFUTED')]
)
def test_published_numbers_that_are_not_refuted_come_with_the_power(
    results, undrawn, monkeypatch, coverage, verdict
):
    rows = rows_as_printed()
    rows[0]["coverage"] = coverage or rows[0]["coverage"]
    found = [published.compare(pa.Table.from_pylist(rows), "dette-graw")]
    monkeypatch.setattr(page, "published_comparisons", lambda results: found)
    text = report_html(results).partition('id="comparison-dette-graw"')[2].partition("</section>")[0]
    assert verdict.format("published numbers compared") in text and "agree" not in text
    assert text.count("Power: with 500 replicates a true difference of") == 2


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="Nothing finished"):
        Results.load(tmp_path / "absent")
    with pytest.raises(InputError, match="^run: "):
        page.follow(str(tmp_path / "absent"), None, lambda place, text: None)
    assert not (tmp_path / "absent").exists()


@pytest.fixture
def running(run, tmp_path):
    """A copy of a run as if its sweep had not ended, and a function that ends it."""
    copy = shutil.copytree(run, tmp_path / "copy")
    file = copy / "provenance.json"
    ended = file.read_text()
    (session,) = json.loads(ended)
    file.write_text(json.dumps(chain_checksums([session | {"ended": None}])))
    return copy, lambda: file.write_text(ended)


def test_a_page_that_follows_a_sweep_is_written_again_until_the_sweep_ends(
    running, undrawn, tmp_path, monkeypatch
):
    """Nothing yet, some rows, nothing new, all rows, and the end of the session: three pages."""
    copy, end = running
    (copy / "summary.parquet").unlink()
    hidden = tmp_path / "hidden"
    (copy / "replicates").rename(hidden)
    (copy / "replicates").mkdir()
    first, *others = sorted(hidden.iterdir())

    def show(*parts):
        for part in parts:
            part.rename(copy / "replicates" / part.name)

    events = iter([lambda: show(first), lambda: None, lambda: show(*others), end])
    monkeypatch.setattr(page.time, "sleep", lambda seconds: next(events)())
    file, written = tmp_path / "page.html", []
    found = page.follow(str(copy), str(file), lambda place, text: written.append(text))
    rows = [text.partition('id="cell-table"')[2].partition("</table>")[0].count("<tr>") for text in written]
    assert rows == [13, 49, 49] and len(found.rows) == 48
    assert ['data-reload="10"' in text for text in written] == [True, True, False]
    assert "Running, or interrupted: 64 of 256 replicates." in written[0]
    assert file.read_text() == written[-1] and [f.name for f in tmp_path.glob("page*")] == ["page.html"]


def test_a_page_that_is_interrupted_reads_itself_no_more(running, undrawn, monkeypatch):
    copy, _ = running
    monkeypatch.setattr(page.time, "sleep", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        page.follow(str(copy), None, lambda place, text: None)
    assert 'data-reload="10"' not in (copy / "report.html").read_text()


def test_a_running_sweep_is_summarised_from_its_parts_without_damaged_ones(running, undrawn, results):
    copy, _ = running
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
    assert found["n"] == ["100", "1000"] and [len(cells) for _, cells in found["rows"]] == [2] * 4
    section = shell.partition('id="which"')[2].partition("</section>")[0]
    shown = re.findall(r'<span class="(?:good|open|bad)">(.*?)</span><small>(.*?)</small>', section)
    assert len(shown) == len(settings) == 8 and all(numbers.count("±") == 2 for _, numbers in shown)
    for setting in settings:
        label = setting.reference.row["series"]
        none = UNDECIDED if setting.undecided else "none holds its level"
        assert label != "oracle"
        assert (label if setting.best else f"{none}; nearest {label}") in [name for name, _ in shown]
    (row,) = (row for row in glance(results, settings) if row[0] == "oracle")
    assert row[GLANCE.index("recommended")] == "0"


def test_a_run_that_is_not_finished_says_so_first(results, undrawn, shell, monkeypatch):
    assert 'class="progress"' not in shell
    command = "/bin/ldpflow sweep small.toml --fresh --max-time 6s"
    stopped = {"command": command, "ended": "x", "stopped": "late"}
    more = Study.from_mapping(STUDY | {"replicates": 65})
    monkeypatch.setattr("ldpflow.report.progress.stored_study", lambda _: more)
    found = report_html(dataclasses.replace(results, sessions=[stopped]))
    text = found.partition('class="progress" role="status">')[2].partition("</p>")[0]
    assert text.startswith("Not finished: 256 of 260 replicates. To continue: ")
    assert text.endswith("ldpflow sweep small.toml --max-time 6s")
    assert found.index('class="progress"') < found.index('class="finding')
