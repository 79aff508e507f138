"""Options of a sweep, for the command line, Python, the engine and its executors."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from enum import StrEnum
from typing import Any

from ldpflow.errors import InputError


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
    """Read a duration in seconds, such as ``90``, ``90s``, ``1h30m`` or ``1.5h``."""
    pieces = re.findall(r"(\d+(?:\.\d+)?)([smhd])", text) if text.isascii() else []
    if re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        pieces = [(text, "s")]
    elif "".join(number + unit for number, unit in pieces) != text:
        pieces = []
    seconds = sum(float(number) * SECONDS[unit] for number, unit in pieces)
    if not 0 < seconds < 1e9:
        raise InputError("max_time", text, "a time above 0 such as 90s, 45m, 2h or 1h30m")
    return seconds


def read_bytes(text: str) -> int:
    """Read a size in bytes, such as ``500M``, ``8G`` or ``1.5GiB``. Units are powers of 1024."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text, re.IGNORECASE | re.ASCII)
    size = float(match[1]) * BYTES[match[2].lower()] if match else 0.0
    if not 1 <= size < 2**60:
        raise InputError("max_memory", text, "a size such as 500M or 8G")
    return int(size)


def option(
    default: Any,
    kind: type[Any],
    allowed: str,
    help: str,
    *,
    least: float = float("-inf"),
    most: float = float("inf"),
    read: Callable[[str], Any] | None = None,
    shown: str | None = None,
) -> Any:
    """Declare a field of :class:`SweepOptions`.

    ``allowed``: allowed values as text. ``least``, ``most``: inclusive bounds of a number. ``read``: parser
    of a text. ``shown``: text for a default of None.
    """
    bounds = {"kind": kind, "allowed": allowed, "least": least, "most": most, "read": read}
    return field(default=default, metadata={"help": help, "shown": shown, **bounds})


COUNT = "a whole number above 0"


@dataclass(frozen=True)
class SweepOptions:
    """Options of a sweep with defaults, allowed values and help. None: not given.

    Raises
    ------
    InputError
        Names the field.
    """

    engine: str = option(
        "auto", str, f"one of {', '.join(ENGINES)}", "auto: threads, or Ray for more than a minute of work."
    )
    address: str | None = option(
        None, str, "auto or HOST:6379", "Ray cluster to join: auto, or HOST:6379; see submit for HTTP."
    )
    num_cpus: int | None = option(
        None, int, COUNT, "Cores for a local Ray; with `address`, cores to ask for.",
        least=1, shown="all",
    )  # fmt: skip
    nice: int | None = option(
        None, int, "a whole number from 0 to 19",
        "Niceness of a local Ray's workers; 0 shares a busy machine equally.", least=0, most=19, shown="15",
    )  # fmt: skip
    keep_ray: bool = option(
        False, bool, "True or False", "Leave a local Ray running; it ends with the process."
    )
    fresh: bool = option(False, bool, "True or False", "Move an old run aside and start over.")
    target_mcse: float | None = option(
        None, float, "a number in (0, 0.25]", "Replicates until every coverage has this MCSE.",
        least=5e-324, most=0.25,
    )  # fmt: skip
    target_length: float | None = option(
        None, float, "a number in (0, 1]", "Replicates until every mean length has this relative MCSE.",
        least=5e-324, most=1.0,
    )  # fmt: skip
    min_replicates: int | None = option(
        None, int, COUNT, "With a target: the fewest replicates.", least=1, shown="256"
    )
    max_replicates: int | None = option(
        None, int, COUNT, "With a target: the most replicates.", least=1, shown="100000"
    )
    max_time: float | None = option(
        None, float, "seconds above 0, or a time such as 45m or 1h30m",
        "Stop after this time: 90s, 45m, 2h, 1h30m.", least=5e-324, read=read_seconds,
    )  # fmt: skip
    max_memory: float | None = option(
        None, float, "bytes above 0, or a size such as 8G", "Stop above this memory, Ray included: 8G.",
        least=5e-324, read=read_bytes,
    )  # fmt: skip
    max_in_flight: int | None = option(
        None, int, COUNT, "Most batches under way at a time, on Ray.", least=1, shown="twice the cores"
    )
    retries: int = option(
        3, int, "a whole number from 0 to 1000", "How often to repeat a batch whose worker died.",
        least=0, most=1000,
    )  # fmt: skip
    verbose: bool = option(False, bool, "True or False", "Show Ray's own log.")

    def __post_init__(self) -> None:
        for declared in fields(self):
            given = getattr(self, declared.name)
            if given is not None or declared.default is not None:
                object.__setattr__(self, declared.name, option_value(declared, given))
        if self.engine not in ENGINES:
            raise InputError("engine", self.engine, f"one of {', '.join(ENGINES)}")
        if self.engine in ("serial", "threads") and self.address is not None:
            raise InputError("address", self.address, f"nothing where `engine` is {self.engine}")
        if self.target_mcse is None and self.target_length is None:
            for name in ("min_replicates", "max_replicates"):
                if (value := getattr(self, name)) is not None:
                    raise InputError(name, value, "nothing without `target_mcse` or `target_length`")

    @property
    def until_precise(self) -> bool:
        return self.target_mcse is not None or self.target_length is not None


def option_value(declared: Field[Any], given: object) -> Any:
    """Check an option. Convert NumPy's types, texts and whole floats."""
    kind, allowed, least, most, read = (
        declared.metadata[name] for name in ("kind", "allowed", "least", "most", "read")
    )
    value: Any = given
    if getattr(given, "ndim", None) == 0:
        value = value.item()
    if read is not None and isinstance(value, str):
        value = read(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind or (kind in (int, float) and not least <= value <= most):
        raise InputError(declared.name, given, allowed)
    return value
