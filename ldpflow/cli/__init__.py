"""The command line. Commands parse arguments, call the library and print.

A command imports what it calls when it runs. So ``ldpflow --help`` takes little time.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from typing import Annotated, Any, NoReturn

import typer

from ldpflow.cli.catalogue import catalogue, check_plugin, new
from ldpflow.cli.flags import Commands, FlagCommand, print_wrapped, with_plugins
from ldpflow.cli.plan import plan
from ldpflow.cli.practice import analyse, audit, privacy, transcript
from ldpflow.cli.results import cite, compare, explain, export, plot, report, summary, trace, verify
from ldpflow.cli.submit import submit
from ldpflow.cli.sweep import check, replay, sweep
from ldpflow.errors import EngineLost, InputError, LdpflowError, address_limit, plain_text

app = typer.Typer(
    name="ldpflow",
    cls=Commands,
    help="Run Monte Carlo studies of confidence intervals from locally private SGD.\n\n"
    "The noise of a simulation is seeded floating-point noise. It serves to study statistics and protects no "
    "data. Do not randomise real records with it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def print_version(given: bool) -> None:
    if given:
        from ldpflow import __version__
        from ldpflow.numerics.kernels import cache_location

        typer.echo(f"ldpflow {__version__}\nkernels: {cache_location()}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=print_version,
            is_eager=True,
            help="Print the version and the folder of compiled kernels.",
        ),
    ] = False,
) -> None:
    """Options before the name of a command."""


def by_name(*commands: Callable[..., None]) -> dict[str, Callable[..., None]]:
    return {command.__name__.replace("_", "-"): command for command in commands}


COMMANDS = {
    "Run": by_name(sweep, replay, check),
    "Results": by_name(summary, explain, compare, verify, report, plot, trace, export, cite),
    "Plan": by_name(plan),
    "Privacy and collected reports": by_name(privacy, audit, analyse, transcript),
    "Clusters": by_name(submit),
    "Components": {"list": catalogue, **by_name(new, check_plugin)},
}
"""Commands by their heading in the help."""

WITHOUT_PLUGINS = {"new", "check-plugin"}
"""Commands without the option ``--plugin``."""

for panel, commands in COMMANDS.items():
    for name, command in commands.items():
        taking = command if name in WITHOUT_PLUGINS else with_plugins(command)
        app.command(name, cls=FlagCommand, rich_help_panel=panel)(taking)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code.

    0: done. 1: a check failed, or the run broke off. 2: bad input, or the system refused a file or memory.
    130: interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # characters that the locale lacks become question marks
            stream.reconfigure(errors="replace")
    code = run_command(arguments)
    try:
        sys.stdout.flush()
    except OSError as error:
        code = drop_output(error, code or 2)
    loop = sys.modules.get("ldpflow.engine.loop")
    if arguments is None and loop is not None and loop.dropped_batches():
        # A dropped batch may run for minutes, and the interpreter would wait for it.
        sys.stderr.flush()
        os._exit(code)
    return code


def drop_output(error: OSError, code: int) -> int:
    """Print that the output cannot be written, and discard the rest of the output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python fails again when it exits
    return print_error(f"standard output cannot be written to: {error.strerror or error}", code)


LEAST_ADDRESSES = 1280 * 2**20  # bytes. With less, PyArrow, Numba or BLAS may crash or hang.


def check_limit(arguments: Sequence[str]) -> None:
    """Refuse a limit of address space (ulimit -v) under which libraries would crash, except for help."""
    limit = address_limit()
    if limit < LEAST_ADDRESSES and not {"-h", "--help", "--version"} & {*arguments}:
        raise MemoryError(
            f"the limit is {limit / 2**20:,.0f} MiB, and {LEAST_ADDRESSES / 2**20:,.0f} are needed"
        )


def check_words(arguments: Sequence[str]) -> None:
    """Refuse a second condition, which would replace the first."""
    count = sum(word == "--where" or word.startswith("--where=") for word in arguments)
    if count > 1:
        raise InputError("where", f"{count} conditions", "one condition", "Join them: --where 'A and B'.")


def run_command(arguments: Sequence[str] | None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    try:
        check_limit(given)
        check_words(given)
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = print_warning
            app(args=arguments, prog_name="ldpflow")
    except EngineLost as error:
        leave_at_once(str(error))
    except KeyboardInterrupt:
        return print_error("interrupted", 130)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    except Exception as error:
        return report_error(error)
    return 0


def leave_at_once(message: str) -> NoReturn:
    """End the process at once. A normal exit would wait for a lost Ray, or crash in it."""
    code = print_error(message, 1)
    sys.stdout.flush()
    os._exit(code)


OF_MEMORY = "map segment|allocate memory|shared object file|launch worker thread|start new thread"
"""Pattern of error messages of libraries that have too little memory."""


def report_error(error: Exception) -> int:
    """Print an error as one message and return the exit code. Raise an unexpected error again."""
    if isinstance(error, MemoryError) or re.search(OF_MEMORY, str(error)):
        limit = "free memory, raise the limit (ulimit -v), or ask for less"
        return print_error(f"not enough memory ({str(error) or 'for this process'}): {limit}", 2)
    if isinstance(error, LdpflowError):
        return print_error(str(error), 2 if isinstance(error, InputError) else 1)
    if not isinstance(error, OSError):
        raise error
    if error.errno == errno.ENOSPC and error.filename is None:
        return drop_output(error, 2)  # an error of a file has its name; this one is of standard output
    if isinstance(error, FileNotFoundError) and error.filename is None:
        return print_error("the current directory is gone: change to another one", 2)
    return print_error(f"the system refused: {error}", 2)


def print_error(message: str, code: int) -> int:
    """Print a message without control characters, and return the exit code."""
    print_wrapped(f"ldpflow: {plain_text(message)}")
    return code


def print_warning(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
    """Print a warning on one line, if it is for users."""
    if issubclass(category, UserWarning):
        print_wrapped(f"ldpflow: warning: {plain_text(' '.join(str(message).split()))}")
