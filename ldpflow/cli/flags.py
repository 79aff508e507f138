"""Arguments and flags that commands share, and error messages that name flags.

Errors of the library name fields (``mechanism.epsilon``, ``out``). A command prints a field as the name that
the user types, if the command has a flag or an argument of this name, or if the last part of the field is a
flag that was given.
"""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import wraps
from textwrap import fill
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from ldpflow.errors import InputError, MissingExtra, plain_text

FORMER_NAMES = {
    "submit": {"--cpus": "--num-cpus"},
    "export": {"--duckdb": "--output"},
    "plan": {"--users": "--n"},
}
"""Further accepted names of flags, by command. The help does not show them."""

USAGE_ERROR: Any = typer.BadParameter.__base__
"""Class of errors for a wrong flag, value or argument."""

LISTS = {"plan": ("--tau", "--epsilon", "--n", "--level", "--half-width", "--edges")}
"""Flags that take several values, by command: ``--tau .5 .9`` means ``--tau .5 --tau .9``."""


def flag(
    text: str,
    metavar: str | None = None,
    *,
    name: str | None = None,
    shown: str | bool = True,
    panel: str | None = None,
    min: int | None = None,
) -> Any:
    """Declare an option. ``shown`` is the default in the help. Names in backquotes become flags."""
    text = re.sub(r"`(\w+)`", r"--\1", text)
    names = {None: [], "--output": ["-o", "--output"]}.get(name, [name])
    return typer.Option(
        *names, help=text, metavar=metavar, show_default=shown, rich_help_panel=panel, min=min
    )


def complete_study(incomplete: str) -> list[str]:
    from ldpflow.study import bundled_studies

    return [name for name in bundled_studies() if name.startswith(incomplete)]


StudyName = Annotated[
    str,
    typer.Argument(
        metavar="STUDY", help="A .toml file or the name of a bundled study.", autocompletion=complete_study
    ),
]
Run = Annotated[str, typer.Argument(metavar="RUN", help="Run directory, e.g. runs/quickstart.")]


PathKey = Annotated[
    str | None,
    typer.Option(
        "--path",
        help="Key of the path, or first digits of the key. A run of several paths needs one.",
        show_default=False,
    ),
]
Axis = list[str] | None
Where = Annotated[str | None, flag("Condition on rows: \"method == 'BB' and n >= 1e5\".", "CONDITION")]
Sort = Annotated[list[str] | None, flag("Sort by COLUMN; -COLUMN: largest first. May be repeated.", "COLUMN")]
Columns = Annotated[list[str] | None, flag("Columns to show, separated by commas.", "COLUMN")]


class Format(StrEnum):
    table = "table"
    csv = "csv"
    json = "json"
    md = "md"
    latex = "latex"


TableFormat = Annotated[
    Format,
    flag(
        "csv and json have full precision. latex needs booktabs, and longtable for over 40 rows.",
        name="--format",
    ),
]
Every = Annotated[bool, flag("Print all rows, even if there are more than 30.", name="--all")]
Plugins = Annotated[
    list[str] | None,
    flag(
        "A .py file or module with your own components. May be repeated.",
        "FILE",
        shown=False,
        name="--plugin",
    ),
]


class FlagCommand(TyperCommand):
    """Command whose errors name its flags. It also accepts further names of flags."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        former, lists = FORMER_NAMES.get(self.name or "", {}), LISTS.get(self.name or "", ())
        current: list[str] = []
        for arg in args:
            flag, equals, value = arg.partition("=")
            if current[-2:-1] and current[-2] in lists and re.match(r"[.\d]", arg):
                current.append(current[-2])  # arg is a further value of the last flag
            current.append(former.get(flag, flag) + equals + value)
        return super().parse_args(ctx, current)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        # One line per paragraph: the terminal wraps it.
        paragraphs = inspect.cleandoc(self.help or "").split("\n\n")
        self.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        super().format_help(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except MissingExtra:
            raise
        except InputError as error:
            raise name_flags(error, ctx) from error


class Commands(TyperGroup):
    """Group of all commands. A usage error or an interrupt is printed as one message."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with one_message():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        with one_message(ctx):
            return super().invoke(ctx)


@contextmanager
def one_message(context: Any = None) -> Iterator[None]:
    """Print a usage error or an interrupt as one message, and exit."""
    try:
        yield
    except KeyboardInterrupt:
        print_wrapped("ldpflow: interrupted")
        raise typer.Exit(130) from None
    except USAGE_ERROR as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        text = error.format_message().replace("Value error, ", "").rstrip(".")
        text += "" if text.endswith("?") else "."
        command = "ldpflow" if context is None else f"ldpflow {context.invoked_subcommand}"
        command = command if error.ctx is None else error.ctx.command_path
        print_wrapped(f"ldpflow: {plain_text(text)} See {command} --help.")
        raise typer.Exit(2) from None


def name_flags(error: InputError, context: typer.Context) -> InputError:
    """Replace fields in an error by flags and arguments of the command."""
    flags: dict[str, str] = {}
    given = set()
    parameters: list[Any] = context.command.params
    for parameter in parameters:
        name, flag = parameter.name, parameter.metavar or parameter.name.upper()
        if parameter.param_type_name == "option":
            flag = max(parameter.opts, key=len)
            name = flag.lstrip("-").replace("-", "_")
        flags[name] = flag
        source = context.get_parameter_source(parameter.name)
        if source is not None and source.name == "COMMANDLINE":
            given.add(name)

    def flag_of(field: str) -> str:
        group, _, last = field.rpartition(".")
        setting = group if last == "kind" else last
        if field == "out" and "out" not in given:
            return flags.get("run", "run directory")
        if setting in given:
            return flags[setting]
        return field if field in ("seed", "replicates") else flags.get(field, field)  # fields of the study

    field = error.field
    if not re.search(r"In .*, line \d+\.$", error.hint):  # a setting in a study file is no flag
        field = ", ".join(map(flag_of, field.split(", ")))
    allowed, hint = (
        re.sub(r"`(\w+)`", lambda match: flags.get(match[1], match[0]), text)
        for text in (error.allowed, error.hint)
    )
    return InputError(field, error.value, allowed, hint)


def flag_parameter(name: str, kind: Any, default: Any, *words: Any, **more: Any) -> inspect.Parameter:
    """Parameter of a command. The last arguments are those of :func:`flag`."""
    option = flag(*words, name=f"--{name.replace('_', '-')}", **more)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=default, annotation=Annotated[kind, option])


def set_parameters(command: Any, parameters: Iterable[inspect.Parameter]) -> None:
    signature = inspect.Signature(list(parameters))
    command.__signature__ = signature
    command.__annotations__ = {name: one.annotation for name, one in signature.parameters.items()}


def with_plugins(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option ``--plugin`` to a command. Plug-ins are imported before the command runs."""

    @wraps(command)
    def run(*arguments: Any, plugin: list[str] | None = None, **options: Any) -> None:
        if plugin:
            from ldpflow.study.plugins import load_plugin

            for source in plugin:
                load_plugin(source)
        command(*arguments, **options)

    option = inspect.Parameter("plugin", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Plugins)
    set_parameters(run, [*inspect.signature(command, eval_str=True).parameters.values(), option])
    return run


def parse_settings(texts: Sequence[str] | None) -> dict[str, list[str]]:
    """Parse texts ``NAME=VALUE,VALUE`` of ``--set`` into values by name."""
    found = {}
    for text in texts or ():
        name, _, values = text.partition("=")
        if not name or not values:
            raise InputError("set", text, "NAME=VALUE or NAME=VALUE,VALUE")
        found[name.strip()] = [value.strip() for value in values.split(",")]
    return found


def print_wrapped(text: str, file: TextIO | None = None) -> None:
    """Print a text, by default on standard error. For a terminal, lines are wrapped between words."""
    file = file or sys.stderr
    if file.isatty():
        options: Any = {"break_long_words": False, "break_on_hyphens": False}
        width = shutil.get_terminal_size().columns
        text = "\n".join(fill(line, width, **options) for line in text.split("\n"))
    print(text, file=file)
