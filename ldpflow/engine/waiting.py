"""Which kernels the batches of a sweep need, and which of them it waits for."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from ldpflow.engine.batching import Batches, kernel_of
from ldpflow.simulators.batch import Batch
from ldpflow.simulators.simulator import Simulator

__all__ = ["Kernels"]

NAMED = ("problem", "law", "mechanism", "sampling", "algorithm", "protocol", "dimension")
"""Columns by whose values kernels are called."""

SILENT = (None, 1, "none", "data")

MOST_PATHS = 500
"""Paths up to which the kernels of a sweep are counted before it begins."""


class Kernels:
    """The kernels of a sweep: a kernel is ready when a batch that needs it has come back.

    Parameters
    ----------
    batches : Batches
    compiling : callable, optional
        Number of kernels that are being compiled; None where Ray's workers compile.
    """

    def __init__(self, batches: Batches, compiling: Callable[[], int] | None = None) -> None:
        self.compiling = compiling
        self.known: dict[int, tuple[Hashable, str]] = {}
        self.ready: set[Hashable] = set()
        self.sent: dict[Hashable, str] = {}
        missing = {id(run.missing.simulator): run.missing for run in batches.runs}
        self.total: int | None = None
        if len(missing) <= MOST_PATHS:
            self.total = len({m.kernel for m in missing.values()})

    def of(self, batch: Batch) -> tuple[Hashable, str]:
        """Key and name of a batch's kernel."""
        simulator = batch.simulator
        found = self.known.get(id(simulator))
        if found is None:
            found = self.known[id(simulator)] = (kernel_of(batch), name_of(simulator))
        return found

    def submitted(self, batch: Batch) -> None:
        """A batch has been sent out."""
        key, name = self.of(batch)
        self.sent.setdefault(key, name)

    def returned(self, batch: Batch) -> None:
        """A batch has come back."""
        self.ready.add(self.of(batch)[0])

    def waiting(self) -> str:
        """Text on the kernel that is waited for: the first one sent out and not ready; empty if all are."""
        names = [(at, name) for at, (key, name) in enumerate(self.sent.items(), 1) if key not in self.ready]
        compiling = 1 if self.compiling is None else min(self.compiling(), len(names))
        if not names or not compiling:
            return ""
        at, name = names[0]
        number = f"{at}" if self.total is None else f"{at} of {self.total}"
        doing = "compiling" if self.compiling is not None else "first batch with"
        others = ("", " and another")[compiling - 1] if compiling < 3 else f" and {compiling - 1} others"
        left = len(names) - compiling + (0 if self.total is None else self.total - len(self.sent))
        more = f", {left} more to come" if left else ""
        return f"{doing} kernel {number} ({name}){others}{more}"


def name_of(simulator: Simulator[Any, Any]) -> str:
    """Problem, law, mechanism and algorithm of a kernel, and its dimension where that is not 1."""
    columns = simulator.columns()
    values = {name: columns.get(name) for name in NAMED}
    words = [f"d = {v}" if name == "dimension" else str(v) for name, v in values.items() if v not in SILENT]
    return ", ".join(words)
