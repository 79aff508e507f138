"""The report and the live page, as text and over HTTP."""

from __future__ import annotations

import re
import shutil
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pyarrow as pa
import pytest

from ldpflow.errors import InputError
from ldpflow.published import compare
from ldpflow.report.overview import progress
from ldpflow.report.page import report_html, script_json
from ldpflow.report.results import Results
from ldpflow.report.serve import LivePage, server
from tests.published.test_compare import rows_as_printed


def test_a_report_is_one_file_that_names_everything(results: Results) -> None:
    text = report_html(results)
    assert len(text.encode()) < 3_000_000
    for said in (
        "eps-LDP",
        "unit: record",
        "ldp_sgd",
        "randomized_response",
        "multiplier block bootstrap",
        "protects no data",
        "ldpflow sweep",
        "connect-src &#39;none&#39;",
        "numpy",
        "MCSE",
        "Seed",
    ):
        assert said in text
    shell = re.sub(r"<script.*?</script>", "", text, flags=re.S)
    assert not re.search(r"(src|href)=\"(?!data:)", shell)
    assert shell.count('role="img"') == shell.count("aria-label=") >= 7
    assert f"{sum(r['failures'] for r in results.rows):,} of" in text


def test_published_numbers_that_are_not_refuted_come_with_the_power(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = rows_as_printed()

    def section() -> str:
        found = [compare(pa.Table.from_pylist(summary), "dette-graw")]
        monkeypatch.setattr("ldpflow.report.page.published_comparisons", lambda results: found)
        return report_html(results).partition('id="comparison-dette-graw"')[2].partition("</section>")[0]

    text = section()
    assert "84 published numbers compared: not refuted" in text and "agree" not in text
    assert "good" not in text and "bad" not in text
    assert text.count("Power: with 500 replicates a true difference of") == 2
    summary[0]["coverage"] = 0.5
    assert 'class="verdict bad">84 published numbers compared: REFUTED' in section()


def test_nothing_in_the_data_ends_a_script() -> None:
    assert "</" not in script_json({"name": "</script><b>"})


def test_a_running_sweep_is_summarised_from_its_parts(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / "summary.parquet").unlink()
    assert Results.load(copy).table.equals(Results.load(run).table)
    assert Results.load(copy, from_parts=True).table.equals(Results.load(run).table)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Nothing finished"):
        Results.load(tmp_path / "absent")


def test_the_live_page_is_made_anew_when_a_part_comes(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    page = LivePage(str(copy))
    waiting, first = page.current()
    assert b"Nothing has finished" in waiting
    shutil.copytree(run, copy)
    page.not_before = 0.0
    text, second = page.current()
    assert b'data-live="1"' in text and second != first
    page.not_before = 0.0
    assert page.current() == (text, second)


def test_the_progress_counts_the_paths_that_have_not_started(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    assert progress(Results.load(copy)) == "Finished: 256 of 256 replicates (4 of 4 paths complete)."
    for path in sorted((copy / "replicates").iterdir())[1:]:
        shutil.rmtree(path)
    found = progress(Results.load(copy, from_parts=True))
    assert found == "Finished: 64 of 256 replicates (1 of 4 paths complete)."


def test_the_server_answers_this_machine_only(run: Path) -> None:
    with server(str(run), port=0) as live:
        thread = threading.Thread(target=live.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            address = f"http://127.0.0.1:{live.server_port}/"
            with urllib.request.urlopen(address) as answer:
                tag = answer.headers["ETag"]
                assert b"connect-src &#39;self&#39;" in answer.read()
            for headers, path, status in (
                ({"If-None-Match": tag}, "", 304),
                ({"Host": "evil.example"}, "", 403),
                ({}, "study.toml", 404),
            ):
                with pytest.raises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(urllib.request.Request(address + path, headers=headers))
                assert refused.value.code == status
        finally:
            live.shutdown()
            thread.join()


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.org"])
def test_other_addresses_need_a_flag(run: Path, host: str) -> None:
    with pytest.raises(InputError, match="allow_remote"):
        server(str(run), host)
