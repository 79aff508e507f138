"""Hostile transcripts and settings from a fixed seed: one message and exit code 2, in seconds.

Cases of all families come in turn. What is compiled once belongs to none of them: the first one is sound.
"""

from __future__ import annotations

import io
import math
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from itertools import chain, count, cycle, islice, zip_longest
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldpflow.cli import main
from ldpflow.study.reading import toml_text
from tests.oracles.transcript import SETTINGS, cell_demo, demo
from tests.transcripts.test_analysis import CELLS
from tests.transcripts.test_protocols import ROUNDS, protocol, reports_of, rounds_table

FAMILIES = (
    "names", "settings_of_wrong_types", "parquet_types", "bytes_of_parquet", "protocols", "bytes_of_protocols"
)  # fmt: skip
KINDS = ("path", "cells", "rounds", "thresholds", "grr", "oue", "hrr", "haar", "tree")
TEXTS = (
    "nan", "inf", "1e308", "-1", "", "x", "☃", "9" * 200_000, "0.5", "\x00", "'", "1e400", "0x10", '"1,5"',
    "NA", "true", "1 2", "\x1b[2J", '"', "1.0.0", "9223372036854775808",
)  # fmt: skip

SEED = 32
USERS = 1500
CPU_SECONDS = 10.0

ODD = [
    "3", "-1", "0", "1e400", "nan", "inf", "-inf", "true", '""', '"x"', "[]", "[[]]", "[1, 'a']", "{}",
    "{a = 1}", "1979-05-27", "1979-05-27T07:32:00Z", "07:32:00", "9" * 400, '"' + "a" * 70_000 + '"',
    "[" + "1," * 2000 + "]", "1e-320", "1e308", '"\\u0000"', "[true]", "[nan]", "9223372036854775808",
]  # fmt: skip

NAMES = {
    "": "level origin seed replicate path n problem mechanism algorithm method colour",
    "problem": "kind tau taus law_table transform edges jitter",
    "mechanism": "kind epsilon sampling mu",
    "algorithm": "kind c gamma theta0 batch_size radius",
    "method": "kind degree burn_in M block_rule B beta base",
    "collection": "unit reports",
}
FIELDS = [(table, name) for table, names in NAMES.items() for name in names.split()]


class Case(NamedTuple):
    """A command line that reads hostile files.

    ``right``: what may come out in the place of a refusal: ``nothing``, the ``rows`` of the sound transcript,
    or ``others``.
    """

    name: str
    arguments: tuple[str, ...]
    right: str = "nothing"


def text_of(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def parquet_of(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


class Cases:
    """Writes the files of the cases into a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.random = Random(SEED)
        self.rows, _ = demo(USERS)
        self.settings = self.write("settings.toml", toml_text(SETTINGS | {"n": USERS}))
        self.lines = ["theta,report,round"]
        self.lines += [f"{theta!r},{report},{i}" for i, (theta, report) in enumerate(self.rows, start=1)]
        self.numbers = count(1)

    def write(self, name: str, content: str | bytes) -> str:
        file = self.folder / name
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(file)

    def csv(self, what: str, content: str | bytes, right: str = "nothing", settings: str = "") -> Case:
        file = self.write(f"{next(self.numbers)}.csv", content)
        return Case(what, (file, "--settings", settings or self.settings), right)

    def parquet(self, what: str, content: bytes, right: str = "nothing") -> Case:
        file = self.write(f"{next(self.numbers)}.parquet", content)
        return Case(what, (file, "--settings", self.settings), right)

    def table(self, **columns: Any) -> pa.Table:
        """The sound rows with other or further columns."""
        own = {"theta": [row[0] for row in self.rows], "report": [row[1] for row in self.rows]}
        return pa.table(own | columns)

    def all(self, most: int, names: Sequence[str]) -> list[Case]:
        """Cases of some families in turn, each without an end or with a few cases."""
        turns = zip_longest(*(getattr(self, name)() for name in names or FAMILIES))
        return list(islice(filter(None, chain.from_iterable(turns)), most))

    def names(self) -> Iterator[Case]:
        for names in (
            ["report_٣", "theta_٣"], ["report_00", "theta_00"], ["report_0", "report_00"],
            ["report_" + "9" * 5000], ["report_" + "1" * 4000], ["report_0", "report_2"],
            ["report", "report_0"], ["report", "report"], ["theta", "theta_0", "report"],
            ["report_0", "report_1", "theta"], ["a" * 200_000, "report"], ["report", "a" * 131_073],
            ["\x1b[31mreport"], ["report", "\x1b]0;x\x07"], ['"report'], ['"re\nport"', "theta"],
            ["", "", "report"], [" report ", "theta"], ["REPORT"], ["report", "theta", "round\x00"],
            ["report_0"] * 3, ["report_-1"], ["report_+1"], ["report_1_0"], ["report_1e3"], ["report_²"],
            ["report", "\ud7ff", "user", "user "], ["report", "round", "round"],
        ):  # fmt: skip
            rows = [",".join(["0"] * len(names))] * 3
            yield self.csv(f"names {str(names)[:60]!a}", text_of([",".join(names), *rows]))

    def whole_files(self, kind: str) -> Iterator[Case]:
        """Files that are no CSV in UTF-8, and sound ones with rows or bytes changed."""
        lines, settings, _ = self.reports(kind)
        whole, rows = text_of(lines), "rows" if kind == "path" else "others"
        for what, content, right in (
            ("empty", "", "nothing"),
            ("header alone", f"{lines[0]}\n", "nothing"),
            ("utf-16", whole.encode("utf-16"), "nothing"),
            ("mark of utf-8", b"\xef\xbb\xbf" + whole.encode(), rows),
            ("carriage returns", whole.replace("\n", "\r"), rows),
            ("two line ends", whole.replace("\n", "\r\n"), rows),
            ("random", self.random.randbytes(100_000), "nothing"),
            ("empty lines", whole.replace("\n", "\n\n"), rows),
            ("a line of 3 MiB", whole + "0," * 3 * 2**19 + "\n", "nothing"),
            ("a header of 3 MiB", "a," * 3 * 2**19 + whole, "nothing"),
            ("an open quote", whole.replace("\n", '\n"', 3), "nothing"),
            ("semicolons", whole.replace(",", ";").replace("\n", ";\n"), "nothing"),
            ("900 rows", text_of(lines[:901]), "nothing"),
            ("short line", whole + "'\n", "nothing"),
            ("long line", text_of([*lines, f"{lines[-1]},1"]), "nothing"),
            ("long line of bytes", whole.encode() + b"1,\xff,1,1,1\n", "nothing"),
            ("not UTF-8", whole.encode() + b"\xff" * 40 + b"\n", "nothing"),
            ("other columns", whole.replace(lines[0], lines[0].upper(), 1), "nothing"),
            ("cut line", whole[: len(whole) * 3 // 4], "others"),
            ("reversed", text_of([lines[0], *lines[:0:-1]]), "others"),
            ("doubled", whole + text_of(lines[1:]), "others"),
            ("sorted", text_of([lines[0], *sorted(lines[1:])]), "others"),
        ):
            yield self.csv(f"{kind} {what}", content, right, settings)

    def parquet_types(self) -> Iterator[Case]:
        size = range(USERS)
        columns: list[tuple[str, dict[str, Any]]] = [
            ("lists", {"report": [[1]] * USERS}),
            ("nothing", {"theta": pa.nulls(USERS)}),
            ("nulls", {"theta": [None, *(row[0] for row in self.rows[1:])]}),
            ("times", {"round": pa.array([0] * USERS, pa.timestamp("ns"))}),
            ("decimals", {"theta": pa.array([1] * USERS, pa.decimal128(38, 3))}),
            ("halves", {"theta": pa.array([1.0] * USERS, pa.float32()).cast(pa.float16())}),
            ("large integers", {"theta": pa.array([2**53 + 1] * USERS)}),
            ("largest integers", {"report": pa.array([2**64 - 1] * USERS, pa.uint64())}),
            ("rounds of inf", {"round": [float("inf")] * USERS}),
            ("users in lists", {"user": [[i] for i in size]}),
            ("users as times", {"user": pa.array([2**62] * USERS, pa.timestamp("ns"))}),
            ("users as bytes", {"user": [b"\xff"] * USERS}),
            ("users as one", {"user": pa.array(["a"] * USERS).dictionary_encode()}),
            ("budgets of nan", {"epsilon": [float("nan")] * USERS}),
            ("truth values", {"theta": [True] * USERS}),
            ("thetas of 1e308", {"theta": [1e308, -1e308] * (USERS // 2)}),
        ]
        for what, changed in columns:
            yield self.parquet(f"parquet {what}", parquet_of(self.table(**changed)))
        yield self.parquet("parquet without rows", parquet_of(self.table().slice(0, 0)))
        yield self.parquet("parquet without columns", parquet_of(pa.table({})))
        zeros = pa.table({"theta": [0.0] * 2**22, "report": [0] * 2**22})
        yield self.parquet("parquet of 4 million equal rows", parquet_of(zeros, compression="zstd"))
        plain = {"compression": "zstd", "use_dictionary": False}
        page = pa.table({"report": pa.array([0] * 2**24, pa.int64())})
        yield self.parquet("parquet of one page", parquet_of(page, data_page_size=2**30, **plain))
        texts = self.table(user=pa.array(["a" * 400_000] * USERS))
        yield self.parquet("parquet of large texts", parquet_of(texts, **plain))

    def bytes_of_parquet(self) -> Iterator[Case]:
        whole = parquet_of(self.table(), write_page_checksum=True)
        contents = [
            b"PAR1", b"PAR1PAR1", whole[:-4], whole[4:], whole[:-9], whole[:100],
            b"PARE" + whole[4:-4] + b"PARE",
            whole[:-8] + b"\xff\xff\xff\x7fPAR1", whole[:-8] + b"\x00\x00\x00\x00PAR1", whole + whole,
        ]  # fmt: skip
        for content in contents:
            right = "rows" if content == contents[-1] else "nothing"
            yield self.parquet(f"parquet of {len(content)} bytes", content, right)
        while True:
            data = bytearray(whole)
            # Half of the changes to the metadata at the end.
            first = self.random.choice([0, len(data) - 900])
            at = self.random.randrange(first, len(data))
            data[at] ^= 1 << self.random.randrange(8)
            yield self.parquet(f"parquet bit of byte {at}", bytes(data), "rows")

    def settings_of_wrong_types(self) -> Iterator[Case]:
        sound = self.write("sound-again.csv", text_of(self.lines))
        while True:
            table, field = self.random.choice(FIELDS)
            value = self.random.choice(ODD)
            tables = {"": {"n": USERS}} | SETTINGS
            texts = {name: {k: repr(v) for k, v in own.items()} for name, own in tables.items()}
            texts.pop(field, None)
            texts.setdefault(table, {"kind": "'TR'"} if table == "method" else {})[field] = value
            form = {"": "", "method": self.random.choice(["[method]", "[[method]]"])}
            lines = []
            for name, own in texts.items():
                lines += [form.get(name, f"[{name}]"), *(f"{key} = {text}" for key, text in own.items())]
            file = self.write(f"{next(self.numbers)}.toml", text_of(lines))
            # Some values are right, such as an origin.
            yield Case(f"setting {table}.{field} = {value[:20]}", (sound, "--settings", file), "others")

    @cache  # noqa: B019
    def reports(self, kind: str) -> tuple[list[str], str, str]:
        """Lines of a sound collection, the settings' file, and a report that is impossible."""
        if kind == "path":
            return self.lines, self.settings, "2"
        if kind == "cells":
            rows, _ = cell_demo(USERS)
            lines = ["theta_0,theta_1,report", *(f"{a!r},{b!r},{cell}" for (a, b), cell in rows)]
            return lines, self.write("cells.toml", toml_text(CELLS | {"method": [{"kind": "BM"}]})), "3"
        table = rounds_table(USERS) if kind == "rounds" else reports_of(kind, USERS)
        settings = ROUNDS if kind == "rounds" else protocol(kind)
        lines = [",".join(map(str, row.values())) for row in table.to_pylist()]
        wrong = {"grr": "16", "oue": "01", "tree": "0101010"}.get(kind, "2")
        file = self.write(f"{kind}.toml", toml_text(settings))
        return [",".join(table.column_names), *lines], file, wrong

    def protocols(self) -> Iterator[Case]:
        """For every protocol: values that cannot be right in a random row, and whole files."""
        files = {kind: cycle(self.whole_files(kind)) for kind in KINDS}
        for step, text in enumerate((None, *TEXTS)):
            for kind in KINDS:
                lines, settings, wrong = self.reports(kind)
                at = self.random.randrange(2, len(lines) - 1)
                fields = lines[at].split(",")
                value = wrong if text is None else text
                for column in range(-1, min(len(fields) - 1, 2)):
                    changed = list(fields)
                    changed[column] = value
                    one = [*lines[:at], ",".join(changed), *lines[at + 1 :]]
                    # The wrong report may be a question, and an empty line is no row.
                    right = "others" if (step == 0 and column >= 0) or one[at] == "" else "nothing"
                    yield self.csv(f"{kind} {value[:9]!a} in row {at}", text_of(one), right, settings)
                yield next(files[kind])

    def bytes_of_protocols(self) -> Iterator[Case]:
        while True:
            kind = self.random.choice(KINDS)
            lines, settings, _ = self.reports(kind)
            data = bytearray(text_of(lines).encode())
            at = self.random.randrange(len(data))
            data[at] = self.random.randrange(256)
            right = "rows" if kind == "path" else "others"
            yield self.csv(f"{kind} byte {at} = {data[at]}", bytes(data), right, settings)


def run(case: Case) -> tuple[int | None, str, str, float]:
    """Exit code, output, messages and CPU time of a case."""
    out, err, started = io.StringIO(), io.StringIO(), time.process_time()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["analyse", *case.arguments, "--format", "csv"])
    return code, out.getvalue(), err.getvalue(), time.process_time() - started


def fault_of(case: Case, sound: str) -> str:
    """What is wrong with the outcome of a case, or nothing; ``sound`` is that of the sound transcript."""
    try:
        code, out, err, seconds = run(case)
    except BaseException as error:
        return f"traceback: {error!r}"[:200]
    lines = [line for line in err.splitlines() if not line.startswith("settings: ")]
    if code == 2 and (len(lines) != 1 or not lines[0].startswith("ldpflow: ") or out):
        return f"not one message: {err[:300]!r}"
    if code not in ((2,) if case.right == "nothing" else (0, 1, 2)):
        return f"exit code {code}: {out[:300]!r}"
    if code != 2 and case.right == "rows" and not alike(out, sound):
        return "other rows than those of the sound transcript"
    if not err.replace("\n", "").isprintable():
        return "escapes for the terminal"
    if len(err) > 1500:
        return f"a message of {len(err)} characters"
    return f"{seconds:.0f} s of CPU time" if seconds > CPU_SECONDS else ""


def alike(out: str, sound: str) -> bool:
    """Whether two tables are equal but for the last digits: a change of theta within its rounding is none."""

    def close(first: str, second: str) -> bool:
        try:
            return math.isclose(float(first), float(second), rel_tol=1e-7)
        except ValueError:
            return False

    pairs = zip(re.split("[,\\n]", out), re.split("[,\\n]", sound), strict=False)
    return out.count(",") == sound.count(",") and all(a == b or close(a, b) for a, b in pairs)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("count", "names"),
    [
        (22, ()),
        (60, ("protocols", "bytes_of_protocols")),
        pytest.param(300, (), marks=pytest.mark.slow),
        pytest.param(600, ("protocols", "bytes_of_protocols"), marks=pytest.mark.slow),
    ],
)
def test_hostile_transcripts(tmp_path, count, names):
    cases = Cases(tmp_path)
    code, sound, *_ = run(cases.csv("sound", text_of(cases.lines), "rows"))
    assert code in (0, 1) and sound.startswith("method,")
    found = cases.all(count, names)
    assert len(found) == count
    assert {case.name: fault for case in found if (fault := fault_of(case, sound))} == {}
