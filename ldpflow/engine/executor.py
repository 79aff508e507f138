"""The protocol of executors: what runs batches for the engine's loop."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from ldpflow.errors import LdpflowError
from ldpflow.simulators.batch import Batch, BatchResult, simulate
from ldpflow.simulators.stored import description, names_file
from ldpflow.store import PartMeta, RunStore, cell_id
from ldpflow.store.provenance import versions
from ldpflow.study.plugins import plugins_of

__all__ = ["Executor", "Outcome", "part_meta", "publish_trajectories", "run_batch", "said"]


@dataclass(frozen=True)
class Outcome:
    """A batch that has come back; ``error`` is the reason why there are no rows, or None."""

    batch: Batch
    error: str | None = None
    kernel_seconds: float = 0.0
    seconds: float = 0.0
    statistics: Any = None


class Executor(Protocol):
    """Runs batches and hands their rows to the store's aggregators."""

    @property
    def cores(self) -> int:
        """Cores that batches are cut for."""

    @property
    def capacity(self) -> int:
        """Batches that may be in flight; asked before every one, since nodes come and go."""

    def submit(self, batch: Batch) -> None:
        """Start a batch."""

    def wait(self, timeout: float) -> list[Outcome]:
        """Batches that came back, in completion order; may be empty after ``timeout`` seconds."""

    def drop(self) -> None:
        """Give up the batches in flight; at most seconds may pass from here to :meth:`close`."""

    def flush(self) -> list[Outcome]:
        """Publish every row received so far; returns batches whose rows turned out to be lost."""

    def close(self) -> None:
        """Stop what this executor started."""


def publish_trajectories(store: RunStore, batch: Batch, result: BatchResult) -> None:
    """Write the trajectories of a batch: one part, which needs no neighbours."""
    if result.trajectories is not None:
        cells = [{"checkpoints": batch.checkpoints}]
        store.trajectories.write(batch.simulator.key, result.trajectories, part_meta(batch), cells)


def run_batch(batch: Batch) -> BatchResult:
    """Run a batch in a thread or process that serves several.

    Raises
    ------
    Exception
        What the batch raised; also where a plug-in's code called ``sys.exit`` or raised KeyboardInterrupt,
        which would end the thread.
    """
    try:
        return simulate(batch)
    except Exception:
        raise
    except BaseException as error:
        raise LdpflowError(f"{type(error).__name__}: {error}") from error


def said(error: Exception) -> str:
    """Message of an error, with its class name unless it is one of ldpflow's own."""
    return str(error) if isinstance(error, LdpflowError) else f"{type(error).__name__}: {error}"


def part_meta(batch: Batch) -> PartMeta:
    """Metadata of the parts of a batch."""
    from ldpflow.random.streams import STREAM_VERSION

    simulator = batch.simulator
    methods = [cell.method for cell in batch.cells]
    plugins = plugins_of([*simulator.parts().values(), *methods])
    found = package_versions() | {plugin.version_name: plugin.sha256 for plugin in plugins}
    return PartMeta(
        batch.seed,
        STREAM_VERSION,
        simulator.settings(),
        found,
        description(simulator) if plugins or names_file(simulator.settings()) else None,
        {cell_id(cell.columns()): cell.runs for cell in batch.cells if cell.runs > 1},
    )


@cache
def package_versions() -> dict[str, str]:
    """Versions of what computes rows."""
    return versions()
