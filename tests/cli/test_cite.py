"""ldpflow cite: BibTeX and the methods paragraph of a stored run, which the report has too."""

from __future__ import annotations

import ldpflow as lf
from ldpflow.report.page import report_html
from ldpflow.report.results import Results


def test_cite_and_the_report_say_the_same(ldpflow, tmp_path):
    study = lf.Study(
        problem=lf.Quantile(tau=0.5),
        mechanism=lf.RandomizedResponse(epsilon=1.0),
        algorithm=lf.LdpSgd(),
        methods=[lf.BatchMeans()],
        n=[1000],
        replicates=32,
        seed=11,
    )
    lf.sweep(study, tmp_path / "run", executor="serial")
    cited = ldpflow("cite", tmp_path / "run")
    assert cited.code == 0 and cited.err == ""
    assert "@article{chen2020," in cited.out and "@misc{ldpflow," in cited.out
    paragraph = ldpflow("cite", tmp_path / "run", "--text").out.strip()
    assert "The seed was 11." in paragraph and "32 independent replicates" in paragraph
    page = report_html(Results.load(tmp_path / "run"))
    assert paragraph in page and "@article{chen2020," in page


def test_cite_of_no_run_is_one_message(ldpflow, tmp_path):
    outcome = ldpflow("cite", tmp_path / "nothing")
    assert outcome.code == 2 and outcome.err.count("\n") == 1 and "Traceback" not in outcome.err
