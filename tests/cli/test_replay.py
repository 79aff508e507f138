"""``ldpflow replay`` and ``check --recompute`` of runs that need a plug-in, and how paths are named."""

import re
from pathlib import Path

import pytest

import ldpflow as lf
from ldpflow.report.answers import findings
from tests.studies import forget_plugins, small

METHOD = (Path(__file__).parents[1] / "api" / "plugin_method.py").read_text()


@pytest.fixture
def swept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(text=METHOD, **changes):
        (tmp_path / "mine.py").write_text(text)
        settings = {"replicates": 6, "methods": {"kind": "fixed_width", "half": [0.1, 0.2]}}
        study = small(plugins=["mine.py"], **settings | changes)
        found = lf.sweep(study, "run", executor="serial", allow_failures=True)
        forget_plugins("fixed_width")
        return found

    yield run
    forget_plugins("fixed_width")


def test_a_diagnostic_that_differs_is_shown_and_the_edit_is_named_first(swept, ldpflow, tmp_path):
    swept()
    (tmp_path / "mine.py").write_text(METHOD.replace("FACTOR = 2.0", "FACTOR = 4.0"))
    found = ldpflow("replay", "run", "--replicate", 3, "--plugin", "mine.py")
    assert found.code == 1 and "DIFFERENT" in found.out
    assert re.search(r"warning: the plug-in mine has changed .* in \S*run/plugins/mine-\w+/", found.err)
    different = [line for line in found.out.splitlines() if line.rstrip().endswith("DIFFERENT")]
    assert ["whole_width" in line for line in different] == [True, True, False]  # two half widths, verdict
    again = ldpflow("check", "run", "--recompute", 1.0, "--plugin", "mine.py")
    lines = again.out.splitlines()
    assert again.code == 1 and "the plug-in mine has changed since this run" in again.err
    assert not any("hash" in line for line in lines) and "computed again differ" in lines[0]


def test_a_repair_with_the_plugin_and_without_the_study(swept, ldpflow, tmp_path):
    swept(problem=lf.Quantile(tau=[0.3, 0.5]))
    checked = ldpflow("check", "run", "--recompute", 1.0)
    assert checked.out.count("the plug-in mine of this run") == 1 and "1 finding" in checked.out
    part = next((tmp_path / "run" / "replicates").rglob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-1])
    mended = ldpflow("check", "run", "--repair", "--engine", "serial", "--plugin", "mine.py")
    assert mended.code == 0 and mended.out.splitlines()[-1].endswith("all is well")
    (tmp_path / "run" / "study.toml").unlink()
    found = ldpflow("check", "run", "--repair", "--plugin", "mine.py")
    assert found.code == 2 and "`ldpflow sweep` with the study file writes it" in found.err


def test_the_command_of_a_failed_batch_can_be_typed(swept, ldpflow):
    run = swept(METHOD.replace("steps = record.steps(n)", "raise RuntimeError('not today')"))
    command = run.result.failed_batches[0].splitlines()[-1].split()
    assert command[0] == "ldpflow" and command[-2:] == ["--plugin", "mine.py"]
    assert ldpflow(*command[1:-2]).code == 2  # without the plug-in: which one
    found = ldpflow(*command[1:])
    assert found.code == 1 and "RuntimeError: not today (mine.py, line " in found.err
    with pytest.raises(lf.SweepFailed, match="not today"):
        lf.sweep(lf.Study.load("run/study.toml"), "run", executor="serial")


def test_a_reason_of_many_batches_is_printed_once_with_their_place(swept, ldpflow):
    raising = METHOD.replace("steps = record.steps(n)", "return record.nope")
    problem = lf.Quantile(tau=[0.3, 0.5, 0.7])
    failed = swept(raising, problem=problem).result.failed_batches
    line = raising[: raising.index("return record.nope")].count("\n") + 1
    assert len(failed) == 3 and all(f"(mine.py, line {line}: return record.nope)" in text for text in failed)
    found = ldpflow("sweep", "run/study.toml", "--out", "run", "--engine", "serial", "--plugin", "mine.py")
    assert found.code == 1 and found.err.count("nope'") == 1 and "2 more for the same reason" in found.err
    assert "ldpflow report" not in found.out


def test_a_method_that_is_not_judged_is_named_and_the_next_command_loads_it(swept, ldpflow):
    run = swept(methods=[lf.SelfNormalization(), {"kind": "fixed_width", "half": 0.2}])
    said = "Not judged: fixed_width. A method whose plug-in"
    assert findings(run.results).sentences[-1].startswith(said)
    assert said in ldpflow("summary", "run", "--best").out
    found = ldpflow("sweep", "run/study.toml", "--out", "run", "--engine", "serial", "--plugin", "mine.py")
    assert found.code == 0 and "Next: ldpflow report run --plugin mine.py" in found.out
    assert "Not judged" not in ldpflow("summary", "run", "--best", "--plugin", "mine.py").out


def test_a_kind_without_its_file_and_rows_that_all_failed(swept, ldpflow, tmp_path):
    run = swept(METHOD.replace("full_like(estimate, self.half) for", "full_like(estimate, np.nan) for"))
    assert run.result.failed_share == 1.0
    forgotten = ldpflow("sweep", "quickstart", "--method", "fixed_width")
    assert forgotten.code == 2 and forgotten.err.count("'fixed_width'") == 1 and "--plugin" in forgotten.err
    (tmp_path / "quiet.toml").write_text(run.store.read_study())
    quiet = ldpflow(
        "sweep", "quiet.toml", "--quiet", "--out", "run", "--plugin", "mine.py", "--engine", "serial"
    )
    assert quiet.code == 0 and "all 12 rows are undefined or diverged" in quiet.err
