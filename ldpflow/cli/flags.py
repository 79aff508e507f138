"""Naming a field of an error as the flag that set it.

The library names fields (``mechanism.epsilon``, ``out``). A command shows a field as its own flag where
the field is one of the command's arguments, or the last part of its name is a flag that was given.
"""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.core import TyperCommand

from ldpflow.errors import InputError

__all__ = ["FlagCommand"]


class FlagCommand(TyperCommand):
    """A command whose input errors name its flags."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            raise with_flags(error, ctx) from error


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
