"""Which kernels the batches of a sweep need, and which of them it waits for."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ldpflow.engine.batching import Batches
from ldpflow.simulators.batch import Batch

__all__ = ["Kernels"]

MOST_PATHS = 500
"""Paths up to which the kernels of a sweep are counted before it begins."""


class Kernels:
    """The kernels of a sweep: a kernel is ready when a batch that needs it has come back.

    Parameters
    ----------
    batches : Batches
    compiling : callable, optional
        How many kernels this process compiles now; None where other processes compile.
    """

    def __init__(self, batches: Batches, compiling: Callable[[], int] | None = None) -> None:
        self.compiling = compiling
        self.known: dict[int, tuple[Hashable, str]] = {}
        self.ready: set[Hashable] = set()
        self.sent: dict[Hashable, str] = {}
        missing = {id(run.missing.simulator): run.missing for run in batches.runs}
        self.total: int | None = None
        if len(missing) <= MOST_PATHS:
            wanted = [(m.simulator, 0, 0, 0, m.cells, m.witnesses, m.checkpoints) for m in missing.values()]
            self.total = len({self.of(Batch(*one))[0] for one in wanted})

    def of(self, batch: Batch) -> tuple[Hashable, str]:
        """What a batch's kernel is known by, and its name."""
        simulator = batch.simulator
        found = self.known.get(id(simulator))
        if found is None:
            request = simulator.needs(batch.cells + batch.witnesses, batch.checkpoints)
            kinds = [str(part.kind) for part in simulator.parts().values()]
            name = ", ".join(kind for kind in kinds if kind != "none")
            found = self.known[id(simulator)] = (repr(simulator.kernel(request)), name)
        return found

    def submitted(self, batch: Batch) -> None:
        """A batch has been sent out."""
        key, name = self.of(batch)
        self.sent.setdefault(key, name)

    def returned(self, batch: Batch) -> None:
        """A batch has come back."""
        self.ready.add(self.of(batch)[0])

    def waiting(self) -> str:
        """What is waited for: the first kernel that was sent out and is not ready; empty if all are."""
        names = [(at, name) for at, (key, name) in enumerate(self.sent.items(), 1) if key not in self.ready]
        if not names or (self.compiling is not None and not self.compiling()):
            return ""
        at, name = names[0]
        number = f"{at}" if self.total is None else f"{at} of {self.total}"
        doing = "compiling" if self.compiling is not None else "first batch with"
        left = len(names) - 1 + (0 if self.total is None else self.total - len(self.sent))
        more = f", {left} more to come" if left else ""
        return f"{doing} kernel {number} ({name}){more}"
