"""Naming a field of an error as the flag that set it.

The library names fields (``mechanism.epsilon``, ``out``). A command shows a field as its own flag where
the field is one of the command's arguments, or the last part of its name is a flag that was given.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from ldpflow.errors import InputError, MissingExtra

__all__ = ["METHODS", "FlagCommand", "settings_given", "with_plugins"]

METHODS = "(every interval method)"
"""Stands in a help text for the names of the interval methods, which are loaded when it is shown."""


FORMER_NAMES = {"submit": {"--cpus": "--num-cpus"}, "export": {"--duckdb": "--output"}}
"""Flags that had another name, by command: still taken, and not shown."""


class FlagCommand(TyperCommand):
    """A command whose input errors name its flags, which takes flags by their former names too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        former = FORMER_NAMES.get(self.name or "", {})
        current = []
        for arg in args:
            flag, equals, value = arg.partition("=")
            current.append(former.get(flag, flag) + equals + value)
        return super().parse_args(ctx, current)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, with the names of all interval methods where it has their place."""
        self.help = unwrapped(self.help)
        options: list[Any] = self.params
        for option in options:
            if METHODS in (getattr(option, "help", None) or ""):
                from ldpflow.components.intervals import INTERVAL_METHODS

                option.help = option.help.replace(METHODS, ", ".join(INTERVAL_METHODS))
        super().format_help(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except MissingExtra:
            raise
        except InputError as error:
            raise with_flags(error, ctx) from error
        except KeyboardInterrupt:
            # A sweep that has begun ends in order, and says so itself: this one had not.
            what = " before the first row; run it again" if self.name == "sweep" else ""
            typer.echo(f"ldpflow: interrupted{what}", err=True)
            raise typer.Exit(130) from None


def unwrapped(text: str | None) -> str | None:
    """A docstring with one line per paragraph, which a terminal of any width wraps by itself."""
    return text and "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n"))


Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="FILE",
        help="Your own components: a .py file or a module. May be repeated.",
        show_default=False,
    ),
]


def with_plugins(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option ``--plugin``: what it names is imported before the command runs."""

    @wraps(command)
    def run(*arguments: Any, plugin: list[str] | None = None, **options: Any) -> None:
        if plugin:
            from ldpflow.study.plugins import load_plugin

            for source in plugin:
                load_plugin(source)
        command(*arguments, **options)

    hints = get_type_hints(command, include_extras=True)
    parameters = [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(command).parameters.items()
    ]
    option = inspect.Parameter("plugin", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Plugins)
    run.__signature__ = inspect.Signature([*parameters, option])  # type: ignore[attr-defined]
    run.__annotations__ = {**hints, "plugin": Plugins}
    return run


def settings_given(texts: Sequence[str] | None) -> dict[str, object]:
    """Values of ``--set name=value,value``, by name.

    Raises
    ------
    InputError
        If a text has no equals sign.
    """
    found: dict[str, object] = {}
    for text in texts or ():
        name, equals, values = text.partition("=")
        if not equals or not name or not values:
            raise InputError("set", text, "NAME=VALUE or NAME=VALUE,VALUE, as in mechanism.epsilon=0.5,2")
        found[name.strip()] = [value.strip() for value in values.split(",")]
    return found


def with_flags(error: InputError, context: typer.Context) -> InputError:
    """The error with fields named as the flags of the command that was run."""
    flags = flags_of(context.command)
    if error.field in flags:
        field = flags[error.field]
    elif error.field == "out" and "run" in flags:
        field = flags["run"]
    else:
        group, _, last = error.field.rpartition(".")
        name = group if last == "kind" else last
        field = flags[name] if name in flags and given(context, name) else error.field

    def named(text: str) -> str:
        return re.sub(r"`(\w+)`", lambda match: flags.get(match[1], match[0]), text)

    return InputError(field, error.value, named(error.allowed), named(error.hint))


def flags_of(command: Any) -> dict[str, str]:
    """Flags, and the names that arguments have in the help, by the name of the field."""
    flags: dict[str, str] = {}
    for parameter in command.params:
        if parameter.param_type_name == "option":
            flag = max(parameter.opts, key=len)
            flags[flag.lstrip("-").replace("-", "_")] = flag
        elif parameter.name is not None:
            flags[parameter.name] = parameter.metavar or parameter.name.upper()
    return flags


def given(context: typer.Context, field: str) -> bool:
    """Whether the flag of this field was typed."""
    for parameter in context.command.params:
        names = {name.lstrip("-").replace("-", "_") for name in parameter.opts}
        if field in names and parameter.name is not None:
            source = context.get_parameter_source(parameter.name)
            return source is not None and source.name == "COMMANDLINE"
    return False


def bundled(incomplete: str) -> list[str]:
    """Bundled studies whose names begin so."""
    from ldpflow.study import bundled_studies

    return [name for name in bundled_studies() if name.startswith(incomplete)]


StudyName = Annotated[
    str,
    typer.Argument(
        metavar="STUDY", help="A .toml file or the name of a bundled study.", autocompletion=bundled
    ),
]
