"""The command line: parses, calls, prints; decides nothing.

Only Typer is imported here: commands import what they call when they run, so that
``ldpflow --help`` answers at once.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from typing import Annotated, NoReturn, TextIO

import typer

from ldpflow.cli.catalogue import catalogue, check_plugin, new, replay
from ldpflow.cli.flags import FlagCommand, with_plugins
from ldpflow.cli.plan import plan
from ldpflow.cli.practice import analyse, audit, privacy, transcript
from ldpflow.cli.results import cite, compare, explain, export, plot, report, summary, trace, verify
from ldpflow.cli.submit import jobs, submit
from ldpflow.cli.sweep import check, sweep
from ldpflow.errors import EngineLost, InputError, LdpflowError, address_limit, plain_text

__all__ = ["app", "main"]

app = typer.Typer(
    name="ldpflow",
    help="Run Monte Carlo studies of confidence intervals from locally private SGD.\n\n"
    "The randomness in a simulation is seeded floating-point noise: it studies statistics and protects "
    "no data. Do not use it to randomise real records.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def print_version(given: bool) -> None:
    """Print the version and the folder of compiled kernels, and end."""
    if given:
        from ldpflow import __version__
        from ldpflow.numerics.kernels import cache_place

        typer.echo(f"ldpflow {__version__}\nkernels: {cache_place()}")
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
    """Options that stand before a command."""


COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "Run": {"sweep": sweep, "replay": replay, "check": check},
    "Results": {
        "summary": summary,
        "explain": explain,
        "compare": compare,
        "verify": verify,
        "report": report,
        "plot": plot,
        "trace": trace,
        "export": export,
        "cite": cite,
    },
    "Plan": {"plan": plan},
    "Privacy and collected reports": {
        "privacy": privacy,
        "audit": audit,
        "analyse": analyse,
        "transcript": transcript,
    },
    "Clusters": {"submit": submit},
    "Components": {"list": catalogue, "new": new, "check-plugin": check_plugin},
}
"""Commands by the heading under which the help lists them."""

REMOVED = {
    "compact": "ldpflow sweep STUDY --out RUN: a sweep merges small parts by itself",
    "arena": "ldpflow report RUN, whose section `Which interval?` recommends a method for every setting",
    "tune": "ldpflow sweep STUDY --c 0.5 --c 1 --beta 0.7 --beta 0.8 --out RUN, then ldpflow summary RUN "
    "--best (and ldpflow compare RUN --by c)",
    "watch": "ldpflow report RUN --follow",
}
"""Commands of earlier versions, and what to type in their place."""

WITHOUT_PLUGINS = {"new", "check-plugin"}
"""Commands that neither compute nor show anything of a plug-in's components."""

for panel, commands in COMMANDS.items():
    for name, command in commands.items():
        taking = command if name in WITHOUT_PLUGINS else with_plugins(command)
        app.command(name, cls=FlagCommand, rich_help_panel=panel)(taking)
app.add_typer(jobs, name="jobs", rich_help_panel="Clusters")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; the console's entry point.

    Returns
    -------
    int
        0 done; 1 ran but a check failed; 2 bad input; 130 interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what a locale cannot show is shown as a question mark
            stream.reconfigure(errors="replace")
    code = called(arguments)
    try:
        sys.stdout.flush()
    except OSError as error:
        code = output_lost(error, code or 2)
    if arguments is None:
        leave_batches(code)
    return code


def leave_batches(code: int) -> None:
    """End the process at once where a batch that was given up still runs: its kernel may take minutes."""
    executors = sys.modules.get("ldpflow.engine.loop")
    if executors is not None and executors.dropped_batches():
        sys.stderr.flush()
        os._exit(code)


def output_lost(error: OSError, code: int) -> int:
    """Say that the output cannot be written, and drop what is left of it; the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python fails again at its end
    return said(f"standard output cannot be written to: {error.strerror or error}", code)


LEAST_ADDRESSES = 1280 * 2**20
"""Bytes of address space below which PyArrow, Numba or BLAS may crash or hang where memory is short."""


def check_limit(arguments: Sequence[str]) -> None:
    """Refuse a limit of address space (ulimit -v) under which libraries would crash; help needs less."""
    limit = address_limit()
    if limit < LEAST_ADDRESSES and not {"-h", "--help", "--version"} & {*arguments}:
        raise MemoryError(
            f"the limit is {limit / 2**20:,.0f} MiB, and {LEAST_ADDRESSES / 2**20:,.0f} are needed"
        )


def called(arguments: Sequence[str] | None) -> int:
    """Run a command line; its exit code. An error is one message."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] in REMOVED:
        return said(f"the command `{given[0]}` is gone; type: {REMOVED[given[0]]}", 2)
    try:
        check_limit(given)
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = print_warning
            app(args=arguments, prog_name="ldpflow")
    except EngineLost as error:
        leave_at_once(str(error))
    except KeyboardInterrupt:
        return 130
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    except Exception as error:
        return refused(error)
    return 0


def leave_at_once(message: str) -> NoReturn:
    """End the process: the interpreter's own end would wait for a Ray that is gone, or crash in it."""
    code = said(message, 1)
    sys.stdout.flush()
    os._exit(code)


OF_MEMORY = "map segment|allocate memory|shared object file|launch worker thread|start new thread"
"""Pattern of libraries' error messages where a limit leaves them no memory."""


def refused(error: Exception) -> int:
    """Say what is wrong in one message, unless the error is a mistake of ours; the exit code."""
    if isinstance(error, MemoryError) or re.search(OF_MEMORY, str(error)):
        limit = "free some, raise the limit (ulimit -v), or ask for less"
        return said(f"not enough memory ({str(error) or 'for this process'}): {limit}", 2)
    if isinstance(error, InputError):
        return said(str(error), 2)
    if "No such file" in str(error) and not directory_exists():
        return said("the current directory is gone: change to another one", 2)
    if isinstance(error, LdpflowError):
        return said(str(error), 1)
    if not isinstance(error, OSError):
        raise error
    if error.errno == errno.ENOSPC and error.filename is None:
        return output_lost(error, 2)  # files are named, and the store has an error of its own
    return said(f"the system refused: {error}", 2)


def directory_exists() -> bool:
    """Whether the current directory is still there."""
    try:
        return bool(os.getcwd())
    except OSError:
        return False


def said(message: str, code: int) -> int:
    """Print a message without what a terminal would obey; the exit code."""
    print(f"ldpflow: {plain_text(message)}", file=sys.stderr)
    return code


def print_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning as one line; of other packages' warnings only those meant for users."""
    if issubclass(category, UserWarning):
        print(f"ldpflow: warning: {plain_text(' '.join(str(message).split()))}", file=sys.stderr)
