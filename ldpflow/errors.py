"""Errors and warnings for users. The message of an InputError says what is allowed."""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

CREDENTIALS = re.compile(r"(?<=://)(?:[^\s@]*:\S*@|[^/\s]+@)")
SECRETS = re.compile(
    r"(?i)([?&;#][\w-]*(?:secret|password|token|key|signature|sig|credential)[\w-]*=)"
    r"[^&;\s]+?(?=['\")\].,:]*(?:[&;\s]|$))"
)


def redact(text: str) -> str:
    """Hide the credentials of addresses in a text: ``s3://***@bucket``."""
    return SECRETS.sub(r"\1***", CREDENTIALS.sub("***@", text))


FIGURES_ADDRESSES = 66 * 2**30
"""Bytes of address space that drawing figures needs."""


def plain_text(text: str) -> str:
    """Escape control characters, which a terminal would execute."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def plain_line(text: str) -> str:
    """Escape control characters and line breaks, so that a name cannot imitate a line of output."""
    return plain_text(text).replace("\n", "\\n")


class LdpflowError(Exception):
    """Base of all errors that ldpflow raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Processes pickle errors. The default would call __init__ with the message alone.
        return rebuild_error, (type(self), self.args), self.__dict__


def rebuild_error(kind: type[LdpflowError], message: tuple[str, ...]) -> LdpflowError:
    error = kind.__new__(kind)
    error.args = message
    return error


class Caution(UserWarning):
    """Warning before the first batch of a sweep, such as that intervals will mislead.

    ``warnings.filterwarnings("ignore", category=ldpflow.Caution)`` hides these warnings.
    """


def warn(text: str, kind: type[Warning] = UserWarning) -> None:
    """Issue a warning for the line of the user's code that called ldpflow."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "ldpflow":
        level, frame = level + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=level)


class InputError(LdpflowError):
    """Invalid input. The command line prints the message and ends with exit code 2.

    Parameters
    ----------
    field : str
        Setting, column or argument, as in ``algorithm.gamma`` or ``out``. The command line prints an
        argument as a flag. Names in backquotes in ``allowed`` and ``hint`` become flags too.
    value : object
        The invalid value, or None if a value is missing.
    allowed : str
        Allowed values, as in ``a number in (1/2, 1)``. A text that begins with "needs" or "cannot" follows
        the field without the value, as in ``range needs compare``.
    hint : str, optional
        Further sentence: the nearest valid name, or what to do.
    """

    def __init__(self, field: str, value: object, allowed: str, hint: str = "") -> None:
        self.field = field
        self.value = value
        self.allowed = allowed
        self.hint = hint
        field, allowed, hint = (plain_text(redact(text)) for text in (field, allowed, hint))
        shown = redact(repr(value))
        if len(shown) > 200:
            shown = shown[:197] + "..."
        wrong = f"{field} is missing" if value is None else f"{field}: {shown} is not allowed"
        message = f"{wrong}; expected {allowed}."
        if allowed.startswith(("needs ", "cannot ")):
            message = f"{field} {allowed}.".replace("`", "")
        if hint:
            message += f" {hint}"
        super().__init__(message)


class DamagedRun(InputError):
    """Damaged, forged or missing file of a run."""


class MissingExtra(InputError):
    """Missing packages of an extra of ldpflow, such as ``report``."""

    def __init__(self, extra: str, packages: Sequence[str]) -> None:
        self.extra = extra
        self.packages = tuple(packages)
        super().__init__("installation", ", ".join(packages), f"the packages of the extra '{extra}'")
        verb = "is" if len(self.packages) == 1 else "are"
        self.args = (
            f"{', '.join(self.packages)} {verb} not installed. pip install 'ldpflow[{extra}]' installs the "
            f"missing packages; in a clone, pip install '.[{extra}]'.",
        )


def require_extra(extra: str, *modules: str) -> None:
    """Check that the modules of an extra are installed, and that ``vl_convert`` has enough address space.

    ``vl_convert`` ends the process if it cannot reserve this space.
    """
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise MissingExtra(extra, missing)
    if "vl_convert" in modules and address_limit() < FIGURES_ADDRESSES:
        raise LdpflowError(
            f"figures cannot be drawn with a limit of {address_limit() / 2**30:,.1f} GiB of address space "
            "(ulimit -v). Drawing reserves 66 GiB of it. Remove the limit"
        )


def address_limit() -> float:
    """Limit of this process's address space (``ulimit -v``) in bytes, infinite without a limit."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return math.inf if limit == resource.RLIM_INFINITY else float(limit)


AGAIN = "run the same command again"


class StorageError(LdpflowError, OSError):
    """Failed access to a run directory, such as a full disk or a network failure."""

    def __init__(self, root: str, reason: str, again: str = AGAIN) -> None:
        self.root = root
        self.reason = reason
        super().__init__(
            f"{redact(root)}: {redact(reason)}. What had finished is kept; put this right and {again} to "
            "continue."
        )


class EngineLost(LdpflowError):
    """Death of the process that ran the batches, such as a local Ray. Finished rows are kept."""


class SweepFailed(LdpflowError):
    """Failure of some batches of a sweep. Finished rows are kept in the run.

    ``result.failed_batches`` has a text for every failed batch: the cause, and the command that computes the
    batch again.
    """

    def __init__(self, result: Any) -> None:
        self.result = result
        count = len(result.failed_batches)
        reasons = distinct_failures(result.failed_batches)
        more = f"\nFurther reasons: {len(reasons) - 3}" if len(reasons) > 3 else ""
        super().__init__(
            f"{result.out}: {count} {'batch' if count == 1 else 'batches'} failed; "
            "what had finished is kept.\n" + "\n".join(reasons[:3]) + more
        )


def distinct_failures(failed: Sequence[str]) -> list[str]:
    """List the first failed batch of each reason, with the number of further batches for this reason."""
    groups: dict[str, list[str]] = {}
    for text in failed:
        groups.setdefault(text.partition(": ")[2].partition("\n")[0], []).append(text)
    return [
        first + f"\n  {len(others):,} more for the same reason" * bool(others)
        for first, *others in groups.values()
    ]


class SweepInterrupted(KeyboardInterrupt):
    """Orderly stop of an interrupted sweep. Finished rows are kept in the run."""

    def __init__(self, result: Any) -> None:
        self.result = result
        super().__init__(f"stopped; what had finished is in {result.out}")

    def __reduce__(self) -> tuple[type, tuple[Any]]:
        return (type(self), (self.result,))
