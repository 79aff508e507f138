"""Tables of results for terminals and as CSV, JSON, Markdown and LaTeX."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ldpflow.cli.flags import Format
from ldpflow.columns import no_formula, round_text, short, with_error
from ldpflow.errors import plain_text

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
Shown = tuple[str, Callable[[Any], str]]

GAP = 2  # characters between columns
MOST_ROWS, OTHER_LINES = 30, 8
"""Most rows of a table that is printed whole without --all, and lines that a window needs besides rows."""
WORST, LEAST_WORST = 10, 3
"""Most rows of a longer table that are printed, and fewest rows in a window of few lines."""
PLUS_MINUS = "± is one Monte Carlo standard error (MCSE)."


@dataclass(frozen=True)
class Sheet:
    """Table of results for all formats. A column is a title and a function from a row to a text."""

    rows: Sequence[Row]
    settings: Sequence[Shown]
    """Columns of settings. A narrow window shows all of them."""
    results: Sequence[Shown] = ()
    first_to_go: Sequence[str] = ()
    """Titles of results that a narrow window leaves out, in this order."""
    constants: str = ""
    """Text below the table, such as settings that all rows share. A window of few lines leaves it out."""
    notes: Sequence[str] = ()
    """Last lines below the table."""
    names: Sequence[str] = ()
    """Columns of CSV and JSON. Default: all keys of all rows."""
    methods: Sequence[Row] = ()
    """A line for each method, printed above a long table."""
    legend: str = ""
    """Sentence on the lines of methods."""
    rank: Callable[[Row], float] | None = None
    """Key of a row. A long table shows the rows with the smallest keys. Default: its first rows."""
    command: str = ""
    """Command that prints all rows of a long table."""
    first_to_round: Sequence[str] = ()
    """Titles of results that lose their MCSE if leaving out results was not enough, in this order."""
    together: Sequence[str] = ()
    """Titles of terms of a sum. None is left out. A narrow window has all of them in one block below."""
    heading: Sequence[str] = ()
    """Lines above the table."""
    reading: str = ""
    """How to read the table, printed before ``constants``."""

    def show(self, form: Format = Format.table, every: bool = True) -> None:
        """Print the table. Without ``every`` a terminal shows only some rows of a long table."""
        columns = [*self.settings, *self.results]
        names = self.names or list(dict.fromkeys(name for row in self.rows for name in row))
        if form is Format.csv:
            write_csv(names, self.rows)
        elif form is Format.json:
            print(
                json.dumps([{name: finite(row.get(name)) for name in names} for row in self.rows], indent=1)
            )
        elif form is not Format.table:
            titles = [one_line(title) for title, _ in columns]
            cells = [[plain_text(text(row)) for _, text in columns] for row in self.rows]
            print((markdown if form is Format.md else latex)(titles, cells))
            mark = "% " if form is Format.latex else "\n"
            print(*(mark + plain_text(note) for note in (*self.heading, *self.below())), sep="\n")
        elif not every and self.methods and len(self.rows) > most_rows():
            self.show_worst()
        else:
            table, left = self.fit(self.settings, self.results, self.rows, rule=True)
            shared = self.method_lines() if len(self.rows) > most_rows() else ("", [])
            above = lines_text(self.heading) + shared[0]
            print(above + table + lines_text([*left_out(shared[1], left), *self.below()]), end="")

    def below(self, legend: str = "") -> list[str]:
        errors = any("±" in text(row) for _, text in self.results for row in self.rows)
        first = " ".join(filter(None, (PLUS_MINUS if errors else "", legend, self.reading, self.constants)))
        return [*([first] if first else []), *self.notes]

    def choose(self, count: int) -> tuple[Sequence[Row], str]:
        """Choose rows of a long table. The second value is a line that says which rows they are."""
        rows = self.rows if self.rank is None else sorted(self.rows, key=self.rank)
        which = "first" if self.rank is None else "worst"
        return rows[:count], f"{count} of {len(rows):,} rows, the {which}; all: {self.command}"

    def method_lines(self) -> tuple[str, list[str]]:
        if not self.methods:
            return "", []
        method, cells, *columns = map(plain, self.methods[0])
        last_to_go = [title for title, _ in columns[-1:] if title not in self.together]
        return self.fit([method, cells], columns, self.methods, last_to_go)

    def show_worst(self) -> None:
        """Print the lines of the methods and as many of the worst rows as fit into the window."""
        console, (above, left) = Console(), self.method_lines()
        above = lines_text(self.heading) + above
        brief = replace(self, constants="--all prints the shared settings." if self.constants else "")
        for sheet, count in [(self, WORST), *((brief, n) for n in range(WORST, LEAST_WORST - 1, -1))]:
            below = sheet.worst_text(count, left)
            # Three lines are for the last lines of a sweep and the prompt.
            if not console.is_terminal or (above + below).count("\n") <= console.height - 3:
                break
        print(above + below, end="")

    def worst_text(self, count: int, left: Sequence[str]) -> str:
        rows, line = self.choose(count)
        # Columns without a value are left out.
        results = [(t, text) for t, text in self.results if {*map(text, rows)} - {"-", "0", "none"}]
        settings = [(t, text) for t, text in self.settings if {*map(text, rows)} != {"-"}]
        table, gone = self.fit(settings, results, rows)
        return lines_text([line]) + table + lines_text([*left_out(left, gone), *self.below(self.legend)])

    def fit(
        self,
        settings: Sequence[Shown],
        results: Sequence[Shown],
        rows: Sequence[Any],
        last_to_go: Sequence[str] = (),
        rule: bool = False,
    ) -> tuple[str, list[str]]:
        """Text of a table that fits into the window, and titles of the columns left out.

        If the table is too wide, blocks below continue it. They number the rows instead of showing settings.
        """
        console = Console()
        if not rows:
            return "no rows\n", []
        numbers = {id(row): str(at) for at, row in enumerate(rows, 1)}
        number: list[Shown] = [("#", lambda row: numbers[id(row)])] if len(rows) > 1 else []
        width = {t: width_of(rich_table([(t, text)], rows)) for t, text in (*number, *settings, *results)}
        limit = console.width if limits_width(console) else math.inf

        def fits(columns: Iterable[Shown]) -> bool:
            return sum(width[title] + GAP for title, _ in columns) - GAP <= limit

        kept, left = dict(results), []
        for title in (*self.first_to_go, *last_to_go):
            if fits([*settings, *kept.items()]):
                break
            if kept.pop(title, None) is not None:
                left.append(title)
        for title in self.first_to_round:
            if fits([*settings, *kept.items()]):
                break
            if title in kept:
                kept[title] = partial(without_error, kept[title])
                width[title] = width_of(rich_table([(title, kept[title])], rows))
                left.append(f"MCSE of {title}")
        blocks: list[list[Shown]] = [[*settings, *kept.items()]]
        if kept and not fits(blocks[0]):
            terms = [column for column in (*settings, *kept.items()) if column[0] in self.together]
            blocks = [[*number, *settings]]
            for column in (*(c for c in kept.items() if c not in terms), *terms):
                if column in terms[:1] or not fits([*blocks[-1], column]):
                    blocks.append([*number])
                blocks[-1].append(column)
            blocks[0] = blocks[0] if len(blocks) > 1 else blocks[0][len(number) :]
        tables = [rich_table(block, rows, rule) for block in blocks if block]
        # A too narrow window wraps lines. It does not cut numbers.
        texts = (rich_text([table], Console(width=max(width_of(table), console.width))) for table in tables)
        return "".join(texts), left


def left_out(*tables: Sequence[str]) -> list[str]:
    """Line with the titles that the tables of a sheet left out."""
    names = ", ".join(map(one_line, dict.fromkeys(chain(*tables))))
    return [f"(too narrow for {names}: see --format csv)"] if names else []


def most_rows() -> int:
    console = Console()
    return min(MOST_ROWS, console.height - OTHER_LINES) if console.is_terminal else MOST_ROWS


def rich_text(parts: Iterable[Any], console: Console) -> str:
    with console.capture() as captured:
        for part in parts:
            console.print(part, highlight=False, markup=False)
    return captured.get()


def lines_text(lines: Iterable[str]) -> str:
    return rich_text(map(plain_text, lines), Console(soft_wrap=not limits_width(Console())))


def rich_table(columns: Sequence[Shown], rows: Sequence[Any], rule: bool = True) -> Table:
    look = box.SIMPLE_HEAD if rule else None
    table = Table(box=look, padding=(0, 1 if rule else GAP, 0, 0), pad_edge=False, show_edge=False)
    for title, _ in columns:
        table.add_column(Text(plain_text(title)), justify="right", no_wrap=True)
    for row in rows:
        # As Text: rich would read a value in brackets as markup.
        table.add_row(*(Text(plain_text(text(row))) for _, text in columns))
    return table


def width_of(table: Table) -> int:
    return Console(width=10_000).measure(table).maximum


def limits_width(console: Console) -> bool:
    return console.is_terminal or "COLUMNS" in os.environ


def one_line(title: str) -> str:
    return title.replace("-\n", "").replace("\n", " ")


def markdown(titles: Sequence[str], cells: Iterable[Sequence[str]]) -> str:
    lines = [titles, ["---:"] * len(titles), *cells]
    return "\n".join(f"| {' | '.join(text.replace('|', chr(92) + '|') for text in line)} |" for line in lines)


LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$", "ε": r"$\varepsilon$"}
)
NUMBER = re.compile(r"[-+]?[\d.,]+(e-?\d+)?( ± [\d.,]+(e-?\d+)?)?")


def latex_text(text: str) -> str:
    """Text of a cell for LaTeX. Numbers and their errors are in mathematics mode."""
    if not NUMBER.fullmatch(text):
        return "--" if text == "-" else text.translate(LATEX)
    text = re.sub(r"e(-?\d+)", r" \\times 10^{\1}", text).replace("±", r"\pm").replace(",", "{,}")
    return "$" + re.sub(r"(?<![\d.])1 \\times ", "", text) + "$"


GREEK = {"epsilon": "varepsilon"} | {name: name for name in ("tau", "gamma", "beta", "delta", "mu", "rho")}
"""LaTeX commands of settings that have a symbol."""
LONGEST = 40
"""Most rows of a LaTeX table on one page. A longer table is a longtable."""


def latex(titles: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """LaTeX table for the package booktabs. Columns of numbers are aligned to the right."""
    head = [rf"$\{GREEK[title]}$" if title in GREEK else latex_text(title) for title in titles]
    title, *lines = (" & ".join(line) + r" \\" for line in (head, *(map(latex_text, line) for line in cells)))
    columns = zip(*cells, strict=True)
    form = "".join(
        "r" if all(c in ("-", "none") or NUMBER.fullmatch(c) for c in column) else "l" for column in columns
    )
    name, ends = ("longtable", [r"\endhead"]) if len(cells) > LONGEST else ("tabular", [])
    top = [rf"\begin{{{name}}}{{{form}}}", r"\toprule", title, r"\midrule", *ends]
    return "\n".join([*top, *lines, r"\bottomrule", rf"\end{{{name}}}"])


def write_csv(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(map(no_formula, names))
    for row in rows:
        values = (row.get(name) for name in names)
        writer.writerow(no_formula(json.dumps(v) if isinstance(v, (dict, list)) else v) for v in values)


def finite(value: object) -> object:
    """Replace NaN and infinity by None, since JSON lacks them."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plain(name: str) -> Shown:
    return name, lambda row: short(row.get(name))


def setting(name: str) -> Shown:
    """Column of a setting. A coordinate that is a quantile has its tau in brackets."""

    def text(row: Row) -> str:
        value = short(row[name])
        if name == "coordinate" and row.get("taus"):
            return f"{value} (tau {json.loads(row['taus'])[row[name]]:g})"
        return value

    return name, text


def chosen_columns(table: pa.Table, names: Sequence[str]) -> list[Shown]:
    """Columns by name. A measure has its MCSE with it, unless ``names`` has the MCSE."""
    found = []
    for name in names:
        error = f"{name.removesuffix('_mean')}_mcse"
        alone = error not in table.column_names or error in names
        found.append(setting(name) if alone else estimate(name, name, error))
    return found


def span(values: Iterable[float | None], decimals: int | None = None) -> str:
    """Text of the smallest and the largest value, by default to three digits."""
    known = [value for value in values if value is not None and not math.isnan(value)]
    ends = (min(known), max(known)) if known else ()
    texts = (round_text(end, 3) if decimals is None else f"{end:z.{decimals}f}" for end in ends)
    return " .. ".join(dict.fromkeys(texts)) or "-"


def without_error(text: Callable[[Any], str], row: Any) -> str:
    return text(row).partition(" ±")[0]


def number(title: str, name: str, digits: int) -> Shown:
    return title, lambda row: round_text(row.get(name), digits)


def estimate(title: str, name: str, error: str) -> Shown:
    return title, lambda row: with_error(row.get(name), row.get(error))
