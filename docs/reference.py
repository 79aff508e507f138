"""Write the pages of docs/reference/ from declarations, docstrings and the command line.

``conf.py`` calls :func:`write_pages` when the site is built. The pages are not part of the repository.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from docs.tables import table
from ldpflow.cli import app
from ldpflow.components.algorithms import ALGORITHMS
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.components.mechanisms import MECHANISMS
from ldpflow.components.problems import PROBLEMS
from ldpflow.components.protocols import PROTOCOLS
from ldpflow.numerics import accounting
from ldpflow.settings import OneOf, Settings, parameter_text
from ldpflow.study.reading import CollectionFacts, Grid, Heading, Monitor, Trajectory

FOLDER = Path(__file__).parent / "reference"

KINDS: dict[str, tuple[str, Mapping[str, type[Settings]]]] = {
    "problem": ("Problems", PROBLEMS),
    "mechanism": ("Mechanisms", MECHANISMS),
    "algorithm": ("Algorithms", ALGORITHMS),
    "protocol": ("Protocols", PROTOCOLS),
    "method": ("Interval methods", INTERVAL_METHODS),
}

NOUNS: dict[str, tuple[str, ...]] = {
    "Studies and sweeps": ("ldpflow.Study", "ldpflow.sweep", "ldpflow.simulate", "ldpflow.bundled_studies"),
    "Runs": ("ldpflow.open_run", "ldpflow.Run"),
    "Planning": (
        "ldpflow.plan",
        "ldpflow.Plan",
    ),
    "Collected reports": (
        "ldpflow.analyse",
        "ldpflow.practice.transcripts.analysis.Analysis",
        "ldpflow.Transcript",
    ),
    "Privacy accounting": tuple(
        f"{accounting.__name__}.{name}" for name in ("delta_of", "epsilon_of", "mu_of_pure", "zcdp_of")
    ),
    "Writing components": (
        "ldpflow.register",
        "ldpflow.load_plugin",
        "ldpflow.testing.check_plugin",
        "ldpflow.settings.Setting",
        "ldpflow.columns.Column",
        "ldpflow.columns.Summary",
        "ldpflow.Problem",
        "ldpflow.DataLaw",
        "ldpflow.Mechanism",
        "ldpflow.Algorithm",
        "ldpflow.IntervalMethod",
        "ldpflow.PathIntervalMethod",
        "ldpflow.Intervals",
        "ldpflow.PathRecord",
    ),
    "Errors": (
        "ldpflow.InputError",
        "ldpflow.MissingExtra",
        "ldpflow.SweepFailed",
        "ldpflow.StorageError",
        "ldpflow.LdpflowError",
    ),
}
"""Titles of pages of the Python interface, and the names on each. Components have other pages."""

WITH_METHODS = ("Studies and sweeps", "Runs", "Planning", "Collected reports", "Writing components")
"""Pages whose classes are shown with all of their methods."""


def write_pages() -> None:
    """Write all pages. A file whose text is unchanged keeps its time, so Sphinx does not read it again."""
    pages = {"study_file": study_file(), "cli": command_line(), "api": contents()}
    pages |= {slug(title): components(title, kinds) for title, kinds in KINDS.values()}
    pages |= {slug(title): nouns(title, names) for title, names in NOUNS.items()}
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages.items():
        file = FOLDER / f"{name}.md"
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def slug(title: str) -> str:
    """File name of a page of the Python interface."""
    return "api_" + title.lower().replace(" ", "_")


def contents() -> str:
    """The page that lists the pages of the Python interface."""
    names = {title: [name.removeprefix("ldpflow.") for name in found] for title, found in NOUNS.items()}
    names |= {title: [kind.__name__ for kind in kinds.values()] for title, kinds in KINDS.values()}
    titles = [*list(NOUNS)[:4], *(title for title, _ in KINDS.values()), *list(NOUNS)[4:]]
    rows = [(f"[{title}]({slug(title)}.md)", ", ".join(f"`{n}`" for n in names[title])) for title in titles]
    pages = "\n".join(map(slug, titles))
    return (
        "# Python interface\n\n`import ldpflow as lf` offers all names that are not shown with a module of "
        "their own, and loads each when it is first used. The page of a component has its settings with "
        "units and defaults, its formula, references and an example. `help(lf.Quantile)` prints the same.\n\n"
        f"{table(('noun', 'names'), rows)}\n\n```{{toctree}}\n:maxdepth: 1\n:hidden:\n\n{pages}\n```\n"
    )


def nouns(title: str, names: Iterable[str]) -> str:
    """A page of functions and classes."""
    blocks = []
    for name in names:
        module, _, last = name.rpartition(".")
        found = getattr(__import__(module, fromlist=[last]), last)
        if inspect.isclass(found):
            members = ":members:\n" if title in WITH_METHODS else ""
            blocks.append(f"## {last}\n\n```{{eval-rst}}\n.. autoclass:: {name}\n{indented(members)}```\n")
        else:
            blocks.append(f"## {last}\n\n```{{eval-rst}}\n.. autofunction:: {name}\n```\n")
    return f"# {title}\n\n" + "\n".join(blocks)


def indented(text: str) -> str:
    """Indent an option of a directive."""
    return f"   {text}" if text else ""


def components(title: str, kinds: Mapping[str, type[Settings]]) -> str:
    """A page of components, by their kinds in study files."""
    head = "Base classes and rules for your own: [own component](../own_component.md).\n"
    blocks = [
        f"## {component.__name__}: `{kind}`\n\n```{{eval-rst}}\n"
        f".. autoclass:: {component.__module__}.{component.__name__}\n```\n"
        for kind, component in kinds.items()
    ]
    return f"# {title}\n\n{head}\n" + "\n".join(blocks)


def study_file() -> str:
    """The page of study files: every table, kind and setting with type, bounds and default."""
    parts = [
        "# Study files: every table and setting",
        "A study file is TOML. How to write one: [study files](../study_files.md). Any scalar may be a list, "
        "which makes it an axis of the design. Flags of `ldpflow sweep` and `--set NAME=VALUE` replace "
        "values.",
        "## Above the tables",
        settings_of(Heading),
        "## [grid]",
        settings_of(Grid),
        "## [trajectory]",
        settings_of(Trajectory),
        "## [monitor]",
        settings_of(Monitor),
        "## [collection]",
        settings_of(CollectionFacts),
    ]
    for name, (title, kinds) in KINDS.items():
        parts += [f"## [{name}]: {title.lower()}", f"A table `[{name}]`, or several `[[{name}]]`."]
        for kind, component in kinds.items():
            first = inspect.cleandoc(component.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
            parts += [f'### kind = "{kind}"', first.replace("``", "`"), settings_of(component)]
    return "\n\n".join(parts) + "\n"


def settings_of(model: type[BaseModel]) -> str:
    """The settings of a model as a table."""
    units = {}
    if issubclass(model, Settings):
        units = {column.name: column for column in model.setting_columns()}
    rows = []
    for name, field in model.model_fields.items():
        if name != "kind":
            column = units.get(name)
            unit = column.unit if column else "-"
            meaning = column.meaning if column else parameter_text(model, name)
            rows.append((f"`{name}`", kind_of(field), default_of(field), unit, meaning))
    if not rows:
        return "No settings."
    return table(("setting", "type", "default", "unit", "meaning"), rows)


def kind_of(field: FieldInfo) -> str:
    """Type and bounds of a field in words."""
    annotation: Any = field.annotation
    words = " or ".join(dict.fromkeys(words_of(annotation)))
    for item in field.metadata:
        if isinstance(item, OneOf):
            words = "one of " + ", ".join(f"`{name}`" for name in item.names())
    signs = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
    found = [*bounds_of(annotation), *field.metadata]
    bounds = [
        f"{sign} {getattr(one, name):,g}"
        for one in found
        for name, sign in signs.items()
        if getattr(one, name, None) is not None
    ]
    return ", ".join([words, *dict.fromkeys(bounds)])


def bounds_of(annotation: Any) -> Iterator[Any]:
    """Bounds inside an annotation."""
    if get_origin(annotation) is Annotated:
        first, *rest = get_args(annotation)
        for one in rest:
            yield from one.metadata if isinstance(one, FieldInfo) else [one]
        yield from bounds_of(first)
    elif get_origin(annotation) in (Union, types.UnionType):
        for one in get_args(annotation):
            yield from bounds_of(one)


def words_of(annotation: Any) -> Iterator[str]:
    """Types of an annotation in words."""
    names = {float: "number", int: "integer", str: "text", bool: "true or false"}
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from words_of(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for one in get_args(annotation):
            if one is not type(None):
                yield from words_of(one)
    elif origin is Literal:
        yield " or ".join(f"`{value}`" for value in get_args(annotation))
    elif origin is tuple:
        yield "vector"
    else:
        yield names.get(annotation, "table")


def default_of(field: FieldInfo) -> str:
    """Default of a field as TOML would have it."""
    if field.is_required():
        return "needed"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "-"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def command_line() -> str:
    """The page of the command line: every command with its arguments and flags."""
    group: Any = typer.main.get_command(app)
    head = (
        "# Command line\n\n`ldpflow COMMAND --help` prints the same. Exit codes: 0 done; 1 ran, but a check "
        "failed; 2 bad input; 130 interrupted.\n"
    )
    return head + "\n" + "\n".join(described(["ldpflow"], group))


def described(words: list[str], command: Any) -> Iterator[str]:
    """Describe a command and its subcommands."""
    if hasattr(command, "commands"):
        for name, one in command.commands.items():
            yield from described([*words, name], one)
        return
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    named = [p.metavar or p.name.upper() for p in arguments]
    places = [text if p.required else f"[{text}]" for p, text in zip(arguments, named, strict=True)]
    yield f"## {' '.join(words)}\n"
    yield f"    {' '.join([*words, '[FLAGS]', *places])}\n"
    yield in_code(inspect.cleandoc(command.help or "").replace("\f", "").strip()) + "\n"
    rows = [(f"`{text}`", meaning(p), default_shown(p)) for p, text in zip(arguments, named, strict=True)]
    for p in options:
        flags = ", ".join(f"`{flag}`" for flag in [*p.opts, *p.secondary_opts])
        rows.append((flags, meaning(p), default_shown(p)))
    if rows:
        yield table(("argument or flag", "meaning", "default"), rows) + "\n"


def meaning(parameter: Any) -> str:
    """Help of an argument or flag, with the mark of its panel."""
    text = " ".join((parameter.help or "").split())
    panel = getattr(parameter, "rich_help_panel", None) or ""
    return in_code(text + " *" if panel.endswith("*") else text).replace(" *", " \\*")


def in_code(text: str) -> str:
    """Mark the flags in a text as code. Otherwise Markdown prints ``--`` as a dash."""
    return re.sub(r"(?<![\w`-])--[a-z][\w-]*", lambda found: f"`{found[0]}`", text)


def default_shown(parameter: Any) -> str:
    """The default of an argument or flag as its help shows it."""
    if isinstance(parameter.show_default, str):
        text = parameter.show_default
        return f"`{text}`" if "<" in text else in_code(text)
    default = parameter.default
    if parameter.required or default in (None, False, (), []) or callable(default):
        return ""
    return f"`{getattr(default, 'value', default)}`"
