"""Commands for a deployment: ``analyse``, ``audit``, ``privacy`` and ``transcript``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldpflow.cli.flags import Format, PathKey, Run, TableFormat, flag, parse_settings
from ldpflow.errors import InputError, require_extra

if TYPE_CHECKING:
    from ldpflow.cli.tables import Sheet
    from ldpflow.components.mechanisms import Mechanism
    from ldpflow.components.protocols import Protocol
    from ldpflow.practice.audit.distinguishing import Audit
    from ldpflow.practice.transcripts.result import Analysis

Settings = Annotated[list[str] | None, flag("Another setting. May be repeated.", "NAME=VALUE", name="--set")]
Epsilon = Annotated[float | None, flag("Budget of one report, for eps-LDP mechanisms.")]
Mu = Annotated[float | None, flag("Budget of one report, for Gaussian mechanisms.")]


def analyse(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="[DESIGN.toml] FILE...",
            help="Design, as ldpflow plan writes it. Reports: Parquet, or CSV with a header; several are one "
            "collection.",
        ),
    ],
    settings: Annotated[
        str | None,
        flag(
            "How the reports were collected, instead of a design.",
            "FILE.toml",
            shown="metadata of the files",
        ),
    ] = None,
    n: Annotated[
        str | None, flag("Required number of reports.", "X", shown="the design's", name="--n")
    ] = None,
    adversarial_share: Annotated[
        float, flag("Share of users who may send any report. Intervals are widened for the worst case.")
    ] = 0.0,
    form: TableFormat = Format.table,
    html: Annotated[str | None, flag("Also write a page with figures.", "FILE")] = None,
    strict: Annotated[bool, flag("Exit with 1 if the analysis raises any flag.", name="--strict")] = False,
) -> None:
    """Compute confidence intervals from collected private reports (a transcript).

    This is post-processing: it needs no raw data and adds no noise. The design, --settings or the metadata of
    the files say how the reports were collected. Contradictions between them are an error.
    """
    from ldpflow.practice.transcripts.analysis import analyse as compute

    if late := next((name for name in files[1:] if name.endswith(".toml")), None):
        raise InputError("file", late, "a file of reports: the design comes first")
    if files[0].endswith(".toml"):
        if settings is not None:
            raise InputError("settings", settings, f"nothing: {files[0]} has the settings")
        settings, *files = files
        if not files:
            raise InputError("file", None, "files of reports after the design")
    found = compute(files, settings, n=read_count(n, "n"), adversarial_share=adversarial_share)
    if form is Format.json:
        typer.echo(json.dumps(found.to_dict(), indent=2, allow_nan=False))
    else:
        analysis_sheet(found).show(form)
    if html is not None:
        require_extra("report", "altair", "vl_convert")
        from ldpflow.report.analysis_page import analysis_html
        from ldpflow.report.charts import write_file

        write_file(html, analysis_html(found).encode(), "html")
    if code := found.exit_code(strict):
        raise typer.Exit(code)


def analysis_sheet(analysis: Analysis) -> Sheet:
    from ldpflow.cli.tables import Sheet, Shown
    from ldpflow.practice.transcripts import result
    from ldpflow.practice.transcripts.methods import columns_of

    rows = analysis.asked
    columns: list[Shown] = [("method", lambda row: result.method_label(row, rows))]
    if len({row["level"] for row in rows}) > 1:
        columns.append(("level", lambda row: f"{row['level']:g}"))
    if len(analysis.verdicts) > 1:
        columns.append(("estimated", lambda row: analysis.coordinate_name(row["coordinate"])))

    shown: list[Shown] = result.shown_columns(rows, analysis.unit)
    results = [(title.replace(" (", "\n("), text) for title, text in shown]
    notes = [*str(analysis).splitlines(), "", analysis.methods_paragraph()]
    return Sheet(
        rows, columns, results, ("lack of fit", "K", "computed"), names=columns_of(rows), notes=notes
    )


def audit(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Mechanism, algorithm, protocol, client:FUNCTION, all or clients."
        ),
    ],
    epsilon: Epsilon = None,
    mu: Mu = None,
    settings: Settings = None,
    problem: Annotated[str, flag("Problem whose gradients the mechanism randomises.", "KIND")] = "quantile",
    samples: Annotated[
        str | None,
        flag(
            "Simulated outputs per input: so many to choose the test, and as many for the bound.",
            "X",
            shown="5e5, for algorithms and clients 1e5",
        ),
    ] = None,
    confidence: Annotated[float, flag("Confidence of the lower bound.")] = 0.999,
    seed: Annotated[int, flag("Seed of the simulated outputs.", min=0)] = 1,
    form: TableFormat = Format.table,
) -> None:
    """Bound the privacy parameter of a mechanism, algorithm, protocol or client from below, by an attack.

    client:FUNCTION is a function of ldpflow.client. "clients" stands for all of these functions, and "all"
    stands for the bundled components.

    The exit code is 1 if the bound exceeds the claim. Passing proves nothing: a better attack may exist.
    """
    from ldpflow.practice.audit import bundled

    count = read_count(samples, "samples")
    if name == "all":
        found = [bundled.audit(*case, count, confidence, seed) for case in bundled.BUNDLED]
    elif name == "clients":
        found = [bundled.audit_client(*case, count, confidence, seed) for case in bundled.CLIENTS]
    else:
        given = given_settings({"epsilon": epsilon, "mu": mu}, settings)
        found = [bundled.audit(name, given, problem, count, confidence, seed)]
    audit_sheet(found).show(form)
    if not all(each.passed for each in found):
        raise typer.Exit(1)


def audit_sheet(found: list[Audit]) -> Sheet:
    from ldpflow.cli.tables import Sheet, plain

    def claim_text(row: dict[str, Any]) -> str:
        delta = f", delta = {row['delta']:g}" if row["delta"] else ""
        return f"{row['parameter']} = {row['claim']:g}{delta}"

    rows = [each.to_dict() for each in found]
    columns: list[Any] = [
        ("claim", claim_text),
        ("lower bound", lambda row: f"{row['bound']:.4f}"),
        ("frequencies", lambda row: f"{row['first']:.4g}, {row['second']:.4g}"),
        ("", lambda row: "" if row["passed"] else "EXCEEDED"),
    ]
    notes = [f"{each.name}: {each.test}; inputs {each.inputs}" for each in found]
    notes.append(f"bounds at confidence {found[0].confidence:g}; a bound below the claim proves nothing")
    return Sheet(rows, [plain("name")], columns, notes=notes)


class PageFormat(StrEnum):
    text = "text"
    json = "json"


def privacy(
    mechanism: Annotated[
        str,
        typer.Argument(
            metavar="MECHANISM",
            help="Kind of mechanism or protocol (see ldpflow list), or a design that ldpflow plan wrote.",
        ),
    ],
    epsilon: Epsilon = None,
    mu: Mu = None,
    settings: Settings = None,
    reports: Annotated[int, flag("Number of linkable reports per user.")] = 1,
    response_rate: Annotated[
        float, flag("Share of invited users who respond. It does not hide who responds.")
    ] = 1.0,
    secret_sample: Annotated[
        bool,
        flag(
            "Responders are a secret random set of fixed size and send equally many reports, in a secret "
            "order.",
            name="--secret-sample",
        ),
    ] = False,
    shuffled: Annotated[bool, flag("Reports arrive in a secret random order.", name="--shuffled")] = False,
    users: Annotated[str | None, flag("Number of shuffled reports.", "X")] = None,
    delta: Annotated[float, flag("Delta of (epsilon, delta) guarantees.")] = 1e-6,
    form: Annotated[PageFormat, flag("text or json.", name="--format")] = PageFormat.text,
) -> None:
    """Print the privacy guarantee of a mechanism, protocol or design.toml per report and user, with sources.

    These are guarantees on paper. They protect people only if devices run a vetted implementation.
    """
    from ldpflow.practice.privacy.page import CollectionDesign, collected_words, privacy_page

    given, count = given_settings({"epsilon": epsilon, "mu": mu}, settings), read_count(users)
    collected: list[str] = []
    if mechanism.endswith(".toml"):
        from ldpflow.practice.transcripts.collection import read_collection, read_settings

        if given:
            raise InputError(next(iter(given)), given, f"nothing: {mechanism} has the settings")
        collection = read_collection(read_settings(mechanism))
        chosen, collected = collection.randomiser, collected_words(collection)
        count = collection.n if shuffled and count is None else count
        reports = max(reports, collection.reports)
    else:
        chosen = read_mechanism(mechanism, given)
    design = CollectionDesign(reports, response_rate, secret_sample, shuffled, count, delta)
    shown = chosen.model_dump(exclude={"kind", "sampling"}, exclude_none=True)
    if chosen.group == "protocol":
        named = chosen.model_dump(exclude={"kind"}, exclude_defaults=True)
        shown = {"epsilon": shown["epsilon"], **{k: v for k, v in named.items() if collected or k in given}}
    page = privacy_page(chosen.kind, shown, chosen.privacy(), design, collected)
    if form is PageFormat.json:
        typer.echo(json.dumps(page.to_dict(), indent=2, allow_nan=False))
    else:
        typer.echo(page.text(), nl=False)


def read_count(text: str | None, field: str = "users") -> int | None:
    """Parse a whole number >= 1, such as 1e6."""
    from ldpflow.study.entry import parse_number

    if text is None:
        return None
    value = parse_number(text)
    if isinstance(value, str) or value < 1 or value % 1 != 0:  # nan % 1 and inf % 1 are nan
        raise InputError(field, text, "a whole number >= 1")
    return int(value)


def given_settings(budgets: Mapping[str, float | None], texts: list[str] | None) -> dict[str, object]:
    """Settings of a mechanism by name: budgets and values of ``--set``."""
    from ldpflow.study.entry import parse_number

    found: dict[str, object] = {name: value for name, value in budgets.items() if value is not None}
    for name, values in parse_settings(texts).items():
        numbers = [parse_number(value) for value in values]
        found[name] = numbers if len(numbers) > 1 else numbers[0]
    return found


def read_mechanism(kind: str, table: Mapping[str, object]) -> Mechanism | Protocol:
    from ldpflow.components.protocols import PROTOCOLS
    from ldpflow.study.entry import read_component
    from ldpflow.study.plugins import load_plugins

    load_plugins()
    group, example = ("protocol", PROTOCOLS[kind].example) if kind in PROTOCOLS else ("mechanism", {})
    found: Mechanism | Protocol = read_component(group, {"kind": kind, **example, **table})
    return found


def transcript(
    run: Run,
    replicate: Annotated[int, flag("Index of the replicate.", min=0)],
    output: Annotated[str, flag("A .parquet file, or CSV.", "FILE", name="--output")],
    path: PathKey = None,
) -> None:
    """Write the transcript of a simulated replicate, to try ldpflow analyse.

    ldpflow analyse computes from it the stored rows of the replicate, bit for bit. All users are simulated.
    """
    from ldpflow.practice.transcripts.writing import stored_transcript
    from ldpflow.run import open_run

    users = stored_transcript(open_run(run).store.address, path, replicate, output)
    settings = "" if output.endswith(".parquet") else f"{output}.toml "
    typer.echo(f"{output}: {users:,} reports of replicate {replicate}")
    typer.echo(f"ldpflow analyse {settings}{output}", err=True)
