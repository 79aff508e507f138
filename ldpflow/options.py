"""Options of sweeps and plans, for the command line, Python, the engine and its executors."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from enum import StrEnum
from inspect import Parameter, signature
from typing import Any, TypeVar

from ldpflow.documents import python_values
from ldpflow.errors import AGAIN, InputError


class Engine(StrEnum):
    """Executor of batches."""

    auto = "auto"
    threads = "threads"
    ray = "ray"
    serial = "serial"


ENGINES = tuple(map(str, Engine))

SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def read_seconds(text: str) -> float:
    """Read a duration such as ``90``, ``90s``, ``1h30m`` or ``1.5h``, in seconds."""
    given = f"{text}s" if re.fullmatch(r"[\d.]+", text) else text
    pieces = re.findall(r"(\d+(?:\.\d+)?)([smhd])", given, re.ASCII)
    seconds = sum(float(number) * SECONDS[unit] for number, unit in pieces)
    if "".join(map("".join, pieces)) != given or not 0 < seconds < 1e9:
        raise InputError("max_time", text, "a time above 0 such as 90s, 45m, 2h or 1h30m")
    return seconds


def read_bytes(text: str) -> int:
    """Read a size such as ``500M``, ``8G`` or ``1.5GiB``, in bytes. Units are powers of 1024."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text, re.IGNORECASE | re.ASCII)
    size = float(match[1]) * BYTES[match[2].lower()] if match else 0.0
    if not 1 <= size < 2**60:
        raise InputError("max_memory", text, "a size such as 500M or 8G")
    return int(size)


Rule = tuple[str, Callable[[Any], bool]]
"""Allowed values in words, and a function that tells whether a value is allowed."""

WHOLE: Rule = "a whole number above 0", lambda x: isinstance(x, int) and x >= 1
POSITIVE: Rule = "a number > 0", lambda x: 0 < x < math.inf
LENGTH: Rule = "a number in [1e-100, 1e100]", lambda x: 1e-100 <= x <= 1e100  # its square is a double
FINITE: Rule = "a finite number", lambda x: abs(x) <= sys.float_info.max
SHARE: Rule = "a number in (0, 1]", lambda x: 0 < x <= 1
INSIDE: Rule = "a number in (0, 1)", lambda x: 0 < x < 1
FLAG: Rule = "True or False", lambda x: True

KINDS: dict[str, type[Any]] = {"str": str, "int": int, "float": float, "bool": bool}
"""Type of a sweep option by the first word of its annotation."""


def option(
    help: str,
    rule: Rule | None = None,
    default: Any = None,
    read: Callable[[str], Any] | None = None,
    shown: str | None = None,
) -> Any:
    """Declare an option. ``read`` parses a text. ``shown`` is the help's text for a default of None."""
    return field(default=default, metadata={"help": help, "rule": rule, "read": read, "shown": shown})


@dataclass(frozen=True)
class SweepOptions:
    """Options of a sweep with defaults, allowed values and help. None means that an option is not given.

    Raises
    ------
    InputError
        If a value is not allowed, or an option needs another one.
    """

    engine: str = option(
        "auto: threads, or Ray for more than a minute of work.",
        (f"one of {', '.join(ENGINES)}", lambda x: x in ENGINES),
        "auto",
    )
    address: str | None = option(
        "Ray cluster to join: auto, or HOST:6379; for an HTTP address use submit.",
        ("auto or HOST:6379", lambda x: True),
    )
    num_cpus: int | None = option(
        "Threads, or cores of a local Ray. With `address`: cores of the cluster.", WHOLE, shown="all"
    )
    nice: int | None = option(
        "Niceness of a local Ray's workers. 0 gives them the priority of other programs.",
        ("a whole number from 0 to 19", lambda x: 0 <= x <= 19),
        shown="15",
    )
    keep_ray: bool = option("Keep a local Ray until the process ends.", FLAG, False)
    fresh: bool = option("Move an old run aside and start over.", FLAG, False)
    target_mcse: float | None = option(
        "Add replicates until every coverage has at most this MCSE.",
        ("a number in (0, 0.25]", lambda x: 0 < x <= 0.25),
    )
    target_length: float | None = option(
        "Add replicates until every mean length has at most this relative MCSE.", SHARE
    )
    min_replicates: int | None = option("Fewest replicates of a sweep with a target.", WHOLE, shown="256")
    max_replicates: int | None = option("Most replicates of a sweep with a target.", WHOLE, shown="100000")
    max_time: float | None = option(
        "Stop after this time: 90s, 45m, 2h, 1h30m.",
        ("seconds above 0, or a time such as 45m or 1h30m", lambda x: x > 0),
        read=read_seconds,
    )
    max_memory: float | None = option(
        "Stop if the sweep takes more memory than this: 8G. The processes of Ray count too.",
        ("bytes above 0, or a size such as 8G", lambda x: x > 0),
        read=read_bytes,
    )
    max_in_flight: int | None = option(
        "Most batches that run or wait on Ray at a time.", WHOLE, shown="twice the cores"
    )
    retries: int = option(
        "How often to repeat a batch whose worker died.",
        ("a whole number from 0 to 1000", lambda x: 0 <= x <= 1000),
        3,
    )
    verbose: bool = option("Show Ray's own log.", FLAG, False)

    def __post_init__(self) -> None:
        for declared in fields(self):
            given = getattr(self, declared.name)
            if given is not None or declared.default is not None:
                object.__setattr__(self, declared.name, option_value(declared, given))
        if self.engine in ("serial", "threads") and self.address is not None:
            raise InputError("address", self.address, "needs `engine` = ray or auto")
        if self.target_mcse is None and self.target_length is None:
            for name in ("min_replicates", "max_replicates"):
                if (value := getattr(self, name)) is not None:
                    raise InputError(name, value, "needs `target_mcse` or `target_length`")

    @property
    def until_precise(self) -> bool:
        return self.target_mcse is not None or self.target_length is not None

    @property
    def again(self) -> str:
        """Advice on how to continue the sweep. A sweep with ``fresh`` would start over."""
        return AGAIN.replace("again", "without `fresh`") if self.fresh else AGAIN


def kind_of(declared: Field[Any]) -> type[Any]:
    return KINDS[str(declared.type).partition(" ")[0]]


def option_value(declared: Field[Any], given: object) -> Any:
    """Convert an option from a text, from NumPy's types or from a whole float, and check it."""
    kind, read, (allowed, suits) = kind_of(declared), declared.metadata["read"], declared.metadata["rule"]
    value: Any = python_values(given)
    if read is not None and isinstance(value, str):
        value = read(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind or not suits(value):
        raise InputError(declared.name, given, allowed)
    return value


Function = TypeVar("Function", bound=Callable[..., Any])


def with_options(kind: type[Any], *left_out: str) -> Callable[[Function], Function]:
    """Decorate a function: the fields of ``kind`` replace ``**options`` in its signature.

    They also replace ``{options}`` in its docstring. Fields in ``left_out`` are skipped.
    """

    def declare(function: Function) -> Function:
        own = signature(function)
        parameters = [one for one in own.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
        entries = []
        for declared in fields(kind):
            if declared.name not in left_out:
                details = declared.metadata
                annotation = f"str | {declared.type}" if details["read"] else declared.type
                keyword = Parameter(declared.name, Parameter.KEYWORD_ONLY, default=declared.default)
                parameters.append(keyword.replace(annotation=annotation))
                default = f" Default: {details['shown']}." if details["shown"] else ""
                if details["read"]:
                    default = f" As a number: {details['rule'][0].partition(',')[0]}."
                entries.append(f"    {declared.name} : {annotation}\n        {details['help']}{default}\n")
        function.__doc__ = str(function.__doc__).replace("    {options}\n", "".join(entries))
        function.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        return function

    return declare


def make_options(function: Callable[..., Any], kind: type[Any], given: Mapping[str, Any], **own: Any) -> Any:
    """Make options of ``kind``. Refuse names in ``given`` that no parameter of ``function`` has."""
    from ldpflow.settings import closest

    names = [*signature(function).parameters]
    for name, value in given.items():
        if name not in names:
            raise InputError(name, value, f"one of {', '.join(names)}", closest(name, names))
    return kind(**given, **own)


MOST_USERS = 10**12
USERS: Rule = f"an integer in [1, {MOST_USERS:g}]", lambda x: 1 <= x <= MOST_USERS and x == int(x)


@dataclass(frozen=True)
class PlanOptions:
    """Options of :func:`ldpflow.plan`. An option whose help ends with * may be a list.

    Its values replace those of the study.
    """

    pilot: Any = option(  # noqa: RUF009
        "Parquet or CSV file with pilot data; in Python also a table, or a mapping of columns."
    )
    column: str | None = option("Column of the pilot's values. Optional if the pilot has one column.")
    count_column: str | None = option("Column with the number of records of each value. Default: one record.")
    missing: str | None = option("drop: leave out records without a value. By default they are an error.")
    missing_value: float | Sequence[float] | None = option(
        "Number that stands for no value, such as -1 or 9999, or several. Their records are left out.",
        ("a number", lambda x: True),
    )
    jitter: float | None = option("Width of the noise that users add to their value.", POSITIVE)
    transform: str | None = option(
        "log1p, log or sqrt: scale of steps, starts and bins. Other numbers are in the unit of the values."
    )
    edges: Sequence[float] | None = option(
        "Increasing knots of a piecewise linear scale, instead of `transform`.", FINITE
    )
    bounds: Sequence[float] | None = option("Public bounds of the values.", FINITE)
    tau: float | Sequence[float] | None = option("Level of the quantile. *", INSIDE)
    epsilon: float | Sequence[float] | None = option("Privacy budget. *", POSITIVE)
    n: float | Sequence[float] | None = option("Users. *", USERS)
    level: float | Sequence[float] | None = option("Nominal coverage. *", INSIDE)
    half_width: float | Sequence[float] | None = option(
        "Wanted half width. The plan has the n for each epsilon and the epsilon for each n that reach it. "
        "With `compare`: one for all `tau`, or one for each.",
        LENGTH,
    )
    response_rate: float | None = option(
        "Share of invited users who answer. The plan then has the number of users to invite.", SHARE
    )
    difference: float | None = option(
        "Difference between two groups to detect. The plan then has the users of each group.", LENGTH
    )
    power: float = option("Probability of detecting the difference.", INSIDE, 0.8)
    seed: int = option("Seed of the resampled pilots.", default=0)
    compare: bool = option(
        "Compare all protocols for all quantiles of a study or pilot, with equally many users.",
        default=False,
    )
    range: tuple[float, float] | None = option(
        "Public range of the values. Default: the range of the study's protocols.", FINITE
    )
    liars: float | None = option(
        "Share of users who send the worst report. Default with a pilot: .01.",
        ("a number in [0, 1)", lambda x: 0 <= x < 1),
    )
    answer_below: float | None = option("Response rate of users with values up to the quantile.", SHARE)
    answer_above: float | None = option("Response rate of users with values above the quantile.", SHARE)
    answers: int | None = option(
        "Answers of each user. The budget is split between the answers.",
        ("an integer in [1, 64]", lambda x: isinstance(x, int) and 1 <= x <= 64),
    )
    replicates: int | None = option("Replicates of every simulation of a comparison.", WHOLE)

    def __post_init__(self) -> None:
        if self.compare:
            self.refuse(("difference", "bounds"), "cannot be used with `compare`")
        else:
            self.refuse(("range", *OF_A_COMPARISON), "needs `compare`")
        # A study checks the values of its own axes.
        by_study = AXES if self.pilot is None and self.bounds is None else ()
        for declared in fields(self):
            if declared.metadata["rule"] is None or declared.name in by_study:
                continue
            allowed, suits = declared.metadata["rule"]
            given = getattr(self, declared.name)
            values = list_of(given)
            several = isinstance(python_values(given), (list, tuple, range))
            if several and not re.search("Sequence|tuple", str(declared.type)):
                raise InputError(declared.name, given, allowed)
            for value in values:
                number = isinstance(value, (int, float)) and not isinstance(value, bool)
                if value is not None and not (number and suits(value)):
                    raise InputError(declared.name, value, allowed)
        if len(list_of(self.half_width)) > 1 and not self.compare:
            raise InputError("half_width", self.half_width, "one number, or several with `compare`")
        for name in ("range", "bounds"):
            given = getattr(self, name)
            ends = list_of(given)
            ordered = len(ends) == 2 and None not in ends and 0 < ends[1] - ends[0] < math.inf
            if given is not None and not ordered:
                raise InputError(name, given, "two finite numbers, the smaller one first")

    def refuse(self, names: Sequence[str], allowed: str) -> None:
        for name in names:
            if getattr(self, name) is not None:
                raise InputError(name, getattr(self, name), allowed)

    @property
    def target(self) -> Any:
        """Wanted half width, or a list of one for each quantile."""
        wanted = list_of(self.half_width)
        return wanted[0] if len(wanted) == 1 else wanted

    def invitations(self, n: int | None) -> int | None:
        if n is None or self.response_rate is None:
            return None
        return math.ceil(n / self.response_rate * (1 - 1e-12))

    @property
    def axes(self) -> dict[str, list[Any]]:
        found = {name: getattr(self, name) for name in AXES}
        return {name: list_of(value) for name, value in found.items() if value is not None}

    @property
    def ends(self) -> tuple[float, float] | None:
        return None if self.range is None else (float(self.range[0]), float(self.range[1]))

    @property
    def comparison(self) -> dict[str, Any]:
        """Settings that were given for a comparison, with the half width and the response rate."""
        found = {name: value for name in OF_A_COMPARISON if (value := getattr(self, name)) is not None}
        return found | {"half_width": self.target, "response": self.response_rate or 1.0}


AXES = ("tau", "epsilon", "n", "level")
OF_A_PILOT = ("column", "count_column", "missing", "missing_value", "jitter", "transform", "edges")
OF_A_COMPARISON = ("liars", "answer_below", "answer_above", "answers", "replicates")
PLAN_OPTIONS = {declared.name: declared for declared in fields(PlanOptions)}


def list_of(value: Any) -> list[Any]:
    value = python_values(value)
    return [*map(python_values, value)] if isinstance(value, (list, tuple, range)) else [value]
